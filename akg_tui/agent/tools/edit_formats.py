"""read_kernel and edit_kernel as a model is told of them in each edit format.

Hashline's are in `domain_tools.yaml`; another format gives its own schema and words. The
format is fixed for a run, so the list of tools is too.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from akg_tui.agent.tools.definitions import Definition, Definitions
from akg_tui.hashline import Tagger
from akg_tui.hashline.formats import open_format

HASHLINE: Final = "hashline"

_HOW: Final = {
    "str_replace": (
        "Replace `old`, a text that stands in the kernel exactly once, by `new`. Blanks and "
        "line ends count."
    ),
    "str_replace lines": (
        "Replace `old`, whole lines that stand in the kernel exactly once, by `new`. Blanks count."
    ),
    "apply_patch": (
        "Apply a patch: `*** Begin Patch`, `*** Update File: {path}`, for each change `@@` and "
        "lines that begin with a blank (context), `-` or `+`, and `*** End Patch`."
    ),
    "unified diff": "Apply a unified diff of {path}, with three lines of context.",
}
_THEN: Final = (
    "An edit of another version than you were shown is refused and changes nothing. The harness "
    "evaluates the result by itself when your turn ends."
)


def in_format(known: Definitions, form: str, path: str) -> Definitions:
    """The definitions with `read_kernel` and `edit_kernel` in the words of `form`."""
    if form == HASHLINE or "edit_kernel" not in known:
        return known
    schema: dict[str, Any] = open_format(form, Tagger(b"-")).schema
    properties = {**schema["properties"], "note": {"type": "string"}}
    edit = Definition(
        name="edit_kernel",
        kind="domain_tool",
        description=f"{_HOW[form].format(path=path)} {_THEN}",
        parameters={**schema, "properties": properties},
        resolve=dict.fromkeys(properties, "never"),
    )
    changed = {"edit_kernel": edit}
    if "read_kernel" in known:
        changed["read_kernel"] = replace(
            known["read_kernel"], description="The kernel as it stands."
        )
    return {**known, **changed}

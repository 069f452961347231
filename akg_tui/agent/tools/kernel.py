"""The tools read_kernel and edit_kernel; edits happen only here."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

from msgspec.structs import replace

from akg_tui.agent.tools.declaration import Arg, Tool, ToolContext, Tools, tool
from akg_tui.agent.tools.file_access import Refused
from akg_tui.agent.tools.run_access import Answer
from akg_tui.agent.tools.trials import AttemptNumber, OfItem, TrialNumber, version
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.phases import AGENT_PHASES, Phase
from akg_tui.hashline import EDIT_SCHEMA


@tool("domain_tool", AGENT_PHASES)
def read_kernel(
    call: ToolContext,
    trial: TrialNumber = None,
    attempt: AttemptNumber = None,
    against: Annotated[
        int | None, Arg("An attempt: show the diff from it instead.", minimum=0)
    ] = None,
) -> Answer:
    """The kernel as it stands, or that of a trial or an attempt, with tags."""
    if trial is not None and attempt is not None:
        raise Refused("give a trial or an attempt, not both")
    name, draft = "the kernel", None
    file = call.file_arguments.get("path", "")
    if trial is not None or attempt is not None:
        name, draft = version(call, trial, attempt)
    if against is not None:
        return _diff(version(call, None, against), (name, draft or call.kernel.files), file)
    if draft is None:
        return Answer.success(call.kernel.show(file))
    return Answer.success(f"{name}:\n{call.kernel.show_draft(name, draft, attempt or 0, file)}")


def _diff(before: tuple[str, KernelFiles], after: tuple[str, KernelFiles], file: str) -> Answer:
    """Return the differences, of one file or of each file under its name."""
    old, new = before[1].texts, after[1].texts
    rows: list[str] = []
    for name in [file] if file else old:
        first, second = (f"{e[0]} {name}" if len(old) > 1 else e[0] for e in (before, after))
        lines = old[name].splitlines(), new[name].splitlines()
        rows += difflib.unified_diff(*lines, first, second, n=2, lineterm="")
    diff = "\n".join(rows)
    return Answer.success(diff or f"{before[0]} and {after[0]} are equal")


@tool("domain_tool", (Phase.WRITE, Phase.EDIT), main_agent_only=True)
def edit_kernel(
    call: ToolContext,
    *,
    ops: Annotated[list[dict[str, Any]], Arg(schema=EDIT_SCHEMA, resolve="never")],
    rev: Annotated[
        int | None,
        Arg(
            "The revision of the tags: 7 where the view says r7. Needed where tags mean "
            "different lines in the revisions shown to you."
        ),
    ] = None,
    note: Annotated[str | None, Arg(resolve="never")] = None,
    item: OfItem = None,
    allow_dup: Annotated[
        bool | None, Arg("New lines may repeat the line beside them.", told=False)
    ] = None,
    allow_broken: Annotated[
        bool | None, Arg("The kernel may stop parsing, to be mended by a later edit.", told=False)
    ] = None,
) -> Answer:
    """Change the kernel by line tags, all ops or none. The harness evaluates the result when your
    turn ends.
    """
    flags = {"allow_dup": bool(allow_dup), "allow_broken": bool(allow_broken)}
    given = {"ops": ops, "rev": rev, **flags, **call.file_arguments}
    return call.kernel.edit(given, note or "", item or "")


def in_files(known: Tools, names: tuple[str, ...]) -> Tools:
    """Return the tools; of a kernel in several files they can name the file that is meant."""
    if len(names) == 1:
        return known
    told = f"One of the kernel's files: {', '.join(names)}."
    file = {"type": "string", "enum": list(names)}
    draft = {"file": {**file, "description": f"{told} The one that text or path is for."}}
    code = {"file": {**file, "description": f"{told} The one that generated_code is for."}}
    more = {
        "type": "array",
        "description": "Edits of further files, each like this call with a path of its own; the "
        "edits of one call apply all or none, and make one attempt.",
        "items": {"type": "object"},
    }
    besides: dict[str, dict[str, Any]] = {
        "read_kernel": {"path": {**file, "description": f"{told} Left out, all."}},
        "edit_kernel": {
            "path": {**file, "description": f"{told} Left out, {names[0]}."},
            "more": more,
        },
        **dict.fromkeys(("try_kernel", "submit_kernel", "sweep_kernel"), draft),
        **dict.fromkeys(("verify_kernel", "profile_kernel"), code),
    }
    return known | {
        name: _with_files(known[name], properties)
        for name, properties in besides.items()
        if name in known
    }


def _with_files(known: Tool, properties: dict[str, Any]) -> Tool:
    """Return the tool with further arguments, which its function finds in the call's context."""

    async def run(call: ToolContext, given: dict[str, Any]) -> Answer:
        named = {name: value for name, value in given.items() if name in properties}
        own = {name: value for name, value in given.items() if name not in properties}
        return await known.run(replace(call, file_arguments=named), own)

    return replace(
        known,
        parameters={**known.parameters, "properties": {**known.properties, **properties}},
        run=run,
        resolve={**known.resolve, **dict.fromkeys(properties, "never")},
    )

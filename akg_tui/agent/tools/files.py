"""The tools read_file and write_file: the run's files, within the rules of `file_access`."""

from __future__ import annotations

import codecs
import re
from pathlib import PurePosixPath
from typing import Annotated

from akg_tui.agent.tools.declaration import Arg, ToolContext, tool
from akg_tui.agent.tools.file_access import NOTES, Refused, read_text
from akg_tui.agent.tools.run_access import Answer
from akg_tui.agent.tools.trials import kernel_fault, whole
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.phases import AGENT_PHASES, Phase
from akg_tui.hashline import Document

WORK = "work"
"""The folder of the kernel in a run."""

_EXTENSIONS = {"python": "py", "shell": "sh", "bash": "sh", "markdown": "md", "text": "txt"}
_ENCODINGS = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252", "gb18030", "gbk", "utf-16"})


@tool("basic_tool", AGENT_PHASES)
def read_file(
    call: ToolContext,
    file_path: str,
    offset: Annotated[int, Arg("First line to show.", minimum=1)] = 1,
    limit: Annotated[int, Arg("How many lines to show.", minimum=1, maximum=5000)] = 500,
) -> Answer:
    """Read a text file, or list a folder: PLAN.md, notes/ (yours), task/ (reference.py, task.toml),
    trace/ (results of calls), work/ (the kernel). A kernel, also one in notes/, has its tags.
    """
    if call.files.is_folder(file_path):
        names = call.files.listing(file_path)
        return Answer.success("\n".join(names) or "(empty)", foreign=True)
    path = call.files.relative(file_path)
    name, file, kernel = _kernel_at(call, path)
    if kernel is None:
        lines = read_text(call.files, file_path).splitlines(keepends=True)
    else:
        lines = list(Document.from_text(kernel.texts[file], path=file).lines)
    shown = lines[offset - 1 : offset - 1 + limit]
    if not shown and lines:
        return Answer.error(f"{file_path}: has {len(lines)} lines, none from {offset} on")
    text = "".join(shown)
    if kernel is not None:
        if len(shown) == len(lines):
            if not name:
                return Answer.success(call.kernel.show(file))
            return Answer.success(f"{name}:\n{call.kernel.show_draft(name, kernel, 0, file)}")
        first = kernel.before[file] + offset
        text = call.kernel.show_rows(range(first, first + len(shown)), name, kernel)
    if len(shown) < len(lines):
        last = offset - 1 + len(shown)
        text += f"\n(lines {offset} to {last} of {len(lines)}; offset shows others)"
    return Answer.success(text, foreign=kernel is None)


def _kernel_at(call: ToolContext, path: str) -> tuple[str, str, KernelFiles | None]:
    """Return the draft's name, the file and the kernel that a path shows, if it shows one.

    The name is "" for the kernel as it stands; a note that can be a kernel is a draft.
    """
    place, _, name = path.partition("/")
    kernel = call.kernel.files
    if place == WORK and name in kernel.texts:
        return "", name, kernel
    own = PurePosixPath(path).name
    if place != NOTES or not (own in kernel.texts or own.endswith(".py")):
        return "", "", None
    draft = whole(call, read_text(call.files, path), path)
    if kernel_fault(draft) is not None:
        return "", "", None
    return path, own if own in kernel.texts else kernel.main, draft


@tool("basic_tool", (Phase.WRITE, Phase.PLAN, Phase.EDIT))
def write_file(
    call: ToolContext,
    *,
    content: Annotated[str, Arg(resolve="whole")],
    file_path: Annotated[
        str | None,
        Arg("Path under notes/."),
    ] = None,
    op_name: Annotated[
        str | None,
        Arg("For a name made by the tool; left out, the operator of the task.", told=False),
    ] = None,
    file_type: Annotated[
        str, Arg("Extension of a name made by the tool: py, sh, md, json, txt.", told=False)
    ] = "txt",
    encoding: Annotated[str, Arg(told=False)] = "utf-8",
    overwrite: Annotated[bool, Arg("Whether a file that exists is replaced.", told=False)] = True,
) -> Answer:
    """Write a text file under notes/: remarks, a script, a draft of a kernel."""
    try:
        codec = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        codec = ""
    if codec not in _ENCODINGS:
        known = ", ".join(sorted(_ENCODINGS))
        return Answer.error(f"encoding {encoding[:40]!r} is not one of {known}")
    try:
        data = content.encode(codec)
    except UnicodeEncodeError as error:
        return Answer.error(f"the content has no {codec} form at character {error.start}")
    path = file_path
    if not path:
        stem = op_name or call.run.state.task.op
        path = _own_name(stem, file_type)
    written = call.files.write(path, data, overwrite=overwrite)
    return Answer.success(f"{written}: {len(data)} bytes")


def _own_name(wanted: str, file_type: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", wanted).strip("_") or "note"
    kind = file_type.lower().lstrip(".")
    extension = _EXTENSIONS.get(kind, kind)
    if not re.fullmatch(r"[a-z0-9]{1,10}", extension):
        raise Refused(f"file_type {file_type[:40]!r} is no extension")
    return f"{NOTES}/{stem[:64]}.{extension}"

"""The tools read_file and write_file: the run's files, within the rules of `file_access`."""

from __future__ import annotations

import codecs
import re
from typing import Annotated

from akg_tui.agent.tools.declaration import Arg, ToolContext, tool
from akg_tui.agent.tools.file_access import NOTES, FileAccess, Refused
from akg_tui.agent.tools.run_access import Answer
from akg_tui.core.phases import AGENT_PHASES, Phase
from akg_tui.hashline import Document

WORK = "work"
"""The folder of the kernel in a run."""

_EXTENSIONS = {"python": "py", "shell": "sh", "bash": "sh", "markdown": "md", "text": "txt"}
_ENCODINGS = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252", "gb18030", "gbk", "utf-16"})


def read_text(files: FileAccess, path: str) -> str:
    """Return the UTF-8 text of a file. Raises `Refused`."""
    data = files.read(path)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: not UTF-8 text at byte {error.start} of {len(data)}") from None


@tool("basic_tool", AGENT_PHASES)
def read_file(
    call: ToolContext,
    file_path: Annotated[str, Arg("Path inside the run, such as task/reference.py.")],
    offset: Annotated[int, Arg("First line to show.", minimum=1)] = 1,
    limit: Annotated[int, Arg("How many lines to show.", minimum=1, maximum=5000)] = 500,
) -> Answer:
    """Read a text file of this run, or list a folder. Visible are PLAN.md, notes/ (yours),
    task/ (reference.py and task.toml), trace/ (results of earlier calls) and work/ (the
    kernel, with the tags that edits need).
    """
    if call.files.is_folder(file_path):
        names = call.files.listing(file_path)
        return Answer.success("\n".join(names) or "(empty)", foreign=True)
    task = call.run.state.task
    place, _, name = call.files.relative(file_path).partition("/")
    tagged = place == WORK and name in task.files.names and task.agent.edits_in == "hashline"
    kernel = call.kernel.files
    if tagged:
        lines = list(Document.from_text(kernel.texts[name], path=name).lines)
    else:
        lines = read_text(call.files, file_path).splitlines(keepends=True)
    shown = lines[offset - 1 : offset - 1 + limit]
    if not shown and lines:
        return Answer.error(f"{file_path}: has {len(lines)} lines, none from {offset} on")
    if tagged and len(shown) == len(lines):
        return Answer.success(call.kernel.show(name))
    text = "".join(shown)
    if tagged:
        first = kernel.before[name] + offset
        text = call.kernel.show_rows(range(first, first + len(shown)))
    if len(shown) < len(lines):
        last = offset - 1 + len(shown)
        text += f"\n(lines {offset} to {last} of {len(lines)}; offset shows others)"
    return Answer.success(text, foreign=not tagged)


@tool("basic_tool", (Phase.WRITE, Phase.PLAN, Phase.EDIT))
def write_file(
    call: ToolContext,
    *,
    content: Annotated[str, Arg("The whole content.", resolve="whole")],
    file_path: Annotated[
        str | None,
        Arg("Path under notes/. Left out, the name is made of op_name and file_type."),
    ] = None,
    op_name: Annotated[
        str | None, Arg("For a name made by the tool; left out, the operator of the task.")
    ] = None,
    file_type: Annotated[
        str, Arg("Extension of a name made by the tool: py, sh, md, json, txt.")
    ] = "txt",
    encoding: str = "utf-8",
    overwrite: Annotated[bool, Arg("Whether a file that exists is replaced.")] = True,
) -> Answer:
    """Write a text file under notes/: remarks, or a script for execute_script. Everything
    else is read-only, and the kernel is changed by edit_kernel alone.
    """
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
        path = _own_name(call.files, stem, file_type, overwrite=overwrite)
    written = call.files.write(path, data, overwrite=overwrite)
    return Answer.success(f"{written}: {len(data)} bytes")


def _own_name(files: FileAccess, wanted: str, file_type: str, *, overwrite: bool) -> str:
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", wanted).strip("_") or "note"
    kind = file_type.lower().lstrip(".")
    extension = _EXTENSIONS.get(kind, kind)
    if not re.fullmatch(r"[a-z0-9]{1,10}", extension):
        raise Refused(f"file_type {file_type[:40]!r} is no extension")
    if overwrite:
        return f"{NOTES}/{stem[:64]}.{extension}"
    return files.unused(stem[:64], extension)

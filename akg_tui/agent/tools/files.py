"""read_file and write_file: the run's files, as far as the jail goes."""

from __future__ import annotations

import codecs
import re

from akg_tui.agent.tools import registry
from akg_tui.agent.tools.jail import NOTES, Jail, Refused
from akg_tui.agent.tools.port import Answer

_EXTENSIONS = {"python": "py", "shell": "sh", "bash": "sh", "markdown": "md", "text": "txt"}
_ENCODINGS = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252", "gb18030", "gbk", "utf-16"})


def read_text(jail: Jail, path: str) -> str:
    """The text of a file. Raises `Refused`."""
    data = jail.read(path)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: not UTF-8 text at byte {error.start} of {len(data)}") from None


def read_file(jail: Jail, arguments: registry.ReadFile) -> Answer:
    path = arguments.file_path
    if jail.is_folder(path):
        return Answer.success("\n".join(jail.listing(path)) or "(empty)", foreign=True)
    lines = read_text(jail, path).splitlines(keepends=True)
    first = arguments.offset - 1
    shown = lines[first : first + arguments.limit]
    if not shown and lines:
        return Answer.error(f"{path}: has {len(lines)} lines, none from {arguments.offset} on")
    text = "".join(shown)
    if len(shown) < len(lines):
        last = first + len(shown)
        text += f"\n(lines {arguments.offset} to {last} of {len(lines)}; offset shows others)"
    return Answer.success(text, foreign=True)


def write_file(jail: Jail, arguments: registry.WriteFile, op: str) -> Answer:
    try:
        encoding = codecs.lookup(arguments.encoding).name
    except (LookupError, ValueError):
        encoding = ""
    if encoding not in _ENCODINGS:
        known = ", ".join(sorted(_ENCODINGS))
        return Answer.error(f"encoding {arguments.encoding[:40]!r} is not one of {known}")
    try:
        data = arguments.content.encode(encoding)
    except UnicodeEncodeError as error:
        return Answer.error(f"the content has no {encoding} form at character {error.start}")
    path = arguments.file_path or _own_name(jail, arguments, op)
    written = jail.write(path, data, overwrite=arguments.overwrite)
    return Answer.success(f"{written}: {len(data)} bytes")


def _own_name(jail: Jail, arguments: registry.WriteFile, op: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", arguments.op_name or op).strip("_") or "note"
    wanted = arguments.file_type.lower().lstrip(".")
    extension = _EXTENSIONS.get(wanted, wanted)
    if not re.fullmatch(r"[a-z0-9]{1,10}", extension):
        raise Refused(f"file_type {arguments.file_type[:40]!r} is no extension")
    if arguments.overwrite:
        return f"{NOTES}/{stem[:64]}.{extension}"
    return jail.unused(stem[:64], extension)

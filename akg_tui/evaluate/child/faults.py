"""Turns an exception of untrusted code into a status, one line and a detail.

Runs in the child. The judge decides by the status alone, and strips escape codes from the text
before it is shown or kept.
"""

from __future__ import annotations

import ast
import linecache
import re
import shutil
import subprocess
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from akg_tui.evaluate.child.protocol import TEXT_LIMIT, Status
from akg_tui.evaluate.dsls import DSLS, CompilerReport

SEPARATOR = "\0"
"""Separates the one line and the detail in a reply's text."""

FRAMES = 12


class Fault(Exception):
    """The code under evaluation broke its contract; `text` is a line and a detail."""

    def __init__(self, status: Status, line: str, detail: str = "") -> None:
        super().__init__(line)
        self.status = status
        self.text = line + SEPARATOR + detail


def describe(
    error: BaseException,
    files: Sequence[str] = ("",),
    status: Status = Status.CALL,
    otherwise: int | None = None,
) -> tuple[Status, str, str]:
    """Return the status, the line and the detail for `error`.

    Its location is the innermost line of one of the `files` in its traceback, or else line
    `otherwise` of the first.
    """
    if report := _compiler_report(error):
        if report.kind == "toolchain":
            return Status.TOOLCHAIN, report.text, ""
        trace = report.at.__traceback__
        place, text = _line_of_cpp(report.text, trace, files)
        line = located(*(place or _place(trace, files)), _with_symbols(text))
        return (Status.BUILD if report.kind == "build" else Status.CALL), line, report.output
    said = str(error)[:TEXT_LIMIT].strip().partition("\n")[0]
    said = _with_symbols(said)
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    name, at = _place(error.__traceback__, files)
    line = located(name, at or otherwise, what)
    detail = "".join(traceback.format_exception(error, limit=-FRAMES))
    return status, line, detail


def _compiler_report(error: BaseException) -> CompilerReport | None:
    """Return the compiler's report found in the chain of causes of `error`, or None."""
    chain: BaseException | None = error
    while chain is not None:
        for each in DSLS.values():
            if (report := each.report(chain)) is not None:
                return report
        chain = chain.__cause__ or chain.__context__
    return None


_CPP_LINE = re.compile(r"(?:C\+\+|CUDA|Ascend C) line (\d+): ")
_UNDEFINED = re.compile(r"(?:(?P<path>/\S+): )?undefined symbol: (?P<name>\w+)")
LIBRARY_LIMIT = 64 << 20
DEMANGLE_S = 2.0


def _line_of_cpp(
    text: str, trace: TracebackType | None, files: Sequence[str]
) -> tuple[tuple[str, int] | None, str]:
    """Return file and line with the line of C++ that `text` begins with, and the text.

    The C++ is one of the files or a string of one, or it is put together; then a line is found
    by its text.
    """
    told = _CPP_LINE.match(text)
    whole = next(
        (
            frame.f_locals["source"]
            for frame, _ in traceback.walk_tb(trace)
            if frame.f_code.co_name in ("compile_cpp", "compile_cuda", "compile_ascendc")
            and "source" in frame.f_locals
        ),
        None,
    )
    if told is None or not isinstance(whole, str):
        return None, text
    number = int(told[1])
    read = {name: linecache.getlines(name) for name in files}
    for name, lines in read.items():
        file = "".join(lines)
        if whole.strip() and (start := file.find(whole)) >= 0:
            return (name, file.count("\n", 0, start) + number), text
        if at := _line_in_literal(file, whole, number):
            return (name, at), text
    wanted = [*whole.splitlines(), ""][min(number, len(whole.splitlines()) + 1) - 1].strip()
    same = [
        (name, at)
        for name, lines in read.items()
        for at, line in enumerate(lines, 1)
        if wanted and line.strip() == wanted
    ]
    if len(same) == 1:
        return same[0], text
    language = told[0].partition(" line")[0]
    return None, f"{text} (that line of {language} is put together by the file: {wanted[:60]})"


def _line_in_literal(file: str, whole: str, number: int) -> int | None:
    """Return the line of the file with line `number` of `whole`, the value of one of its strings.

    Escapes make a string's text differ from its value; its lines are those of the file unless it
    holds escaped ends of lines.
    """
    try:
        nodes = list(ast.walk(ast.parse(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            rows, start = (node.end_lineno or node.lineno) - node.lineno, node.value.find(whole)
            if start >= 0 and rows == node.value.count("\n"):
                return node.lineno + node.value.count("\n", 0, start) + number - 1
    return None


def _with_symbols(said: str) -> str:
    """Return a message with its undefined symbol explained, if it has one."""
    told = _UNDEFINED.search(said)
    if told is None:
        return said
    name, path = told["name"], told["path"]
    what = f"undefined symbol: {_demangled(name)}"
    if path:
        stem, dot, ending = Path(path).name.partition(".")
        short = f"{stem[:8]}…{dot}{ending}" if len(stem) > 12 else f"{stem}{dot}{ending}"
        what = f"no symbol {name} in {short}"
        if mangled := _mangled_like(name, Path(path)):
            other = _demangled(mangled)
            what = f'no symbol {name} in {short}: it has {other}, declare that extern "C"'
    return said[: told.start()] + what + said[told.end() :]


def _mangled_like(name: str, library: Path) -> str:
    """Return a C++ symbol of a library whose function is called `name`, or ""."""
    try:
        with library.open("rb") as opened:
            content = opened.read(LIBRARY_LIMIT)
    except OSError:
        return ""
    found = re.search(rb"_Z\w*%d%s\w*" % (len(name), name.encode()), content)
    return found[0].decode() if found else ""


def _demangled(name: str) -> str:
    """Return a C++ symbol as it is written in C++, if `c++filt` is there and may run."""
    tool = shutil.which("c++filt")
    if tool is None or not name.startswith("_Z"):
        return name
    try:
        told = subprocess.run(
            [tool, name], capture_output=True, text=True, timeout=DEMANGLE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return name
    return told.stdout.strip() or name


def located(filename: str, line: int | None, what: str) -> str:
    """Return `what`, prefixed with file and line where these are known."""
    if not filename:
        return what
    return f"{filename}:{line}: {what}" if line is not None else f"{filename}: {what}"


def _place(trace: TracebackType | None, files: Sequence[str]) -> tuple[str, int | None]:
    """Return file and line of the innermost frame in one of `files`; else the first, and None."""
    found: tuple[str, int | None] = files[0], None
    # A file that another one imports has the whole path in its frames.
    paths = {str(Path.cwd() / name): name for name in files[1:]}
    for frame, line in traceback.walk_tb(trace):
        path = frame.f_code.co_filename
        name = paths.get(path, path)
        if name and name in files:
            found = name, line
    return found


def remember_source(filename: str, source: str) -> None:
    """Register a module's source text, so that tracebacks and `inspect.getsource` find it."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)

"""Turns an exception of untrusted code into a status, its place, one line and a detail.

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

from akg_tui.core.kernel.kernel_files import Place
from akg_tui.dsl.adapters import DSLS, CompilerReport
from akg_tui.evaluate.protocol.child_protocol import TEXT_LIMIT, Status

FRAMES = 12


class Fault(Exception):
    """The code under evaluation broke its contract; `what` is one line without the `place`."""

    def __init__(
        self, status: Status, what: str, detail: str = "", place: Place | None = None
    ) -> None:
        super().__init__(f"{place}: {what}" if place else what)
        self.status = status
        self.what = what
        self.detail = detail
        self.place = place


def describe(
    error: BaseException,
    files: Sequence[str] = (),
    status: Status = Status.CALL,
    otherwise: int = 0,
) -> Fault:
    """Return the fault for `error`.

    Its place is the innermost line of one of the `files` in its traceback, or else line
    `otherwise` of the first.
    """
    if report := _compiler_report(error):
        if report.kind == "toolchain":
            return Fault(Status.TOOLCHAIN, report.text)
        trace = report.at.__traceback__
        place, text = _line_of_source(report, files)
        kinds = {"build": Status.BUILD, "unsupported": Status.UNSUPPORTED}
        status = kinds.get(report.kind, Status.CALL)
        return Fault(status, _with_symbols(text), report.output, place or _place(trace, files))
    said = str(error)[:TEXT_LIMIT].strip().partition("\n")[0]
    said = _with_symbols(said)
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    place = _place(error.__traceback__, files)
    ran = place is not None and place.line > 0
    if place is not None and not ran:
        place = Place(place.file, otherwise)
    if isinstance(error, PermissionError):
        step = linecache.getline(*place).strip() if place and ran else ""
        what = f"not allowed here: {step} ({what})" if step else f"not allowed here: {what}"
    detail = "".join(traceback.format_exception(error, limit=-FRAMES))
    return Fault(status, what, detail, place)


def _compiler_report(error: BaseException) -> CompilerReport | None:
    """Return the compiler's report found in the chain of causes of `error`, or None."""
    chain: BaseException | None = error
    while chain is not None:
        for each in DSLS.values():
            if (report := each.report(chain)) is not None:
                return report
        chain = chain.__cause__ or chain.__context__
    return None


_UNDEFINED = re.compile(r"(?:(?P<path>/\S+): )?undefined symbol: (?P<name>\w+)")
LIBRARY_LIMIT = 64 << 20
DEMANGLE_S = 2.0


def _line_of_source(report: CompilerReport, files: Sequence[str]) -> tuple[Place | None, str]:
    """Return the place of the line of a source string that a compiler names, and the text.

    The source is one of the files or a string of one, or it is put together; then a line is found
    by its text.
    """
    text, whole, number = report.text, report.source, report.line
    if not number:
        return None, text
    read = {name: linecache.getlines(name) for name in files}
    for name, lines in read.items():
        file = "".join(lines)
        if whole.strip() and (start := file.find(whole)) >= 0:
            return Place(name, file.count("\n", 0, start) + number), text
        if at := _line_in_literal(file, whole, number):
            return Place(name, at), text
    wanted = [*whole.splitlines(), ""][min(number, len(whole.splitlines()) + 1) - 1].strip()
    same = [
        Place(name, at)
        for name, lines in read.items()
        for at, line in enumerate(lines, 1)
        if wanted and line.strip() == wanted
    ]
    if len(same) == 1:
        return same[0], text
    put_together = f"that line of {report.language} is put together by the file: {wanted[:60]}"
    return None, f"{text} ({put_together})"


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


def _place(trace: TracebackType | None, files: Sequence[str]) -> Place | None:
    """Return the innermost line in one of `files`; else the first of these, if there is one."""
    if not files:
        return None
    found = Place(files[0], 0)
    # A file that another one imports has the whole path in its frames.
    paths = {str(Path.cwd() / name): name for name in files[1:]}
    for frame, line in traceback.walk_tb(trace):
        path = frame.f_code.co_filename
        name = paths.get(path, path)
        if name in files:
            found = Place(name, line or 0)
    return found


def remember_source(filename: str, source: str) -> None:
    """Register a module's source text, so that tracebacks and `inspect.getsource` find it."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)

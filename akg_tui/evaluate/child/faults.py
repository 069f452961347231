"""Turns an exception of untrusted code into a status, one line and a detail.

Runs in the child. The judge decides by the status alone, and strips escape codes from the text
before it is shown or kept.
"""

from __future__ import annotations

import linecache
import traceback
from types import TracebackType

from akg_tui.evaluate.child.protocol import Status
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
    filename: str = "",
    status: Status = Status.CALL,
    otherwise: int | None = None,
) -> tuple[Status, str, str]:
    """Return the status, the line and the detail for `error`.

    Its location is the innermost line of `filename` in its traceback, or else line `otherwise`.
    """
    if report := _compiler_report(error):
        if report.kind == "toolchain":
            return Status.TOOLCHAIN, report.text, ""
        line = located(filename, line_of(report.at.__traceback__, filename), report.text)
        return (Status.BUILD if report.kind == "build" else Status.CALL), line, report.output
    said = str(error).strip().partition("\n")[0]
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    line = located(filename, line_of(error.__traceback__, filename) or otherwise, what)
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


def located(filename: str, line: int | None, what: str) -> str:
    """Return `what`, prefixed with file and line where these are known."""
    if not filename:
        return what
    return f"{filename}:{line}: {what}" if line is not None else f"{filename}: {what}"


def line_of(trace: TracebackType | None, filename: str) -> int | None:
    """Return the line of the innermost frame in `filename`, or None."""
    found = None
    for frame, line in traceback.walk_tb(trace):
        if filename and frame.f_code.co_filename == filename:
            found = line
    return found


def remember_source(filename: str, source: str) -> None:
    """Register a module's source text, so that tracebacks and `inspect.getsource` find it."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)

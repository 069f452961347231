"""Output of the workbench: text for the clipboard, pictures as SVG or text, the report.

Copied text is the lines of the kernel, without numbers, tags and change marks. Reads widgets;
writes only to paths given by the caller.
"""

from __future__ import annotations

import asyncio
import io
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.strip import Strip

from akg_tui.tui.panes.source import SourcePane
from akg_tui.tui.textual_internals import screen_strips, svg_frame
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.tui.widgets.painted import Painted
from akg_tui.view.code_rows import CodeRows, OneFile, SplitRows
from akg_tui.view.diff import Kind, Row, split_lines
from akg_tui.view.language import retold, tr
from akg_tui.view.spans import Line, plain

if TYPE_CHECKING:
    from textual.app import App
    from textual.widget import Widget

    from akg_tui.view.run_snapshot import RunSnapshot


class NothingThere(ValueError):
    """Raised if the requested text does not exist; the message is for the person."""


def words_of(pane: Widget, what: str, snapshot: RunSnapshot | None) -> str:
    """Return the text to copy: ``view``, ``pane``, ``kernel``, ``best``, or lines of the kernel
    by number (``12``, ``12-20``). If `snapshot` is None, only ``view`` and ``pane`` work.
    Raises `NothingThere`.
    """
    file = pane.file if isinstance(pane, SourcePane) else 0
    if snapshot is None and what not in ("view", "pane"):
        raise NothingThere(tr("no run is open here"))
    if snapshot is not None and (found := _of_kernel(what, snapshot, file)) is not None:
        return found
    if what not in ("view", "pane"):
        raise NothingThere(
            tr("copy takes view, pane, kernel, best, or lines like 12-20, not {what}", what=what)
        )
    rows = _rows(pane, whole=what == "pane")
    if not rows:
        raise NothingThere(tr("there is nothing to copy"))
    return "\n".join(rows)


def _of_kernel(what: str, snapshot: RunSnapshot, file: int) -> str | None:
    """Return the kernel, the best one or lines of a file by number; None for any other `what`."""
    if what == "kernel":
        return snapshot.kernel(snapshot.state.work_blob).page
    if what == "best":
        best = snapshot.state.best
        return snapshot.kernel(best.blob if best else snapshot.state.seed_blob).page
    if numbers := re.fullmatch(r"(\d+)(?:-(\d+))?", what):
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        one = OneFile(snapshot.state.task.files.names, file, snapshot.kernel)
        lines = split_lines(one.text(one.key(snapshot.state.work_blob)))
        if not 1 <= first <= last <= len(lines):
            many = len(lines)
            raise NothingThere(tr("the kernel has lines 1 to {many}", many=many))
        return "\n".join(lines[first - 1 : last])
    return None


def _rows(pane: Widget, *, whole: bool) -> list[str]:
    if isinstance(pane, LineView):
        top = 0 if whole else pane.scroll_offset.y
        end = len(pane.rows) if whole else min(len(pane.rows), top + pane.page)
        if isinstance(pane.rows, CodeRows):
            return _code(pane.rows.compared[top:end], diff=pane.id == "diff")
        if isinstance(pane.rows, SplitRows):
            return _code(pane.rows.within(top, end), diff=True)
        return [plain(pane.rows[index]).rstrip() for index in range(top, end)]
    if isinstance(pane, Painted):
        drawn: Sequence[Line] = pane.lines()
        return [plain(row).rstrip() for row in drawn]
    return []


def _code(rows: Sequence[Row], *, diff: bool) -> list[str]:
    """Return lines as they are in the file; those of a diff each with its mark."""
    compared = [row for row in rows if row.kind is not Kind.GAP]
    if diff:
        return [f"{row.kind.value}{row.text}" for row in compared]
    return [row.text for row in compared if row.kind is not Kind.REMOVED]


def strips(app: App[Any], pane: Widget | None) -> list[Strip]:
    """Return the rows on screen: all rows, or those of one pane with its border."""
    screen = pane.screen if pane is not None else app.screen
    drawn = screen_strips(screen)
    if pane is None:
        return drawn
    region = pane.region
    return [strip.crop(region.x, region.right) for strip in drawn[region.y : region.bottom]]


def text(app: App[Any], pane: Widget | None) -> str:
    """Return the screen or a pane as plain text."""
    return "\n".join(strip.text.rstrip() for strip in strips(app, pane)) + "\n"


def picture(app: App[Any], pane: Widget | None) -> str:
    """Return the screen or a pane as SVG that loads nothing from the network."""
    from rich.console import Console
    from rich.segment import Segment, Segments

    drawn = strips(app, pane)
    width = max((strip.cell_length for strip in drawn), default=1)
    console = Console(
        width=width,
        height=len(drawn),
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
        safe_box=False,
    )
    segments = [part for strip in drawn for part in (*strip, Segment.line())]
    console.print(Segments(segments), end="")
    title = app.title if pane is None else f"{app.title}: {pane.id}"
    return console.export_svg(title=title, code_format=_offline_format())


def _offline_format() -> str:
    """Return Rich's SVG template without the web fonts."""
    frame = re.sub(r"@font-face \{\{.*?\}\}\s*", "", svg_frame(), flags=re.DOTALL)
    frame = frame.replace("<svg ", '<svg xml:space="preserve" ', 1)  # some viewers drop blanks
    return frame.replace(
        "font-family: Fira Code, monospace", "font-family: Fira Code, DejaVu Sans Mono, monospace"
    )


def write(folder: Path, name: str, suffix: str, content: str) -> Path:
    """Write to a new file and return its path; a number in the name avoids an existing file."""
    folder.mkdir(parents=True, exist_ok=True)
    path, number = folder / f"{name}.{suffix}", 1
    while True:
        try:
            with path.open("x", encoding="utf-8") as file:  # a link is a file that exists
                file.write(content)
        except FileExistsError:
            number += 1
            path = folder / f"{name}-{number}.{suffix}"
        else:
            return path


async def report(run: Path, name: str, say: Callable[[str], None]) -> None:
    """Make the report of a run in a process of its own; show its path, or the fault.

    Drawing a report takes seconds, which would block the screens.
    """
    say(tr("making the report of {run} …", run=name))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "akg_tui", "report", str(run)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    last = (errors if process.returncode else out).decode(errors="replace").strip()
    told = last.replace("\n", ", ")
    failed = process.returncode
    say(tr("no report: {why}", why=retold(told)) if failed else tr("written: {path}", path=told))

"""Output of the workbench: text for the clipboard, a picture of the screen, the report.

Copied text is the lines of the kernel, without numbers and change marks. Reads widgets; writes only
to paths given by the caller.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akg_tui.tui.widgets.line_view import LineView
from akg_tui.tui.widgets.painted import Painted
from akg_tui.view.code_rows import CodeRows, SplitRows
from akg_tui.view.diff import Kind, Row
from akg_tui.view.language import retold, tr
from akg_tui.view.spans import Line, plain

if TYPE_CHECKING:
    from textual.app import App
    from textual.widget import Widget

    from akg_tui.view.run_snapshot import RunSnapshot


class NothingThere(ValueError):
    """Raised if the requested text does not exist; the message is for the person."""


def words_of(pane: Widget, what: str, snapshot: RunSnapshot | None) -> str:
    """Return the text to copy: ``view``, ``pane``, ``kernel`` or ``best``. If `snapshot` is None,
    only ``view`` and ``pane`` work. Raises `NothingThere`.
    """
    if what not in ("view", "pane"):
        if snapshot is None:
            raise NothingThere(tr("no run is open here"))
        state = snapshot.state
        blob = state.work_blob if what == "kernel" else state.standing_blob
        return snapshot.kernel(blob).page
    rows = _rows(pane, whole=what == "pane")
    if not rows:
        raise NothingThere(tr("there is nothing to copy"))
    return "\n".join(rows)


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


def picture(app: App[Any]) -> str:
    """Return the screen as SVG that loads nothing from the network."""
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", app.export_screenshot(), flags=re.DOTALL)
    return drawn.replace("<svg ", '<svg xml:space="preserve" ', 1)  # some viewers drop blanks


def write(folder: Path, name: str, content: str) -> Path:
    """Write to a new file and return its path; a number in the name avoids an existing file."""
    folder.mkdir(parents=True, exist_ok=True)
    path, number = folder / f"{name}.svg", 1
    while True:
        try:
            with path.open("x", encoding="utf-8") as file:  # a link is a file that exists
                file.write(content)
        except FileExistsError:
            number += 1
            path = folder / f"{name}-{number}.svg"
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

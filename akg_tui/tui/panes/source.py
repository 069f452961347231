"""A kernel: the agent's current kernel, or the best one so far.

Lines that differ from the best are marked, and removed lines stay in sight. A thread computes the
colours.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import partial

from textual.content import Content

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.phases import Phase
from akg_tui.core.sanitize import clean, one_line
from akg_tui.core.state import RunState
from akg_tui.tui.panes.pane import Pane, Shared
from akg_tui.tui.textual_internals import run_newest, set_border
from akg_tui.tui.widgets.line_view import Lead, LineView
from akg_tui.view import formatting
from akg_tui.view.code_rows import CodeRows, OneFile
from akg_tui.view.controls.command_registry import key_of, named
from akg_tui.view.diff import Compared, Row, compare, find_hunks, size
from akg_tui.view.language import tr
from akg_tui.view.run_snapshot import RunSnapshot


class SourcePane(LineView, Pane):
    """Shows the kernel under work if its name is ``source``, else the best kernel."""

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name)
        self._working = name == "source"
        self._shared = shared
        self._colours, self._texts = shared.colours, shared.texts
        self._shown: tuple[str, str] | None = None
        self._changed = (0, 0)
        self._changes: tuple[int, ...] = ()
        self._placed = 0
        self._at_change = (-1, -1)
        self._gone_to = -1
        self._elsewhere: list[str] = []
        self.entitle(tr("kernel") if self._working else tr("best"))

    @property
    def placed(self) -> bool:
        return True  # its rows are the same in any size

    def pull(self, snapshot: RunSnapshot) -> None:
        state = snapshot.state
        best = state.standing_blob
        blob = state.work_blob if self._working else best
        one = OneFile(state.task.files.names, self.file, snapshot.kernel)
        if self.moved((blob, best, one.name)):
            shown = (one.key(blob), one.key(best))
            another, self._shown = shown != self._shown, shown
            changed = one.changed(best, blob)
            self._elsewhere = [name for name in changed if name != one.name]
            self._build(one, *shown)
            if another:
                self._show_change()
        self._titles(state, one.name, blob, best)

    def _build(self, one: OneFile, blob: str, best: str) -> None:
        new, widest = self._texts.of(blob, one.text)
        old, _ = self._texts.of(best, one.text)
        compared = compare(old, new)
        rows = CodeRows(
            compared, old=self._colours.of(best), new=self._colours.of(blob), widest=widest
        )
        self._changed = size(compared)
        self._changes = tuple(hunk.start for hunk in find_hunks(compared))
        self.put(rows, columns=rows.columns, gutter=rows.gutter)
        missing = {b: one.text(b) for b in (blob, best) if self._colours.of(b) is None}
        if missing:
            work = partial(self._colour, missing, one.name)
            run_newest(self, work, group="colour")

    def _show_change(self) -> None:
        self.reveal(self._first_change)
        self._placed = self.top

    def on_resize(self) -> None:
        # Unless the person has scrolled, the place depends on the room alone, and on no earlier
        # one: a pane is sometimes filled before it has its size.
        if self.top == min(self._placed, round(self.max_scroll_y)):  # more room moves the end
            row = self._first_change
            self.to_row(row - self.page // 3 if row >= self.page else 0)
            self._placed = self.top

    @property
    def _first_change(self) -> int:
        return self._changes[0] if self._changes else 0

    async def _colour(self, texts: dict[str, str], name: str) -> None:
        try:
            for blob, text in texts.items():
                coloured = await asyncio.to_thread(self._colours.lex, KernelFiles({name: text}))
                self._colours.keep(blob, coloured)
        except Exception as error:  # noqa: BLE001 - the pane shows it, the run goes on
            self.broke(error)
            return
        if self._shown is not None and isinstance(self.rows, CodeRows):
            blob, best = self._shown
            self.rows.recolour(old=self._colours.of(best), new=self._colours.of(blob))
            self.repaint()

    @property
    def _compared(self) -> Sequence[Row]:
        return self.rows.compared if isinstance(self.rows, CodeRows) else ()

    def texts(self) -> Iterable[str]:
        compared = self._compared
        return map(clean, compared.texts() if isinstance(compared, Compared) else ())

    def turn(self, step: int) -> str:
        """Go to the next change against the best, or back with -1; return its number in words."""
        if not self._changes:
            return tr("no line differs from the best kernel")
        # Counted from the last change shown, unless the person scrolled away from it.
        here = self._at_change[0] if self._at_change[1] == self.top else self.top
        later = [n for n, row in enumerate(self._changes) if row > here]
        earlier = [n for n, row in enumerate(self._changes) if row < here]
        number = (later or [0])[0] if step > 0 else (earlier or [len(self._changes) - 1])[-1]
        self.to_row(max(0, self._changes[number] - self.page // 3))
        self._at_change = self._changes[number], self.top
        self._gone_to = self._changes[number]
        return tr("change {number} of {many}", number=number + 1, many=len(self._changes))

    @property
    def file(self) -> int:
        """Of a kernel in several files: the position of the one that is shown."""
        return self._shared.file

    def to_code(self) -> Lead:
        """Lead to the instructions of the line that was gone to, while it is on screen, or of the
        first line on it. A line that was removed counts as the one before.
        """
        gone_to = self._gone_to
        at = gone_to if self.top <= gone_to < self.top + self.page else self.top
        return Lead("asm", (self.file, max(1, self._new_line_of(at))))

    def come_to(self, place: object) -> str:
        """Go to a line, named by the position of its file and its number."""
        if not isinstance(place, tuple):
            return ""
        self._shared.file, line = place
        return self.to_line(line)

    def to_line(self, number: int) -> str:
        """Go to a line by its number in this file; return a message about it."""
        rows = self._compared
        index = bisect_left(range(len(rows)), number, key=self._new_line_of)
        if index == len(rows):
            self.to_end()
            return tr("there is no line {number}", number=number)
        self._gone_to = index
        self.to_row(max(0, index - self.page // 3))
        return tr("line {number}", number=rows[index].new)

    def _new_line_of(self, index: int) -> int:
        """Return the line of this file at a row, or the last one before the row."""
        rows = self._compared
        index = min(index, len(rows) - 1)  # a pane without room for a row can lie past them all
        while index >= 0 and not rows[index].new:
            index -= 1
        return rows[index].new if index >= 0 else 0

    def _titles(self, state: RunState, name: str, blob: str, best: str) -> None:
        name = one_line(name)
        if blob == best:
            kind = formatting.attempt(0)
            if state.best is not None:
                kind = f"{tr('best')}: {formatting.attempt(state.best.attempt)}"
            elif state.tries or state.phase is Phase.WRITE:
                kind = tr("not correct yet")
            kind = f"{name}, {kind}" if self._working else kind
        else:
            added, removed = self._changed
            changed = f"{name}, {state.active or tr('candidate')}"
            kind = formatting.changed(state, changed, added, removed)
        title = Content(named(f"pane.{self.id}", kind))
        told = formatting.count(len(self.rows), "line")
        if len(self._changes) > 1:
            keys = " ".join(filter(None, (key_of("pane.forward"), key_of("pane.back"))))
            told = f"{formatting.count(len(self._changes), 'change')} {keys}  {told}"
        if len(names := state.task.files.names) > 1:
            told = f"{self._files_told(names)}  {told}"
        set_border(self, title, Content(told))

    def _files_told(self, names: tuple[str, ...]) -> str:
        """Return which of the files is shown, and which others differ from the best."""
        number, key = self.file % len(names) + 1, key_of("source.file")
        told = tr("file {number} of {many}", number=number, many=len(names))
        if self._elsewhere:
            told += tr(", {files} changed too", files=one_line(", ".join(self._elsewhere)))
        return f"{told} {key}" if key else told

"""A kernel with its hashline tags: as the agent has it now, or the best one so far.

Against the best, changed lines are marked and removed ones stay in sight. Colour comes
from a whole-file lexing that is done in a thread, once a version.
"""

from __future__ import annotations

import asyncio

from textual.content import Content

from akg_tui.core.plain import one_line
from akg_tui.core.state import RunState
from akg_tui.tui.code import CodeRows, Coloured, Colours
from akg_tui.tui.compare import compare, hunks, size, split_lines
from akg_tui.tui.look import Look
from akg_tui.tui.widgets.lineview import LineView


class SourcePane(LineView):
    """With `working` it shows the kernel under work, else the best one."""

    def __init__(self, name: str, digit: str, colours: Colours, *, working: bool) -> None:
        super().__init__(name)
        self._digit = digit
        self._working = working
        self._colours = colours
        self._shown: tuple[str, str] | None = None
        self._changed = (0, 0)
        self._first_change = 0
        self._placed = 0
        self.border_title = Content(f"{digit} {'kernel' if working else 'best'}")

    def pull(self, look: Look) -> None:
        state = look.state
        best = state.best.blob if state.best else state.seed_blob
        blob = state.work_blob if self._working else best
        if (blob, best) != self._shown:
            self._shown = (blob, best)
            self._build(look, blob, best)
        self._titles(state, blob, best)

    def _build(self, look: Look, blob: str, best: str) -> None:
        new, old = look.kernel(blob), look.kernel(best)
        rows = CodeRows(
            compare(split_lines(old), split_lines(new)),
            look.tag_key,
            old=self._colours.of(best),
            new=self._colours.of(blob),
        )
        self.put(rows, columns=rows.columns)
        self._changed = size(rows.compared)
        changes = hunks(rows.compared)
        self._first_change = changes[0] if changes else 0
        self._show_change()
        missing = {b: t for b, t in ((blob, new), (best, old)) if self._colours.of(b) is None}
        if missing:
            self.run_worker(self._colour(missing), exclusive=True, group="colour")

    def _show_change(self) -> None:
        self.reveal(self._first_change)
        self._placed = self.scroll_offset.y

    def on_resize(self) -> None:
        # Less room must not hide the change from somebody who has not scrolled away from it.
        if self.scroll_offset.y == self._placed:
            self._show_change()

    async def _colour(self, texts: dict[str, str]) -> None:
        for blob, text in texts.items():
            coloured: Coloured = await asyncio.to_thread(self._colours.lex, text)
            self._colours.keep(blob, coloured)
        if self._shown is not None and isinstance(self.rows, CodeRows):
            blob, best = self._shown
            self.rows.recolour(old=self._colours.of(best), new=self._colours.of(blob))
            self._strips.clear()
            self.refresh()

    def _titles(self, state: RunState, blob: str, best: str) -> None:
        name = one_line(state.task.files.editable)
        best_name = f"attempt {state.best.attempt}" if state.best else "the seed"
        if state.best and state.best.attempt == 0:
            best_name = "the seed"
        if blob == best:
            kind = f"{name}, best: {best_name}" if self._working else f"best: {best_name}"
        else:
            added, removed = self._changed
            kind = f"{name}, {state.active or 'candidate'} +{added} -{removed} against the best"
        title = Content(f"{self._digit} {kind}")
        subtitle = Content(f"{len(self.rows)} lines")
        if self._border_title != title:
            self.border_title = title
        if self._border_subtitle != subtitle:
            self.border_subtitle = subtitle

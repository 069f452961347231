"""Two rounds of a run side by side, each kernel with its measurement.

Shows the snapshot taken at opening; changes no run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.content import Content

from akg_tui.tui.screens.run_screen import RunScreen, waiting_line
from akg_tui.tui.textual_internals import drop_keys
from akg_tui.tui.widgets.diff_view import without_colours
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view import formatting
from akg_tui.view.code_rows import CodeRows, Colours, SplitRows, Texts, filled
from akg_tui.view.comparison import Side, between, name_of, side_of
from akg_tui.view.controls.command_registry import Where, footer
from akg_tui.view.diff import Compared, compare_kernels, find_hunks, folded, size
from akg_tui.view.language import tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line, fit, join, line

CONTEXT = 4
SIDE_BY_SIDE = 100  # columns; below this width both kernels share one column


class Rounds(RunScreen):
    """Attempts `left` and `right` of the run in `snapshot`."""

    CSS_PATH = "../styles/rounds.tcss"
    where: Where = "rounds"

    def __init__(
        self, snapshot: RunSnapshot, left: int, right: int, *, colours: Colours, texts: Texts
    ) -> None:
        super().__init__()
        self._first = snapshot
        self._chosen = {"left": left, "right": right}
        self._colours, self._texts = colours, texts
        self._compared: tuple[tuple[str, str], Compared] | None = None
        self._whole = False
        self._shows = 0
        self._hunks: tuple[int, ...] = ()
        self.about = Rows("about")
        self.view = LineView("diff")
        drop_keys(self.view, "left", "right")  # these keys choose another round
        self.waiting = Rows("call")

    def compose(self) -> ComposeResult:
        yield from (self.about, self.view, self.waiting, self.footer)

    def on_mount(self) -> None:
        self.view.focus()
        self.call_after_refresh(self._show)

    def on_unmount(self) -> None:
        self._compared, self._colours = None, Colours()  # see `LineView.on_unmount`

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def reword(self) -> None:
        self._show()

    def pull(self, snapshot: RunSnapshot | None) -> None:
        self._foot(snapshot)
        told = waiting_line(snapshot, "rounds.close")
        self.waiting.display = bool(told)
        self.waiting.show((told,))

    def _foot(self, snapshot: RunSnapshot | None) -> None:
        state = snapshot.state if snapshot else None
        self.footer.pull(footer("rounds", state), self.workbench.wall_clock())

    @property
    def sides(self) -> tuple[Side, Side]:
        snapshot = self._first
        left, right = (snapshot.state.attempts[self._chosen[side]] for side in ("left", "right"))
        state, kernel = snapshot.state, snapshot.kernel
        return side_of(state, left, kernel), side_of(state, right, kernel)

    def _show(self) -> None:
        self._shows += 1
        self.about.show(tuple(line((self._side_name(side), "muted")) for side in ("left", "right")))
        self.view.take(self._shows, self._build)
        self._foot(self._first)

    def _side_name(self, side: str) -> str:
        """Return the name of a side, shown if its kernel cannot be read."""
        return name_of(self._first.state.attempts[self._chosen[side]])

    def _build(self) -> None:
        old, new = self.sides
        half = (self.app.size.width - 3) // 2
        head = [old.title, *old.about], [new.title, *new.about]
        if self._wide:
            rows = [
                (*filled(left, half), (" │ ", "phase.rule"), *fit(right, half))
                for left, right in zip(*head, strict=True)
            ]
        else:
            rows = [
                fit(row, 2 * half)
                for row in (
                    (("- ", "diff.removed.mark"), *old.title),
                    join(old.about, ("   ", "text")),
                    (("+ ", "diff.added.mark"), *new.title),
                    join(new.about, ("   ", "text")),
                )
            ]
        if told := self._between():
            rows.append(fit(told, self.app.size.width))
        self.about.styles.height = len(rows)
        self.about.show(tuple(rows))
        self._draw(old, new)
        missing = [s for s in (old, new) if self._colours.of(s.key) is None]
        if missing:
            self.run_worker(self._colour(missing), group="colour")

    def _between(self) -> Line:
        state = self._first.state
        left, right = (state.attempts[self._chosen[side]] for side in ("left", "right"))
        return between(state, left, right)

    @property
    def _wide(self) -> bool:
        return self.app.size.width >= SIDE_BY_SIDE

    def _draw(self, old: Side, new: Side) -> None:
        if self._compared is None or self._compared[0] != (old.key, new.key):
            self._compared = (old.key, new.key), compare_kernels(old.kernel, new.kernel)
        compared = self._compared[1]
        widest = max(map(self._widest, (old, new)))
        added, removed = size(compared)
        shown = compared if self._whole else folded(compared, CONTEXT)
        old_ink, new_ink = self._colours.of(old.key), self._colours.of(new.key)
        changed = f"+{added} -{removed}" if added or removed else tr("no line differs")
        self.view.border_title = Content(tr("compare: {changed}", changed=changed))
        found = find_hunks(shown)
        rows = CodeRows(shown, old=old_ink, new=new_ink, both=not self._wide, widest=widest)
        if self._wide:
            beside = SplitRows(rows, found, self.view.room)
            self._hunks = tuple(beside.starts.values())
            self.view.put(beside)
        else:
            self._hunks = tuple(hunk.start for hunk in found)
            self.view.put(rows, columns=rows.columns, gutter=rows.gutter)
        self.view.border_subtitle = Content(formatting.count(len(self._hunks), "change"))

    def _widest(self, side: Side) -> int:
        return self._texts.of(side.key, lambda _: side.kernel.page)[1]

    async def _colour(self, missing: Sequence[Side]) -> None:
        try:
            for side in missing:
                coloured = await asyncio.to_thread(self._colours.lex, side.kernel)
                self._colours.keep(side.key, coloured)
        except Exception as error:  # noqa: BLE001 - a kernel without colours can be read too
            self.say(without_colours(error))
            return
        self.view.attempt(lambda: self._draw(*self.sides))

    def action_side(self, side: str, step: int) -> None:
        last = len(self._first.state.attempts) - 1
        self._chosen[side] = max(0, min(last, self._chosen[side] + step))
        self._show()

    def action_hunk(self, step: int) -> None:
        top = self.view.scroll_offset.y + 1
        found = [n for n in self._hunks if (n > top if step > 0 else n < top)]
        if found:
            self.view.to_row(max(0, (found[0] if step > 0 else found[-1]) - 1))

    def action_fold(self) -> None:
        self._whole = not self._whole
        self._show()

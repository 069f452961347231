"""Two rounds of a run side by side, each kernel with its measurement.

Shows the snapshot taken at opening; changes no run.
"""

from __future__ import annotations

from textual.app import ComposeResult
from textual.content import Content

from akg_tui.core.state import Attempt
from akg_tui.tui.screens.run_screen import RunScreen, waiting_line
from akg_tui.tui.textual_internals import drop_keys
from akg_tui.tui.widgets.diff_view import DiffView
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view.attempt_rows import between, side_of
from akg_tui.view.code_rows import Colours, filled
from akg_tui.view.controls.command_registry import Where, footer
from akg_tui.view.language import tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import fit, join


class Rounds(RunScreen):
    """Attempts `left` and `right` of the run in `snapshot`."""

    CSS_PATH = "../styles/rounds.tcss"
    where: Where = "rounds"

    def __init__(self, snapshot: RunSnapshot, left: int, right: int, colours: Colours) -> None:
        super().__init__()
        self._first = snapshot
        self._chosen = {"left": left, "right": right}
        self._shows = 0
        self.about = Rows("about")
        self.view = DiffView(colours)
        drop_keys(self.view, "left", "right")  # these keys choose another round
        self.waiting = Rows("call")

    def compose(self) -> ComposeResult:
        yield from (self.about, self.view, self.waiting, self.footer)

    def on_mount(self) -> None:
        self.view.focus()
        self.call_after_refresh(self._show)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_heads)

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
    def _attempts(self) -> tuple[Attempt, Attempt]:
        left, right = (self._first.state.attempts[number] for number in self._chosen.values())
        return left, right

    def _show(self) -> None:
        self._shows += 1
        self._show_heads()
        self.view.take(self._shows, self._compare)
        self._foot(self._first)

    def _compare(self) -> None:
        left, right = self._attempts
        self.view.compare(left.blob, right.blob, self._first.kernel)
        added, removed = self.view.changed
        changed = f"+{added} -{removed}" if added or removed else tr("no line differs")
        self.view.border_title = Content(tr("compare: {changed}", changed=changed))

    def _show_heads(self) -> None:
        state = self._first.state
        left, right = self._attempts
        old, new = side_of(state, left), side_of(state, right)
        half = (self.app.size.width - 3) // 2
        if self.view.is_split:
            rows = [
                (*filled(one, half), (" │ ", "phase.rule"), *fit(other, half))
                for one, other in zip(old, new, strict=True)
            ]
        else:
            gap = ("   ", "text")
            rows = [
                fit(row, 2 * half)
                for row in (
                    (("- ", "diff.removed.mark"), *old[0]),
                    join(old[1:], gap),
                    (("+ ", "diff.added.mark"), *new[0]),
                    join(new[1:], gap),
                )
            ]
        if told := between(state, left, right):
            rows.append(fit(told, self.app.size.width))
        self.about.styles.height = len(rows)
        self.about.show(tuple(rows))

    def action_side(self, side: str, step: int) -> None:
        last = len(self._first.state.attempts) - 1
        self._chosen[side] = max(0, min(last, self._chosen[side] + step))
        self._show()

    def action_hunk(self, step: int) -> None:
        self.view.to_hunk(step)

    def action_fold(self) -> None:
        self.view.fold(whole=not self.view.whole)

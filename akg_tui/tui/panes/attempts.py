"""The table of attempts: verdict, ratio, interval, time, error. Enter goes to the plan item."""

from __future__ import annotations

from textual.content import Content

from akg_tui.core.state import Attempt
from akg_tui.tui.panes.pane import Pane
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.view.attempt_rows import AttemptRows, CaseRows, InputRows
from akg_tui.view.language import tr
from akg_tui.view.run_snapshot import RunSnapshot


class AttemptsPane(LineView, Pane):
    """The attempts, newest first, or a table of all attempts by kind of input or by case."""

    picks = True

    def __init__(self) -> None:
        super().__init__("attempts")
        self._attempts: tuple[Attempt, ...] = ()
        self._pick: int | None = None  # an attempt's number
        self._table = "attempts"
        self._has_cases = False
        self._entitle()

    def _entitle(self) -> None:
        titles = {
            "attempts": tr("attempts"),
            "inputs": tr("inputs × attempts"),
            "cases": tr("cases × attempts"),
        }
        self.entitle(titles[self._table])

    def pull(self, snapshot: RunSnapshot) -> None:
        state, attempts = snapshot.state, snapshot.state.attempts
        self._has_cases = bool(state.task.cases)
        if self._table == "cases" and not self._has_cases:
            self._table = "attempts"
        measured = (len(attempts), state.undone, state.final, state.final_eager)
        if not self.moved((measured, self.room, state.run_id, self._table)):
            return
        self._entitle()
        by_case = self._table == "cases"
        subtitle = (
            tr("ratio in each case") if by_case else tr("error as a share of what is allowed")
        )
        self.border_subtitle = Content(subtitle)
        if self._table != "attempts":
            self._attempts, self._picked = attempts, range(0)
            rows = CaseRows if by_case else InputRows
            self.put(rows(attempts, self.room))
            return
        top = self.top
        grown = len(attempts) - len(self._attempts)
        self._attempts = attempts
        self.put(AttemptRows(snapshot.state, self.room))
        if top > 0 and grown > 0:
            self.to_row(top + grown)  # newest first: the rows on screen move down
        self._mark()

    def cycle(self) -> bool:
        """Switch between the tables by attempt, by kind of input and, if there are any, by case."""
        tables = ["attempts", "inputs", *(["cases"] if self._has_cases else [])]
        self._table = tables[(tables.index(self._table) + 1) % len(tables)]
        return True

    def _mark(self) -> None:
        row = self._row_of_pick()
        self._picked = range(row, row + 1) if row else range(0)

    def _row_of_pick(self) -> int:
        if self._pick is None:
            return 0
        numbers = [attempt.number for attempt in reversed(self._attempts)]
        return numbers.index(self._pick) + 1 if self._pick in numbers else 0

    def pick_step(self, step: int) -> None:
        if self._table != "attempts":
            self.scroll_relative(y=step, animate=False)
            return
        if not self._attempts:
            return
        row = self._row_of_pick()
        row = min(len(self._attempts), max(1, row + step if row else 1))
        self._pick = self._attempts[-row].number
        self.pick(range(row, row + 1))

    @property
    def picked_item(self) -> str:
        """The plan item of the picked attempt; "" if there is none."""
        row = 0 if self._table != "attempts" else self._row_of_pick()
        return self._attempts[-row].item if row else ""

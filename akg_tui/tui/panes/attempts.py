"""The table of attempts: verdict, ratio, interval, time, error. Enter goes to the plan item."""

from __future__ import annotations

from textual.content import Content

from akg_tui.core.plan.knob_effects import search_of
from akg_tui.core.state import Attempt, RunState
from akg_tui.core.summary import climb_of
from akg_tui.tui.panes.pane import Pane, Shared
from akg_tui.tui.widgets.line_view import Lead, LineView
from akg_tui.view.attempt_rows import (
    AttemptRows,
    case_columns,
    knob_rows,
    metric_columns,
)
from akg_tui.view.language import tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line, cells, line


class AttemptsPane(LineView, Pane):
    """The attempts, newest first, or a table of them by case, by metric of the task or by value of
    the knobs.
    """

    picks = True

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name)
        self._attempts: tuple[Attempt, ...] = ()
        self._pick: int | None = None  # an attempt's number
        self._table = "attempts"
        self._has_cases = False
        self._metrics: tuple[str, ...] = ()
        self._seed = "", ""  # the blob of the seed, and its text if it declares knobs
        self._entitle()

    def _entitle(self) -> None:
        titles = {
            "attempts": tr("attempts"),
            "cases": tr("cases × attempts"),
            "metrics": tr("metrics × attempts"),
            "knobs": tr("knobs × values"),
        }
        self.entitle(titles[self._table])

    def pull(self, snapshot: RunSnapshot) -> None:
        state, attempts = snapshot.state, snapshot.state.attempts
        self._has_cases, self._metrics = bool(state.task.cases), state.task.metrics
        if attempts and self._seed[0] != attempts[0].blob:
            text = snapshot.kernel(attempts[0].blob).page
            self._seed = attempts[0].blob, text if "# tune:" in text else ""
        if self._table not in self._tables:
            self._table = "attempts"
        measured = (len(attempts), state.drafts, state.undone, state.final, state.final_eager)
        if not self.moved((measured, self.room, state.run_id, self._table)):
            return
        self._entitle()
        subtitles = {
            "cases": tr("ratio in each case"),
            "metrics": tr("smallest and largest value on all inputs"),
            "knobs": tr("ratio over the seed"),
        }
        told = tr("ratio over the best then, a call as timed then, error of what is allowed")
        if cells(told) + 4 > self.room:
            told = tr("ratio over the best then")
        self.border_subtitle = Content(subtitles.get(self._table, told))
        if self._table != "attempts":
            self._attempts, self._picked = attempts, range(0)
            self.put(self._other_rows(state))
            return
        top = self.top
        grown = len(attempts) - len(self._attempts)
        self._attempts = attempts
        rows = AttemptRows(snapshot.state, self.room)
        self.put(rows, columns=rows.columns, gutter=rows.gutter)
        if top > 0 and grown > 0:
            self.to_row(top + grown)  # newest first: the rows on screen move down
        self._mark()

    def cycle(self) -> str:
        """Switch between the tables by attempt and, if there are any, by case, by metric and by
        value of the knobs.
        """
        tables = self._tables
        self._table = tables[(tables.index(self._table) + 1) % len(tables)]
        return ""

    @property
    def _tables(self) -> list[str]:
        there = {"cases": self._has_cases, "metrics": bool(self._metrics), "knobs": self._seed[1]}
        return ["attempts", *(name for name, has in there.items() if has)]

    def _other_rows(self, state: RunState) -> list[Line]:
        """Return the rows of the table by case, by metric or by value of the knobs."""
        if self._table == "metrics":
            return metric_columns(self._metrics, state.attempts, self.room)
        if self._table == "cases":
            return case_columns(state.attempts, self.room)
        found = search_of(state, self._seed[1])
        if found is None:
            return [line((tr("no knob was measured yet"), "faint"))]
        return knob_rows(found, climb_of(state), self.room)

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
        self.pick_row(min(len(self._attempts), max(1, row + step if row else 1)))

    def pick_row(self, row: int) -> None:
        if self._table == "attempts" and 1 <= row <= len(self._attempts):
            self._pick = self._attempts[-row].number
            self.pick(range(row, row + 1))

    def come_to(self, place: object) -> str:
        """Pick an attempt by its number, in the table of attempts."""
        assert isinstance(place, int)
        self._table = "attempts"
        self._pick = place
        self.forget()
        self.call_after_refresh(lambda: self.pick_row(self._row_of_pick()))
        return ""

    def enter(self) -> str | Lead | None:
        """Lead to the plan item of the picked attempt."""
        row = 0 if self._table != "attempts" else self._row_of_pick()
        item = self._attempts[-row].item if row else ""
        return Lead("plan", item) if item else super().enter()

"""Time travel in the open run: enter the past, move in it, leave it; undo, fork, compare.

Holds the place in the past. The app offers the `action_*` methods as its own. Changes a run only
by commands, and makes forks by the store, each after a question that says what will happen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from akg_tui.core.sanitize import one_line
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from textual.app import App
    from textual.widget import Widget

    from akg_tui.core.past_states import Mark
    from akg_tui.core.state import RunState
    from akg_tui.tui.screens.run_screen import Workbench
    from akg_tui.view.code_rows import Texts
    from akg_tui.view.controls.time_travel import PastPosition

LONG = 20_000  # events from which on the person is told that the past is being read
SLICE = 500  # events that are folded before keys are heard again: 5 ms


class TravelScreen(Protocol):
    """The screen on which the past is looked at."""

    @property
    def timeline(self) -> Widget: ...

    @property
    def texts(self) -> Texts: ...

    def focus_active(self) -> None: ...


class TimeTravel:
    """`deck` gives the screen of the run where it is in front. `place` is None while live."""

    def __init__(
        self, app: App[int], workbench: Workbench, deck: Callable[[], TravelScreen | None]
    ) -> None:
        self._app = app
        self._workbench = workbench
        self._deck = deck
        self.place: PastPosition | None = None

    @property
    def in_past(self) -> bool:
        return self.place is not None and self.place.cursor is not None

    def _deck_in_front(self) -> TravelScreen | None:
        """The deck; where it is not in front, the person is told that a key is for it."""
        none = self._workbench.handle is None
        deck = None if none else self._deck()
        if deck is None:
            self._workbench.say(
                tr("no run is open here") if none else tr("that is for the deck: esc leads there")
            )
        return deck

    def action_travel(self) -> None:
        """Enter the past; in it already, focus the timeline."""
        deck = self._deck_in_front()
        if deck is None:
            return
        if self.in_past:
            deck.timeline.focus()
        else:
            self._app.run_worker(self.enter(), name="read the past", exclusive=True)

    async def enter(self) -> None:
        """Fold the states in slices, between which keys are heard; then show the last one."""
        from akg_tui.core.past_states import Past
        from akg_tui.view.controls.time_travel import PastPosition

        handle = self._workbench.handle
        if handle is None:
            return
        place = self.place
        if place is None or place.past.records is not handle.records:
            place = PastPosition(getattr(handle, "past", None) or Past(handle.records))
        past = place.past
        if len(past) - past.folded > LONG:
            self._workbench.say(tr("reading the past …"))
        while len(past) - past.folded > SLICE:
            past.extend(past.folded + SLICE)
            await asyncio.sleep(0)
        self.place = place
        if handle is self._workbench.handle and (deck := self._deck()) is not None:
            self.action_past_go(place.last)
            self._app.call_after_refresh(deck.timeline.focus)

    def action_live(self) -> None:
        """Leave the past: show what is true now."""
        if self.place is None or not self.in_past:
            self._workbench.say(tr("this is live"))
            return
        self.place.live()
        self._workbench.pull_now()
        if (deck := self._deck()) is not None:
            deck.focus_active()

    def _move(self, move: Callable[[PastPosition], object]) -> None:
        if self.place is not None:
            move(self.place)
            self._workbench.pull_now()

    def action_past_go(self, seq: int) -> None:
        """Go to an event by its number, from 1."""
        self._move(lambda place: place.go(seq))

    def action_past_event(self, step: int) -> None:
        self._move(lambda place: place.step(step))

    def action_past_page(self, step: int) -> None:
        """A twentieth of the run."""
        self._move(lambda place: place.step(step * max(1, place.last // 20)))

    def action_past_edge(self, edge: str) -> None:
        self._move(lambda place: place.go(1 if edge == "home" else place.last))

    def action_past_round(self, step: int) -> None:
        self._move(lambda place: place.to_round(step))

    def action_past_play(self) -> None:
        self._move(lambda place: place.play(time.monotonic()))

    def action_past_speed(self, step: int) -> None:
        def faster(place: PastPosition) -> None:
            self._workbench.say(tr("plays at {speed}×", speed=place.faster(step)))

        self._move(faster)

    def action_rounds(self) -> None:
        """Compare two rounds: the best one, and the one that is looked at."""
        from akg_tui.tui.screens.rounds import Rounds

        deck = self._deck_in_front()
        if deck is None:
            return
        now, here = self._workbench.snapshot_now(), self._workbench.snapshot()
        attempts = now.state.attempts
        if len(attempts) < 2:
            self._workbench.say(tr("there are no two rounds to compare yet"))
            return
        right = here.state.attempts[-1].number if here.state.attempts else 0
        best = now.state.best.attempt if now.state.best else 0
        left = best if best != right else max(0, right - 1)
        sides = min(left, right), max(left, right, 1)
        self._app.push_screen(Rounds(now, *sides, texts=deck.texts))  # the deck's: split once

    def action_undo(self) -> None:
        """Take the last KEEP back, after a question."""
        from akg_tui.core import commands as cmd
        from akg_tui.tui.screens.dialogs import Confirm

        if self._deck_in_front() is None:
            return
        state = self._workbench.snapshot_now().state
        if state.best is None or not state.former:
            self._workbench.say(tr("there is no KEEP to undo: the best kernel is the seed"))
            return

        def undo(yes: bool | None) -> None:
            if not yes:
                return
            if self.place is not None:
                self.place.live()  # what a command does is seen in the present
            if self._at_rest():
                self._app.run_worker(self._undo_at_rest(), name="undo")
            else:
                self._workbench.steer(cmd.UndoKeep(), tr("the KEEP is undone"))

        self._app.push_screen(
            Confirm(tr("undo the last KEEP?"), _undo_words(state), tr("undo")), undo
        )

    def _at_rest(self) -> bool:
        from akg_tui.engine.follower import Followed

        handle = self._workbench.handle
        return isinstance(handle, Followed) and handle.pid is None

    async def _undo_at_rest(self) -> None:
        """As `akg-tui undo`; the follower of the journal sees it."""
        from akg_tui.core import commands as cmd
        from akg_tui.store.errors import StoreError
        from akg_tui.store.run_at_rest import command_at_rest

        handle = self._workbench.handle
        assert handle is not None
        try:
            await asyncio.to_thread(command_at_rest, Path(handle.path), cmd.UndoKeep())
        except StoreError as error:
            self._workbench.say(tr("not undone: {why}", why=error))
            return
        self._workbench.say(tr("the KEEP is undone"))

    def action_fork(self) -> None:
        """A new run from the round that is looked at, after a question."""
        from akg_tui.tui.screens.dialogs import Confirm

        handle = self._workbench.handle
        if self._deck_in_front() is None or handle is None:
            return
        mark = self.place.past.round_at(self.place.cursor or 1) if self.place else None
        if not self.in_past or mark is None:
            self._workbench.say(tr("there is no settled round here to fork from: {key} goes to one",
                         key=way_to("past.enter")))  # fmt: skip
            return
        path, state = Path(handle.path), self._workbench.snapshot().state

        def fork(yes: bool | None) -> None:
            if yes:
                from akg_tui.tui.fork_actions import fork as forked

                self._app.run_worker(
                    forked(self._app, path, mark.round, self._workbench.say), name="fork"
                )

        question = Confirm(
            tr("fork at the end of round {number}?", number=mark.round),
            (*_fork_words(path, mark, state), *self._stopped_words(mark)),
            tr("fork"),
        )
        self._app.push_screen(question, fork)

    def _stopped_words(self, mark: Mark) -> tuple[str, ...]:
        """That the fork would end at once, where it would."""
        from akg_tui.tui.fork_actions import why_at_once

        assert self.place is not None
        why = why_at_once(self.place.past.at(mark.seq))
        ends = tr("It would end at once ({why}): you are asked for another limit.", why=why)
        return (ends,) if why else ()


def _undo_words(state: RunState) -> tuple[str, ...]:
    from akg_tui.view.formatting import attempt, times

    assert state.best is not None
    undone, after = state.best, state.former[-1]
    return (
        tr("The KEEP of attempt {number} ({ratio} the seed) is taken back.",
           number=undone.attempt, ratio=times(undone.over_seed)),
        tr("The best kernel is {which} again ({ratio}), and the work starts from it.",
           which=attempt(after.attempt), ratio=times(after.over_seed)),
        tr("The attempt stays in history, and the agent is told."),
    )  # fmt: skip


def _fork_words(path: Path, mark: Mark, state: RunState) -> tuple[str, ...]:
    from akg_tui.view.formatting import attempt, count, times

    best = state.best
    kept = ""
    if best:
        ratio = times(best.over_seed)
        kept = tr(", best {ratio} ({which})", ratio=ratio, which=attempt(best.attempt))
    name = f"{one_line(path.resolve().name)}-r{mark.round}"
    return (
        tr("A new run, {name}, is made beside this one.", name=name),
        tr("It holds the {events} up to there{best}, and can be resumed at once.",
           events=count(mark.seq, "event"), best=kept),
        tr("This run is not changed."),
    )  # fmt: skip

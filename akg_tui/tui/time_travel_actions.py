"""The app's part of time travel: enter the past of the open run, move in it, leave it; and
what is done from there: fork, undo, compare.

A mixin of the app. Changes a run only by commands, and makes forks by the store, each after
a question that says what will happen.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.core.sanitize import one_line
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from textual.app import App

    from akg_tui.core.past_states import Mark
    from akg_tui.core.state import RunState
    from akg_tui.engine.run_handle import RunHandle
    from akg_tui.tui.screens.run_screen import Steering
    from akg_tui.view.controls.time_travel import TimeTravel
    from akg_tui.view.run_snapshot import RunSnapshot

    class _Base(App[int], Steering): ...
else:
    _Base = object

AT_ONCE = 20_000  # events whose states are folded without a thread and a word


class Travelling(_Base):
    """Actions of the app on the past of its run."""

    _travel: TimeTravel | None = None
    _handle: RunHandle | None

    def tell(self, text: str) -> None:
        raise NotImplementedError

    def look_now(self) -> RunSnapshot:
        """The run as it is now, wherever the person looks."""
        raise NotImplementedError

    @property
    def in_past(self) -> bool:
        return self._travel is not None and self._travel.cursor is not None

    def _on_deck(self) -> bool:
        from akg_tui.tui.screens.deck import Deck

        return self._handle is not None and isinstance(self.screen, Deck)

    def _is_on_deck(self) -> bool:
        """Whether the deck is in sight; if not, the person is told that a key is for it."""
        if not self._on_deck():
            none = self._handle is None
            self.tell(
                tr("no run is open here") if none else tr("that is for the deck: esc leads there")
            )
        return self._on_deck()

    def action_travel(self) -> None:
        """Into the past; there already, to its keys."""
        if not self._is_on_deck():
            return
        if self.in_past:
            self.screen.query_one("#timeline").focus()
        else:
            self.run_worker(self._into_past(), name="read the past", exclusive=True)

    async def _into_past(self) -> None:
        """The states are folded first: in a thread when there are many."""
        from akg_tui.core.past_states import Past
        from akg_tui.view.controls.time_travel import TimeTravel

        handle = self._handle
        if handle is None:
            return
        travel = self._travel
        if travel is None or travel.past.records is not handle.records:
            travel = TimeTravel(getattr(handle, "past", None) or Past(handle.records))
        if len(travel.past) - travel.past.folded > AT_ONCE:
            self.tell(tr("reading the past …"))
            await asyncio.to_thread(travel.past.extend)
        self._travel = travel
        if handle is self._handle and self._on_deck():
            self.travel_to(self._travel.last)
            self.call_after_refresh(self.screen.query_one("#timeline").focus)

    def action_live(self) -> None:
        """Out of the past: what is true now."""
        if self._travel is None or not self.in_past:
            self.tell(tr("this is live"))
            return
        self._travel.live()
        self.pull_now()
        from akg_tui.tui.screens.deck import Deck

        if isinstance(self.screen, Deck):
            self.screen.panes[self.screen.active].focus()

    def travel_to(self, seq: int) -> None:
        if self._travel is not None:
            self._travel.go(seq)
            self.pull_now()

    def travel_by(self, events: int) -> None:
        if self._travel is not None:
            self._travel.step(events)
            self.pull_now()

    def travel_round(self, step: int) -> None:
        if self._travel is not None:
            self._travel.to_round(step)
            self.pull_now()

    def travel_play(self) -> None:
        if self._travel is not None:
            self._travel.play(time.monotonic())
            self.pull_now()

    def travel_speed(self, step: int) -> None:
        if self._travel is not None:
            self.tell(tr("plays at {speed}×", speed=self._travel.faster(step)))
            self.pull_now()

    def action_rounds(self) -> None:
        """Compare two rounds: the best one, and the one that is looked at."""
        from akg_tui.tui.screens.rounds import Rounds

        if not self._is_on_deck():
            return
        now, here = self.look_now(), self.look()
        attempts = now.state.attempts
        if len(attempts) < 2:
            self.tell(tr("there are no two rounds to compare yet"))
            return
        right = here.state.attempts[-1].number if here.state.attempts else 0
        best = now.state.best.attempt if now.state.best else 0
        left = best if best != right else max(0, right - 1)
        texts = getattr(self.screen, "texts", None)  # the deck's: split once
        self.push_screen(Rounds(now, min(left, right), max(left, right, 1), texts=texts))

    def action_undo(self) -> None:
        """Take the last KEEP back, after a question."""
        from akg_tui.core import commands as cmd
        from akg_tui.tui.screens.dialogs import Confirm

        if not self._is_on_deck():
            return
        state = self.look_now().state
        if state.best is None or not state.former:
            self.tell(tr("there is no KEEP to undo: the best kernel is the seed"))
            return

        def undo(yes: bool | None) -> None:
            if not yes:
                return
            if self._travel is not None:
                self._travel.live()  # what a command does is seen in the present
            if self._at_rest():
                self.run_worker(self._undo_at_rest(), name="undo")
            else:
                self.steer(cmd.UndoKeep(), tr("the KEEP is undone"))

        self.push_screen(Confirm(tr("undo the last KEEP?"), _undo_words(state), tr("undo")), undo)

    def _at_rest(self) -> bool:
        from akg_tui.engine.follower import Followed

        return isinstance(self._handle, Followed) and self._handle.pid is None

    async def _undo_at_rest(self) -> None:
        """As `akg-tui undo`; the follower of the journal sees it."""
        from akg_tui.core import commands as cmd
        from akg_tui.store.errors import StoreError
        from akg_tui.store.run_at_rest import command_at_rest

        assert self._handle is not None
        try:
            await asyncio.to_thread(command_at_rest, Path(self._handle.path), cmd.UndoKeep())
        except StoreError as error:
            self.tell(tr("not undone: {why}", why=error))
            return
        self.tell(tr("the KEEP is undone"))

    def action_fork(self) -> None:
        """A new run from the round that is looked at, after a question."""
        from akg_tui.tui.screens.dialogs import Confirm

        if not self._is_on_deck() or self._handle is None:
            return
        mark = self._travel.past.round_at(self._travel.cursor or 1) if self._travel else None
        if not self.in_past or mark is None:
            self.tell(tr("there is no settled round here to fork from: {key} goes to one",
                         key=way_to("past.enter")))  # fmt: skip
            return
        path, look = Path(self._handle.path), self.look()

        def fork(yes: bool | None) -> None:
            if yes:
                from akg_tui.tui.fork_actions import fork as forked

                self.run_worker(forked(self, path, mark.round, self.tell), name="fork")

        question = Confirm(
            tr("fork at the end of round {number}?", number=mark.round),
            (*_fork_words(path, mark, look.state), *self._stopped_words(mark)),
            tr("fork"),
        )
        self.push_screen(question, fork)

    def _stopped_words(self, mark: Mark) -> tuple[str, ...]:
        """That the fork would end at once, where it would."""
        from akg_tui.tui.fork_actions import why_at_once

        assert self._travel is not None
        why = why_at_once(self._travel.past.at(mark.seq))
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

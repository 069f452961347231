"""Time travel in the open run: enter the past, move in it, leave it; undo, fork, compare.

Owns the position in the past. The app finds the `action_*` methods here. Changes a run only
by commands, and forks by the store, each after a question that states the effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.core import commands as cmd
from akg_tui.core.effects import undo_waits
from akg_tui.core.past_states import Mark, Past
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import RunState
from akg_tui.core.summary import best_of
from akg_tui.engine.follower import Followed
from akg_tui.store.errors import StoreError
from akg_tui.store.run_at_rest import command_at_rest
from akg_tui.tui.fork_actions import fork
from akg_tui.tui.screens.dialogs import Confirm
from akg_tui.tui.screens.rounds import Rounds
from akg_tui.tui.screens.run_screen import Workbench
from akg_tui.tui.textual_internals import OPENING, run_newest
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.controls.time_travel import PastPosition
from akg_tui.view.formatting import attempt, count, ratio, ratios, times
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from textual.app import App

    from akg_tui.tui.screens.deck import Deck

LONG = 20_000  # from this many events on, a message says that the past is being read
SLICE = 500  # events folded between two chances to read keys: 5 ms


class TimeTravel:
    """Moves in the past of a run. `deck` returns the deck if in front; `place` is None at first."""

    def __init__(
        self, app: App[int], workbench: Workbench, deck: Callable[[], Deck | None]
    ) -> None:
        self._app = app
        self._workbench = workbench
        self._deck = deck
        self.place: PastPosition | None = None

    @property
    def in_past(self) -> bool:
        return self.place is not None and self.place.cursor is not None

    def _deck_in_front(self) -> Deck | None:
        """Return the deck; if it is not in front, show that the key belongs to it."""
        none = self._workbench.handle is None
        deck = None if none else self._deck()
        if deck is None:
            self._workbench.say(
                tr("no run is open here") if none else tr("that is for the deck: esc leads there")
            )
        return deck

    def action_travel(self) -> None:
        """Enter the past; if already there, focus the timeline."""
        deck = self._deck_in_front()
        if deck is None:
            return
        if self.in_past:
            deck.timeline.focus()
        else:
            run_newest(self._app, self.enter, name="read the past", group=OPENING)

    async def enter(self) -> None:
        """Fold the states in slices, between which the screen is painted; then show the last."""
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

    async def action_to_round(self, number: int) -> None:
        """Enter the past at the end of a round."""
        await self.enter()
        if self.place is not None:
            mark = next((m for m in self.place.past.marks if m.round == number), None)
            if mark is not None:
                self.action_past_go(mark.seq)

    def action_live(self) -> None:
        """Leave the past: show the current state."""
        if self.place is None or not self.in_past:
            self._workbench.say(tr("this is live"))
            return
        self.place.live()
        self._workbench.pull_now()
        if (deck := self._deck()) is not None:
            deck.focus_active()

    def action_past_go(self, seq: int) -> None:
        """Go to the event with the number `seq`, counted from 1."""
        if self.place is not None:
            self.place.go(seq)
            self._workbench.pull_now()

    def action_past(self, what: str, step: int = 0) -> None:
        """Move by events, by twentieths of the run (page), by rounds, or to an end of the run."""
        if (place := self.place) is None:
            return
        match what:
            case "event":
                place.step(step)
            case "page":
                place.step(step * max(1, place.last // 20))
            case "edge":
                place.go(1 if step < 0 else place.last)
            case "round":
                place.to_round(step)
        self._workbench.pull_now()

    def action_rounds(self) -> None:
        """Compare two rounds: the best one, and the latest one in the snapshot on screen."""
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
        # The deck's colours: a syntax tree of the comparison's own, of 20,000 lines, would stop
        # the screen for 14 ms when it is freed.
        self._app.push_screen(Rounds(now, *sides, deck.shared.colours))

    def action_undo(self) -> None:
        """Undo the last KEEP, after a question; or take a queued undo back."""
        if self._deck_in_front() is None:
            return
        state = self._workbench.snapshot_now().state
        if queued := state.undo_queued:
            told = tr("the KEEP of attempt {number} stays", number=queued.attempt)
            self._workbench.steer(cmd.WithdrawUndo(), told)
            return
        if state.best is None or not state.former:
            self._workbench.say(tr("there is no KEEP to undo: the best kernel is the seed"))
            return

        def undo(yes: bool | None) -> None:
            if not yes:
                return
            if self.place is not None:
                self.place.live()  # the effect of a command shows only in the present
            handle = self._workbench.handle
            if isinstance(handle, Followed) and handle.pid is None:
                self._app.run_worker(self._undo_at_rest(Path(handle.path)), name="undo")
            else:
                now = self._workbench.snapshot_now().state
                told = tr("the KEEP is undone")
                if undo_waits(now):
                    told = tr("queued: the KEEP is undone when the round is settled; {key} takes "
                              "that back", key=way_to("run.undo"))  # fmt: skip
                self._workbench.steer(cmd.UndoKeep(queue=True), told)

        question = Confirm(tr("undo the last KEEP?"), _undo_words(state), tr("undo"))
        self._app.push_screen(question, undo)

    async def _undo_at_rest(self, path: Path) -> None:
        """Undo as `akg-tui undo` does; the follower reads the change from the journal."""
        try:
            await asyncio.to_thread(command_at_rest, path, cmd.UndoKeep())
        except StoreError as error:
            self._workbench.say(tr("not undone: {why}", why=error))
            return
        self._workbench.say(tr("the KEEP is undone"))

    def action_fork(self) -> None:
        """Fork a new run from the round on screen in the past, after a question."""
        handle = self._workbench.handle
        if self._deck_in_front() is None or handle is None:
            return
        mark = self.place.past.round_at(self.place.cursor or 1) if self.place else None
        if not self.in_past or mark is None:
            self._workbench.say(tr("there is no settled round here to fork from: {key} goes to one",
                         key=way_to("past.enter")))  # fmt: skip
            return
        path, state = Path(handle.path), self._workbench.snapshot().state

        def answered(yes: bool | None) -> None:
            if yes:
                fork(self._app, path, mark.round, self._workbench.say)

        title = tr("fork at the end of round {number}?", number=mark.round)
        question = Confirm(title, _fork_words(path, mark, state), tr("fork"))
        self._app.push_screen(question, answered)


def _undo_words(state: RunState) -> tuple[str, ...]:
    undone, after = best_of(state), state.former[-1]
    stays = tr("The attempt stays in history, and the agent is told.")
    if undo_waits(state):
        waits = tr("It waits until the work under way is settled; a KEEP of that goes with it.")
        stays = f"{stays} {waits}"
    if undone is None:  # an estimate run
        which = attempt(after.attempt)
        return (tr("The best kernel is {which} again, and the work starts from it.", which=which),
                stays)  # fmt: skip
    return (
        tr("The KEEP of attempt {number} ({ratio} the seed) is taken back.",
           number=undone.attempt, ratio=ratio(undone.over_seed)),
        tr("The best kernel is {which} again ({ratio}), and the work starts from it.",
           which=attempt(after.attempt), ratio=times(after.over_seed)),
        stays,
    )  # fmt: skip


def _fork_words(path: Path, mark: Mark, state: RunState) -> tuple[str, ...]:
    best = best_of(state)
    kept = ""
    if best:
        kept = tr(", best {ratio} ({which})", ratio=ratios(best), which=attempt(best.attempt))
    name = f"{one_line(path.resolve().name)}-r{mark.round}"
    return (
        tr("A new run, {name}, is made beside this one.", name=name),
        tr("It holds the {events} up to there{best}, and can be resumed at once.",
           events=count(mark.seq, "event"), best=kept),
        tr("This run is not changed."),
    )  # fmt: skip

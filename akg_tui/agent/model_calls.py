"""Calls of a model: the budget check before each call, and retries with backoff.

Owns the calls in flight of one run and the waits between requests; a repeated request has equal
bytes unless a hint arrived meanwhile. Each wait is an event, each broken reply is charged in the
journal. The rule of the budgets is in `akg_tui.core.stopping.limits`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from msgspec.structs import asdict

from akg_tui.agent.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    ModelUnusable,
    ServedModel,
    ServerBusy,
    Spent,
)
from akg_tui.agent.tools.run_access import RunAccess
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.effects import visit_over, wait_over
from akg_tui.core.model_info import Usage
from akg_tui.core.plan.submission import SEARCHERS
from akg_tui.core.state import RunState
from akg_tui.core.stopping.limits import no_room


class WaitEnded(Exception):
    """The wait for a server was ended because the run or the visit stops, or is paused."""


@dataclass
class Retry:
    """The retry policy of a run's calls. Times are in seconds.

    Waits double from `base_s` up to `cap_s`; `jitter(attempt)` in [0, 1) varies each by up to a
    quarter, equally in every run. A wait that the server asks for is granted up to `asked_cap_s`.
    A request fails `total_s` after its first failed try, waits and tries included, because a try
    at a stalled server takes longer than a wait. It also fails after `broken` broken replies in
    a row. A server that is unreachable before its first reply is not retried: the address is
    wrong. `now` is a monotonic clock.
    """

    base_s: float = 2.0
    cap_s: float = 120.0
    asked_cap_s: float = 300.0
    total_s: float = 7_200.0
    broken: int = 6
    jitter: Callable[[int], float] = lambda attempt: random.Random(attempt).random()
    rest: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = time.monotonic
    answered: bool = field(default=False, init=False)

    def wait_for(self, attempt: int, asked_s: float | None) -> float:
        """Return the seconds to wait before attempt number `attempt` + 1."""
        grown = min(self.cap_s, self.base_s * 2.0 ** min(attempt - 1, 30))
        wait = grown * (0.75 + 0.5 * self.jitter(attempt))
        return max(wait, min(asked_s, self.asked_cap_s)) if asked_s is not None else wait

    async def ask(
        self,
        run: RunAccess,
        model: ChatModel,
        make: Callable[[], ChatRequest],
        on_delta: Callable[[str], None],
        clock: Callable[[], float],
        *,
        source: str = "",
        again: Callable[[], None] = lambda: None,
    ) -> ChatReply:
        """Send the request of `make` until it has a reply, and return the reply.

        `source` is the name of the calling subagent, or "". `again` is called before each
        repetition, and raises where the request must not be repeated. Raises `ModelFailed` when
        a wait does not help, `WaitEnded` when the run or the visit ends during a wait.
        """
        since: float | None = None
        broken = 0
        attempt = 0
        served = model if isinstance(model, ServedModel) else None
        while True:
            attempt += 1
            try:
                request = make()
                if served and (probed := await served.prepare(run.state.capabilities)):
                    run.send(cmd.Observe(probed))
                reply = await model.complete(request, on_delta)
            except asyncio.CancelledError:
                if served and served.unfinished:
                    _charge(run, model, "cancelled", served.unfinished, source)
                raise
            except ServerBusy as error:
                _charge(run, model, str(error), error.spent, source)
                broken = broken + 1 if error.garbled else 0
                failed = self.now()
                since = failed if since is None else since
                self._give_up(error, broken, attempt, failed - since)
                seconds = round(self.wait_for(attempt, error.asked_s), 3)
                waiting = ev.ApiWaiting(
                    reason=str(error), attempt=attempt, seconds=seconds, asked_s=error.asked_s
                )
                run.send(cmd.Observe(waiting))
                await self.rest(seconds)
                now = clock()  # before the state is read: it can journal a sleep of the machine
                if wait_over(run.state, now) or visit_over(run.state, now):
                    raise WaitEnded from None
                again()
            else:
                self.answered = True
                return reply

    def _give_up(self, error: ServerBusy, broken: int, attempt: int, failing: float) -> None:
        if error.unreachable and not self.answered:
            raise ModelUnusable(str(error)) from error
        if broken >= self.broken:
            raise ModelUnusable(f"{broken} broken replies in a row; the last: {error}") from error
        if failing >= self.total_s:
            hours = f"{failing / 3600:.1f} h"
            raise ModelUnusable(f"no reply in {attempt} tries over {hours}; {error}") from error


def _charge(run: RunAccess, model: ChatModel, reason: str, spent: Spent, source: str) -> None:
    """Journal the tokens of an incomplete reply, unless there are none."""
    if spent != Spent():
        lost = ev.ReplyLost(
            phase=run.state.phase, model=model.name, reason=reason, source=source, **asdict(spent)
        )
        run.send(cmd.Observe(lost))


CHARACTERS_A_TOKEN = 4


class NoRoom(RuntimeError):
    """The call could exceed a budget and was not made; the message names the budget."""


class CallBudget:
    """The estimated tokens of the calls of one run that have no reply yet."""

    def __init__(self) -> None:
        self._in_flight: list[Usage] = []

    @contextmanager
    def call(self, state: RunState, estimate: Usage) -> Iterator[Callable[[RunState], None]]:
        """Reserve `estimate` in the budgets while the block runs. Raises `NoRoom`.

        Leave the block once the reply is journaled: the state counts it from then on. The block
        gets a function that checks the budgets again and raises `NoRoom`. Call it before the
        request is repeated, because a lost reply was paid for, and other calls have ended.
        """
        if full := no_room(state, (*self._in_flight, estimate)):
            raise NoRoom(full)
        self._in_flight.append(estimate)
        try:
            yield self._still_fits
        finally:
            self._in_flight.remove(estimate)

    def _still_fits(self, state: RunState) -> None:
        if full := no_room(state, tuple(self._in_flight)):
            raise NoRoom(full)


def estimated(model: str, characters: int) -> Usage:
    """Return the fewest tokens that so many characters can have; 0 for a search."""
    tokens = 0 if model in SEARCHERS else -(-characters // CHARACTERS_A_TOKEN)
    return Usage(model, input=tokens)

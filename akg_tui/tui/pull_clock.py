"""The pull clock: how often the screens are redrawn from the run.

Thirty times a second; down to four if the event loop lags, if the terminal accepts output slowly,
or if nothing has changed. The module only schedules pulls; the owner defines them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from akg_tui.tui.textual_internals import backlog

if TYPE_CHECKING:
    from textual.app import App

TICK_S = 1 / 30
SLOWEST = 8  # ticks between two pulls: about four pulls a second
LAG_S = 0.05
REST_S = 0.25  # between two pulls while nothing changes, so that clocks on the screen advance


class Pace:
    """Decides at each tick whether to pull. Halves its rate under load, recovers step by step."""

    def __init__(self) -> None:
        self.stride = 1
        self.reduced = False  # always at the slowest rate, for people who want little motion
        self._waited = 0

    def tick(self, lag: float, backlog: int) -> bool:
        """Return whether to pull now.

        `lag` is the seconds that this tick came late; `backlog` counts writes that wait for the
        terminal. While writes wait, the rate falls step by step to the slowest.
        """
        self._waited += 1
        strained = lag > LAG_S or backlog > 0
        if strained:
            self.stride = min(SLOWEST, self.stride * 2)
        if self._waited < (SLOWEST if self.reduced else self.stride):
            return False
        if not strained:
            self.stride = max(1, self.stride - 1)
        self._waited = 0
        return True


class PullClock:
    """Calls `pull` as often as the event loop and the terminal keep up.

    `news` returns a value for everything that changes by itself, except time. While that value is
    constant, the clock pulls every `REST_S` seconds.
    """

    def __init__(
        self,
        app: App[int],
        pull: Callable[[], None],
        news: Callable[[], object],
    ) -> None:
        self._app = app
        self._pull = pull
        self._news = news
        self._told: object = None
        self._pulled = 0.0
        self._due = time.monotonic()
        self.pace = Pace()
        self.pulls = 0

    def start(self) -> None:
        self._due = time.monotonic() + TICK_S
        self._app.set_interval(TICK_S, self._tick, name="pull clock")

    def _tick(self) -> None:
        now = time.monotonic()
        lag = max(0.0, now - self._due)
        self._due = now + TICK_S
        if not self.pace.tick(lag, backlog(self._app)):
            return
        if self._news() != self._told or now - self._pulled >= REST_S:
            self.now()

    def now(self) -> None:
        """Pull at once, at any pace."""
        self.pulls += 1
        self._pulled = time.monotonic()
        self._told = self._news()
        self._pull()

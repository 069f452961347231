"""The pull clock: how often the screen may ask what changed.

Thirty times a second, down to four when the event loop lags or the terminal is slow to
take what was written. It only paces; what a pull does is its owner's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.app import App
    from textual.driver import Driver

TICK_S = 1 / 30
SLOWEST = 8  # ticks between two pulls: about four pulls a second
LAG_S = 0.05


class Pace:
    """Says at each tick whether to pull. Halves its rate under strain, recovers step by step."""

    def __init__(self) -> None:
        self.stride = 1
        self.reduced = False  # at the slowest rate always, for who wants little motion
        self._waited = 0

    def tick(self, lag: float, backlog: int) -> bool:
        """`lag`: seconds that this tick came late; `backlog`: writes the terminal has not taken.

        Nothing is drawn while writes are waiting, up to the slowest rate.
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
    """Calls `pull` at the pace that loop and terminal can bear."""

    def __init__(
        self, app: App[int], pull: Callable[[], None], monotonic: Callable[[], float]
    ) -> None:
        self._app = app
        self._pull = pull
        self._monotonic = monotonic
        self._due = monotonic()
        self.pace = Pace()
        self.pulls = 0

    def start(self) -> None:
        self._due = self._monotonic() + TICK_S
        self._app.set_interval(TICK_S, self._tick, name="pull clock")

    def _tick(self) -> None:
        now = self._monotonic()
        lag = max(0.0, now - self._due)
        self._due = now + TICK_S
        if self.pace.tick(lag, backlog(self._app._driver)):
            self.now()

    def now(self) -> None:
        """Pull at once, whatever the pace."""
        self.pulls += 1
        self._pull()


def backlog(driver: Driver | None) -> int:
    """Writes that wait for the terminal to take them. 0 for a driver without a queue."""
    writer = getattr(driver, "_writer_thread", None)
    queue = getattr(writer, "_queue", None)
    return queue.qsize() if queue is not None else 0

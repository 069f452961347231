"""Schedules the garbage collector: young objects between frames, all others while nothing changes.

Dialogs and layouts leave cycles behind, so collections are needed. A full collection walks some
200,000 objects, most of them code, and blocks the screen for a tenth of a second. Owns the settings
of the collector and the thread switch interval. Only for the process of a workbench: frozen
objects are never collected.
"""

from __future__ import annotations

import gc
import sys

YOUNG = 2_000  # new objects, less those freed, before a look at them: about 1 ms
OLDER = 5  # such looks before one at what outlived one: 2 ms
OLDEST = 24  # of those before one at all that was not frozen: 5 to 10 ms
UNASKED = 128  # of those before Python looks at all by itself, in the midst of something
LONG_REST_S = 5.0
TURN_S = 0.001
"""What a thread that colours a kernel or reads the past keeps Python for, while the screen waits;
five times as long is Python's own wont."""
HELD = 200_000  # more than a start makes


def hold() -> None:
    """No look before the screen stands: what a start imports is not garbage, and the looks
    at it take a tenth of the time to the first frame. `Sweeper.settle` ends it.
    """
    gc.set_threshold(HELD)


class Sweeper:
    """Collects in pauses, once `settle` was called: when the first screen is complete."""

    def __init__(self) -> None:
        self._left = False
        self._modules = 0

    def settle(self) -> None:
        """Leave out of all later looks what is there now."""
        gc.set_threshold(YOUNG, OLDER, UNASKED)
        self._freeze()
        sys.setswitchinterval(TURN_S)

    def run_left(self) -> None:
        """Much of what was frozen is garbage now: at the next rest everything is looked at once,
        which takes a tenth of a second, and what is left is frozen again.
        """
        self._left = True

    def between(self) -> None:
        """The screen is drawn, and nothing is to be done for a moment."""
        if self._modules and gc.get_count()[2] >= OLDEST:
            if len(sys.modules) != self._modules:
                # Most of what is new is code, for the first of a kind of dialog: it stays. What
                # is lost with it is at most what is on the screen, and that as often as code comes.
                self._freeze()
            gc.collect()

    def rest(self, seconds: float) -> None:
        """Nothing has changed for so long, and nobody has pressed a key."""
        if not self._modules:
            return
        if self._left:
            self._left = False
            gc.unfreeze()
            gc.collect()
            self._freeze()
            return
        young, older, oldest = gc.get_count()
        if young >= YOUNG // 2 or older:
            gc.collect(1)
        elif seconds >= LONG_REST_S and oldest >= OLDEST // 2:
            gc.collect()

    def _freeze(self) -> None:
        gc.freeze()
        self._modules = len(sys.modules)

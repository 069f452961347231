"""Schedules the garbage collector: young objects between frames, all others while nothing changes.

Dialogs and layouts leave cycles behind, so collections are needed. A full collection walks about
200,000 objects, most of them code, and blocks the screen for a tenth of a second. This module owns
the settings of the collector and the thread switch interval. Use it only in a workbench process:
frozen objects are never collected.
"""

from __future__ import annotations

import gc
import sys

YOUNG = 2_000  # new objects, less those freed, before a collection of generation 0: about 1 ms
OLDER = 5  # collections of generation 0 before one of generation 1: 2 ms
OLDEST = 8  # collections of generation 1 before a full one between frames: 5 to 15 ms
UNASKED = 128  # collections of generation 1 before Python starts a full one at any moment
LONG_REST_S = 5.0
LEFT_REST_S = 1.0
"""Seconds of rest before the objects of a run that was left are collected. asyncio keeps a
cancelled timer, and with its context the screen, until the time that the timer was set for: half a
second for the cursor of a text field.
"""
TURN_S = 0.001
"""Seconds that a thread which colours a kernel or reads the past holds the interpreter while the
screen waits. Python's default is five times as long."""
HELD = 200_000  # more objects than a start creates


def hold() -> None:
    """Prevent collections until `Sweeper.settle`: imported code is not garbage, and
    collections then take a tenth of the time to the first frame.
    """
    gc.set_threshold(HELD)


class Sweeper:
    """Collects in pauses, after `settle` was called with the first screen complete."""

    def __init__(self) -> None:
        self._left = False
        self._modules = 0

    def settle(self) -> None:
        """Exclude all objects alive now from later collections, and set the thresholds."""
        gc.set_threshold(YOUNG, OLDER, UNASKED)
        self._freeze()
        sys.setswitchinterval(TURN_S)

    def run_left(self) -> None:
        """Plan a full collection, because many frozen objects are garbage now. It takes a tenth of
        a second; the objects that survive it are frozen again.
        """
        self._left = True

    def between(self) -> None:
        """Collect after a frame is drawn, if a full collection is due."""
        if self._modules and gc.get_count()[2] >= OLDEST:
            if len(sys.modules) != self._modules:
                # Most new objects are code for the first dialog of a kind: it stays alive. Garbage
                # frozen with it is at most what is on the screen, once for each import of code.
                self._freeze()
            gc.collect()

    def rest(self, seconds: float) -> None:
        """Collect after `seconds` without a change or a key press."""
        if not self._modules:
            return
        if self._left and seconds >= LEFT_REST_S:
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

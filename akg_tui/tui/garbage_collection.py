"""Settings of the garbage collector and of the thread switch interval, for a workbench process.

A full collection walks about 200,000 objects, most of them code, and blocks the screen for a tenth
of a second. With these settings the worst stall of `python -m benchmarks workbench` was 47 ms,
with Python's own 88 ms, and the first frame came after 616 ms instead of 696 ms (medians,
machine S, 2026-11-29). Frozen objects are never collected, so use it in no other process.
"""

from __future__ import annotations

import gc
import sys

YOUNG = 2_000  # new objects, less those freed, before a collection of generation 0: about 1 ms
OLDER = 5  # collections of generation 0 before one of generation 1: 2 ms
OLDEST = 128  # collections of generation 1 before a full one
TURN_S = 0.001
"""Seconds that a thread which colours a kernel or reads the past holds the interpreter while the
screen waits. Python's default is five times as long."""
HELD = 200_000  # more objects than a start creates


def hold() -> None:
    """Prevent collections until `settle`, because imported code is not garbage."""
    gc.set_threshold(HELD)


def settle() -> None:
    """Exclude all objects alive now from later collections; call with the first screen complete."""
    gc.set_threshold(YOUNG, OLDER, OLDEST)
    gc.freeze()
    sys.setswitchinterval(TURN_S)


def settle_again() -> None:
    """Collect the frozen objects too, of which many are garbage after a run was left; exclude
    those that survive. Takes a tenth of a second.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()

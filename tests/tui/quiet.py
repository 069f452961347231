"""Waits until an app can do nothing more before time passes: by events, not by the clock.

Textual's own waits sleep 20 ms at a time until the process hardly uses the processor, and send a
message through every widget.
"""

from __future__ import annotations

import asyncio
import time

import pytest
from textual._context import active_app
from textual.message_pump import MessagePump
from textual.pilot import Pilot

SOON_S = 0.01  # a timer due so soon is part of a change: a size waits 8 ms for the next one
ROUNDS = 3  # turns of the loop with nothing to do: the end of a thread is heard in the next turn
_wait_for_screen = Pilot._wait_for_screen


def wait_for_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every pilot wait in this way."""
    for module in ("app", "pilot"):
        monkeypatch.setattr(f"textual.{module}.wait_for_idle", quiet)
    monkeypatch.setattr(Pilot, "_wait_for_screen", _at_rest)


async def quiet(min_sleep: float = 0.0, max_sleep: float = 5.0) -> None:
    """Paint what is due, and return when all messages were taken: long before `max_sleep`."""
    loop = asyncio.get_running_loop()
    end = time.monotonic() + max_sleep
    still = 0
    while still < ROUNDS and time.monotonic() < end:
        still += 1
        await asyncio.sleep(0)
        if loop._ready or _paint():  # type: ignore[attr-defined]
            still = 0
        elif (wait := _next_timer(loop)) < SOON_S:
            await asyncio.sleep(max(0.0, wait))
            still = 0


def _paint() -> bool:
    """Do at once what screens would do within a sixtieth of a second; False if it is nothing."""
    app = active_app.get(None)
    due = [s for s in app.screen_stack if s._update_timer._active.is_set()] if app else []
    for screen in due:
        screen._on_timer_update()
    return bool(due)


def _next_timer(loop: asyncio.AbstractEventLoop) -> float:
    scheduled = loop._scheduled  # type: ignore[attr-defined]
    return min((t.when() for t in scheduled if not t.cancelled()), default=1e9) - loop.time()


async def _at_rest(pilot: Pilot[object], timeout: float = 30.0) -> bool:
    """Wait until every widget of the screen has taken its messages."""
    await quiet()
    if pilot.app.screen_stack and all(map(_waits, pilot.app.screen.walk_children(with_self=True))):
        return _waits(pilot.app) or await _wait_for_screen(pilot, timeout)
    return await _wait_for_screen(pilot, timeout)  # something is awaited amid a message


def _waits(pump: MessagePump) -> bool:
    """Whether a pump waits for its next message."""
    waiter = getattr(pump._task, "_fut_waiter", None)
    return waiter is not None and waiter in pump._message_queue.ready_event._waiters

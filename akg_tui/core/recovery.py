"""What a new session writes first: that it begins, and the end of what the last one left open.

Pure: the same for the engine, for a command on a run at rest, and for tests.
"""

from __future__ import annotations

from akg_tui.core import events as ev
from akg_tui.core.state import RunState

ENDED = "session ended"

Closing = ev.EvalInterrupted | ev.ToolAnswered | ev.TurnInterrupted


def opening(state: RunState, pid: int, version: str) -> tuple[ev.SessionOpened | Closing, ...]:
    """The events with which a process takes the run over."""
    opened = ev.SessionOpened(pid=pid, version=version, resumed=state.seq > 1)
    left: tuple[Closing, ...] = ()
    if running := state.running:
        left = (ev.EvalInterrupted(attempt=running.attempt, reason=ENDED),)
    return (opened, *left, *cut_off(state, ENDED))


def cut_off(state: RunState, reason: str) -> tuple[ev.ToolAnswered | ev.TurnInterrupted, ...]:
    """The end of a turn that was cut off: each open call answered, the edit undone."""
    answers = tuple(
        ev.ToolAnswered(
            call=call,
            tool=tool,
            status="error",
            error_information=f"interrupted: the {reason} before the tool answered",
        )
        for call, tool in state.open_calls
    )
    # A visit starts afresh, so what an unfinished one had edited is undone.
    return (*answers, ev.TurnInterrupted(reason=reason)) if state.turn_open else answers

"""A person's hand on one subagent: a message to it alone, and a stop.

Pure: when each may be done, and what it does to the state. A message goes with the
subagent's next request; a stop ends it at once, and whoever started it is told so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.plain import one_line
from akg_tui.core.refusal import Events, Rejected
from akg_tui.core.state import RunState, Subagent

BY_HAND = "stopped by a person"
WIDTH = 300


def at_work(state: RunState, name: str) -> Subagent | None:
    """The subagent of this name, while it is at work."""
    return next((one for one in state.subagents if one.id == name), None)


def stopped_words(one: Subagent) -> str:
    """Why a subagent that a person stopped has ended."""
    return f"{BY_HAND}: {one_line(one.stop_reason, WIDTH)}" if one.stop_reason else BY_HAND


def _found(state: RunState, name: str) -> Subagent | Rejected:
    one = at_work(state, name)
    if one is None:
        known = ", ".join(each.id for each in state.subagents)
        told = f"at work are: {known}" if known else "none is"
        return Rejected(f"the subagent {one_line(name, 40)} is not at work; {told}")
    if one.stopped:
        return Rejected(f"{one.id} is being stopped already")
    return one


def _hint(state: RunState, command: cmd.HintSubagent, now: float) -> Events | Rejected:
    found = _found(state, command.subagent)
    if isinstance(found, Rejected):
        return found
    text = command.text.strip()
    if not text:
        return Rejected("an empty message")
    return (ev.SubagentHinted(subagent=found.id, text=text),)


def _stop(state: RunState, command: cmd.StopSubagent, now: float) -> Events | Rejected:
    found = _found(state, command.subagent)
    if isinstance(found, Rejected):
        return found
    return (ev.SubagentStopped(subagent=found.id, reason=command.reason.strip()),)


def _hinted(state: RunState, event: ev.SubagentHinted, at: float) -> RunState:
    return _changed(state, event.subagent, lambda one: replace(one, hints=(*one.hints, event.text)))


def _stopped(state: RunState, event: ev.SubagentStopped, at: float) -> RunState:
    one = at_work(state, event.subagent)
    state = _changed(
        state, event.subagent, lambda one: replace(one, stopped=True, stop_reason=event.reason)
    )
    if one is None or one.call:
        return state
    # It is the visit itself: the visit ends, and no other diagnosis is tried in its place.
    tried = state.task.policy.diagnosis_attempts
    return replace(state, recalls=state.recalls + 1, diagnosis_attempts=tried)


def _changed(state: RunState, name: str, change: Callable[[Subagent], Subagent]) -> RunState:
    subagents = tuple(change(one) if one.id == name else one for one in state.subagents)
    return replace(state, subagents=subagents)


DECIDE_SUBAGENTS: dict[type, Callable[[RunState, Any, float], Events | Rejected]] = {
    cmd.HintSubagent: _hint,
    cmd.StopSubagent: _stop,
}
APPLY_SUBAGENTS: dict[type, Callable[[RunState, Any, float], RunState]] = {
    ev.SubagentHinted: _hinted,
    ev.SubagentStopped: _stopped,
}

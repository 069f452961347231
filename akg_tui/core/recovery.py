"""The events that begin a new session and close the open work of the previous session.

Pure; used by the engine, by commands on a run at rest, and by tests.
"""

from __future__ import annotations

from akg_tui.core import events as ev
from akg_tui.core.state import RunState, Subagent

ENDED = "session ended"


def opening(state: RunState, pid: int, version: str) -> tuple[ev.Observation, ...]:
    """Return the events that a process `pid` appends when it takes over the run."""
    opened = ev.SessionOpened(pid=pid, version=version, resumed=state.seq > 1)
    left: tuple[ev.Observation, ...] = ()
    if running := state.running:
        left = (ev.EvalInterrupted(attempt=running.attempt, reason=ENDED),)
    return (opened, *left, *cut_off(state, ENDED))


def cut_off(state: RunState, reason: str) -> tuple[ev.Observation, ...]:
    """Return the events that cut off a turn, end its calls and subagents, and undo its edit."""
    answers = calls_cut_off(state, f"the {reason}")
    ended = tuple(subagent_ended(one, "interrupted", reason) for one in state.subagents)
    # `TurnInterrupted` undoes the edit of the unfinished visit, because a visit starts again.
    turn = (ev.TurnInterrupted(reason=reason),) if state.turn_open else ()
    return (*answers, *ended, *turn)


def calls_cut_off(state: RunState, reason: str, subagent: str = "") -> tuple[ev.ToolAnswered, ...]:
    """Return error answers to all open tool calls, or to those of one subagent."""
    return tuple(
        ev.ToolAnswered(
            call=call,
            tool=tool,
            status="error",
            error_information=f"interrupted: {reason} before the tool answered",
            source=next((s.id for s in state.subagents if call.startswith(f"{s.id}/")), ""),
        )
        for call, tool in state.open_calls
        if not subagent or call.startswith(f"{subagent}/")
    )


def subagent_ended(one: Subagent, status: ev.SubagentStatus, reason: str = "") -> ev.SubagentEnded:
    """Return the event that ends a subagent, with its calls and tokens."""
    return ev.SubagentEnded(
        subagent=one.id,
        agent=one.agent,
        status=status,
        reason=reason,
        calls=one.calls,
        prompt_tokens=one.prompt_tokens,
        output_tokens=one.output_tokens,
    )

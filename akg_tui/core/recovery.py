"""The events with which a new session begins, and which close what the last one left open.

Pure; used by the engine, by commands on a run at rest, and by tests.
"""

from __future__ import annotations

from akg_tui.core import events as ev
from akg_tui.core.state import RunState, Subagent

ENDED = "session ended"


def opening(state: RunState, pid: int, version: str) -> tuple[ev.Observation, ...]:
    """The events with which a process takes the run over."""
    opened = ev.SessionOpened(pid=pid, version=version, resumed=state.seq > 1)
    left: tuple[ev.Observation, ...] = ()
    if running := state.running:
        left = (ev.EvalInterrupted(attempt=running.attempt, reason=ENDED),)
    return (opened, *left, *cut_off(state, ENDED))


def cut_off(state: RunState, reason: str) -> tuple[ev.Observation, ...]:
    """The end of a turn that was cut off: open calls answered, subagents ended, the edit undone."""
    answers = calls_cut_off(state, f"the {reason}")
    ended = tuple(subagent_ended(one, "interrupted", reason) for one in state.subagents)
    # A visit starts afresh, so what an unfinished one had edited is undone.
    turn = (ev.TurnInterrupted(reason=reason),) if state.turn_open else ()
    return (*answers, *ended, *turn)


def calls_cut_off(state: RunState, reason: str, subagent: str = "") -> tuple[ev.ToolAnswered, ...]:
    """Answers to the open calls: to all of them, or to those of one subagent."""
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
    """The end of a subagent, with what it took."""
    return ev.SubagentEnded(
        subagent=one.id,
        agent=one.agent,
        status=status,
        reason=reason,
        calls=one.calls,
        prompt_tokens=one.prompt_tokens,
        output_tokens=one.output_tokens,
    )

"""When a run stops. A list of all true conditions, the first one being the one reported."""

from __future__ import annotations

from akg_tui.core.state import RunState

NO_PROGRESS_VISITS = 3


def stop_reasons(state: RunState, now: float) -> tuple[str, ...]:
    """All stop conditions that hold, in their order of precedence; empty when none does.

    `now` is seconds since the epoch; only worked time counts against `max_hours`.
    """
    policy = state.task.policy
    reasons: list[str] = []
    if state.stop_reason:
        reasons.append(state.stop_reason)
    if state.settled >= policy.max_rounds:
        reasons.append(f"max rounds reached ({policy.max_rounds})")
    if policy.max_hours is not None and state.worked(now) >= policy.max_hours * 3600:
        reasons.append(f"time budget reached ({policy.max_hours:g} h)")
    if state.visits_failed >= NO_PROGRESS_VISITS:
        reasons.append(f"the agent made no progress in {NO_PROGRESS_VISITS} visits")
    if state.finish_reason:
        reasons.append(f"the agent finished: {state.finish_reason}")
    return tuple(reasons)

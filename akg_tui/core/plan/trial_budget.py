"""Trials: versions of a kernel that the agent has measured without settling its item.

Pure. Owns the budget of trials and their words for the agent; `core.decide` applies the check. A
trial is information only: no verdict depends on it.
"""

from __future__ import annotations

from akg_tui.core.commands import Refusal
from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.phases import Gate, Phase
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import RunState, Trial
from akg_tui.core.verdict import percent


def trials_of(state: RunState, item: str) -> tuple[Trial, ...]:
    """Return the trials of an item, oldest first."""
    return tuple(trial for trial in state.trials if trial.item == item)


def trials_left(state: RunState) -> int:
    """Return how many trials the active item has left; 0 without an active item."""
    if state.active is None:
        return 0
    return max(0, state.task.policy.trials - len(trials_of(state, state.active)))


def check_trial(state: RunState) -> None:
    """Raise `Refusal`, with what to do instead, unless a trial may be made now."""
    if state.phase is not Phase.EDIT or state.active is None:
        raise Refusal(f"a trial belongs to phase {Phase.EDIT}; the run is in {state.phase}")
    if Gate.EDIT in state.gates:
        raise Refusal("a person approves new code before it runs, so no trial is made: submit it")
    if not trials_left(state):
        most = state.task.policy.trials
        raise Refusal(f"all {most} trials of {state.active} are made: submit a kernel")


def outcome_words(measurement: Measurement) -> str:
    """Return the outcome of a trial in one line."""
    if measurement.outcome is not Outcome.CORRECT:
        return one_line(f"{measurement.failure or 'failed'}: {measurement.message}", 300)
    if measurement.ratio is None:
        return "correct, not timed"
    return f"correct, {percent(measurement.ratio)} against the incumbent"

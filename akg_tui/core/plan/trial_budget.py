"""Trials: versions of a kernel that the agent has measured without settling its item.

Pure. Owns the budget of trials and their words for the agent; `core.decide` applies the check. A
trial is information only: no verdict depends on it. A sweep is a series of trials that differ in
the values of knobs and are timed briefly, so that several of them are charged as one trial.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from akg_tui.core.commands import Refusal
from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.phases import Gate, Phase
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import RunState, Trial
from akg_tui.core.verdict import percent

SWEPT_A_TRIAL = 4
"""The measurements of a sweep that are charged as one trial; a begun four counts as four."""


def trials_of(state: RunState, item: str) -> tuple[Trial, ...]:
    """Return the trials of an item, oldest first."""
    return tuple(trial for trial in state.trials if trial.item == item)


def next_sweep(state: RunState) -> int:
    """Return the number of the next sweep of the run, from 1."""
    return max((trial.sweep for trial in state.trials), default=0) + 1


def charged(sweeps: Iterable[int]) -> int:
    """Return how many trials are charged for trials made in these sweeps (0: alone)."""
    counts = Counter(sweeps)
    alone = counts.pop(0, 0)
    return alone + sum(-(-count // SWEPT_A_TRIAL) for count in counts.values())


def trials_left(state: RunState) -> int:
    """Return how many trials the active item has left; 0 without an active item."""
    if state.active is None:
        return 0
    used = charged(trial.sweep for trial in trials_of(state, state.active))
    return max(0, state.task.policy.trials - used)


def check_trial(state: RunState, sweep: int = 0) -> None:
    """Raise `Refusal`, with what to do instead, unless a trial may be made now.

    `sweep` is the number of the sweep that makes it, 0 for a trial alone.
    """
    if state.phase is not Phase.EDIT or state.active is None:
        raise Refusal(f"a trial belongs to phase {Phase.EDIT}; the run is in {state.phase}")
    if Gate.EDIT in state.gates:
        raise Refusal("a person approves new code before it runs, so no trial is made: submit it")
    most = state.task.policy.trials
    if charged([*(trial.sweep for trial in trials_of(state, state.active)), sweep]) > most:
        raise Refusal(f"all {most} trials of {state.active} are made: submit a kernel")


def outcome_words(measurement: Measurement) -> str:
    """Return the outcome of a trial in one line."""
    if measurement.outcome is not Outcome.CORRECT:
        return one_line(f"{measurement.failure or 'failed'}: {measurement.message}", 300)
    if measurement.estimate is not None:
        return f"correct, not timed: {measurement.estimate}"
    if measurement.ratio is None:
        told = measurement.message
        return one_line(f"correct, {told}", 300) if told else "correct, not timed"
    return f"correct, {percent(measurement.ratio)} against the incumbent"

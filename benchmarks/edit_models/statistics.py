"""Statistics of the sessions: rates with intervals, and formats compared in pairs.

A pair is the same task and repeat in two formats. Repeats of one task are not independent,
so the interval of a difference is bootstrapped over tasks, not over sessions.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random

from msgspec import Struct

from benchmarks.edit_models.session import Session

_BOOTSTRAPS = 2_000


class FormatFigures(Struct, frozen=True):
    """One format. `low` and `high` bound the success rate at 95 % (Wilson's interval)."""

    format: str
    sessions: int
    success: float
    low: float
    high: float
    wrong: float
    refused_calls: float
    input_tokens: float
    output_tokens: float


class Paired(Struct, frozen=True):
    """`format` against `rival`.

    `wins` and `losses` are discordant pairs; `p` is McNemar's exact two-sided test on them;
    `difference` of the success rates with its 95 % bootstrap interval over tasks.
    """

    format: str
    rival: str
    pairs: int
    wins: int
    losses: int
    p: float
    difference: float
    low: float
    high: float


def figures(sessions: Sequence[Session]) -> list[FormatFigures]:
    """By format, in the order of their names."""
    return [_figures(form, own) for form, own in sorted(_by_format(sessions).items())]


def _by_format(sessions: Sequence[Session]) -> Mapping[str, list[Session]]:
    grouped: dict[str, list[Session]] = defaultdict(list)
    for session in sessions:
        grouped[session.format].append(session)
    return grouped


def _figures(form: str, sessions: Sequence[Session]) -> FormatFigures:
    from scipy.stats import binomtest

    fixed = sum(s.fixed for s in sessions)
    bounds = binomtest(fixed, len(sessions)).proportion_ci(method="wilson")
    calls = sum(s.edits for s in sessions)
    return FormatFigures(
        format=form,
        sessions=len(sessions),
        success=fixed / len(sessions),
        low=float(bounds.low),
        high=float(bounds.high),
        wrong=sum(s.wrong for s in sessions) / len(sessions),
        refused_calls=sum(s.refused for s in sessions) / calls if calls else 0.0,
        input_tokens=statistics.fmean(s.input_tokens for s in sessions),
        output_tokens=statistics.fmean(s.output_tokens for s in sessions),
    )


def paired(sessions: Sequence[Session], form: str, *, seed: int) -> list[Paired]:
    """`form` against each of the others, over the sessions that both have played."""
    grouped = _by_format(sessions)
    if form not in grouped:
        return []
    rivals = sorted(set(grouped) - {form})
    return [_pair(form, grouped[form], rival, grouped[rival], seed) for rival in rivals]


def _pair(
    form: str, ours: Sequence[Session], rival: str, theirs: Sequence[Session], seed: int
) -> Paired:
    from scipy.stats import binomtest

    rivals = {(s.task, s.repeat): s.fixed for s in theirs}
    by_task: dict[str, list[int]] = defaultdict(list)
    for session in ours:
        other = rivals.get((session.task, session.repeat))
        if other is not None:
            by_task[session.task].append(int(session.fixed) - int(other))
    differences = [each for own in by_task.values() for each in own]
    wins, losses = differences.count(1), differences.count(-1)
    p = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    means = _bootstrap(list(by_task.values()), Random(seed))
    return Paired(
        format=form,
        rival=rival,
        pairs=len(differences),
        wins=wins,
        losses=losses,
        p=float(p),
        difference=statistics.fmean(differences) if differences else 0.0,
        low=means[int(0.025 * len(means))] if means else 0.0,
        high=means[int(0.975 * len(means))] if means else 0.0,
    )


def _bootstrap(tasks: Sequence[Sequence[int]], rng: Random) -> list[float]:
    if not tasks:
        return []
    means = []
    for _ in range(_BOOTSTRAPS):
        drawn = [each for own in rng.choices(tasks, k=len(tasks)) for each in own]
        means.append(statistics.fmean(drawn))
    return sorted(means)

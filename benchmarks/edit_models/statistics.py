"""Statistics of the sessions: rates with intervals, and formats compared in pairs.

A pair is the same model, task and repeat in two formats. Repeats of one task are not independent,
so the interval of a difference is bootstrapped over tasks, not over sessions.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from msgspec import Struct

from benchmarks.edit_models.session import Session

BASELINE: Final = "str_replace"
"""The format that the others are compared with in the table: the one that most agents have."""
_BOOTSTRAPS: Final = 2_000


class Rate(Struct, frozen=True):
    """A share of the sessions with its 95 % interval (Wilson's)."""

    share: float
    low: float
    high: float


class FormatFigures(Struct, frozen=True):
    """One model in one format.

    `success` is the share of files restored byte for byte, `formatted` of those restored but for
    blanks and line breaks; `wrong` the share of sessions, `refused_calls` and `write_calls` are
    shares of the calls that change a file; tokens are means of a session.
    """

    model: str
    format: str
    sessions: int
    success: Rate
    formatted: Rate
    wrong: float
    refused_calls: float
    write_calls: float
    input_tokens: float
    output_tokens: float


class Paired(Struct, frozen=True):
    """`format` against `rival`.

    `wins` and `losses` are discordant pairs; `p` is McNemar's exact two-sided test on them;
    `difference` of the success rates with its 95 % bootstrap interval over tasks. `input_change`
    and `output_change` are the relative differences of the mean tokens; None if there are none.
    """

    model: str
    format: str
    rival: str
    pairs: int
    wins: int
    losses: int
    p: float
    difference: float
    low: float
    high: float
    input_change: float | None
    output_change: float | None


def figures(sessions: Sequence[Session]) -> list[FormatFigures]:
    """By model in the order of the sessions, then by format in the order of their names."""
    return [
        _figures(model, form, own)
        for model, by_format in _grouped(sessions).items()
        for form, own in sorted(by_format.items())
    ]


def _grouped(sessions: Sequence[Session]) -> Mapping[str, Mapping[str, list[Session]]]:
    grouped: dict[str, dict[str, list[Session]]] = {}
    for session in sessions:
        grouped.setdefault(session.model, {}).setdefault(session.format, []).append(session)
    return grouped


def _figures(model: str, form: str, sessions: Sequence[Session]) -> FormatFigures:
    calls = sum(s.edits for s in sessions)
    return FormatFigures(
        model=model,
        format=form,
        sessions=len(sessions),
        success=_rate(sum(s.fixed for s in sessions), len(sessions)),
        formatted=_rate(sum(s.formatted for s in sessions), len(sessions)),
        wrong=sum(s.wrong for s in sessions) / len(sessions),
        refused_calls=sum(s.refused for s in sessions) / calls if calls else 0.0,
        write_calls=sum(s.writes for s in sessions) / calls if calls else 0.0,
        input_tokens=statistics.fmean(s.input_tokens for s in sessions),
        output_tokens=statistics.fmean(s.output_tokens for s in sessions),
    )


def _rate(count: int, of: int) -> Rate:
    from scipy.stats import binomtest

    bounds = binomtest(count, of).proportion_ci(method="wilson")
    return Rate(count / of, float(bounds.low), float(bounds.high))


def paired(sessions: Sequence[Session], form: str, *, seed: int) -> list[Paired]:
    """Of each model, `form` against each of the others, over what was played in both."""
    return [
        _pair(form, by_format[form], rival, by_format[rival], seed)
        for by_format in _grouped(sessions).values()
        if form in by_format
        for rival in sorted(set(by_format) - {form})
    ]


def against_baseline(sessions: Sequence[Session], *, seed: int) -> list[Paired]:
    """Of each model, each of the formats against `BASELINE`."""
    return [
        _pair(form, by_format[form], BASELINE, by_format[BASELINE], seed)
        for by_format in _grouped(sessions).values()
        if BASELINE in by_format
        for form in sorted(set(by_format) - {BASELINE})
    ]


def _pair(
    form: str, ours: Sequence[Session], rival: str, theirs: Sequence[Session], seed: int
) -> Paired:
    from scipy.stats import binomtest

    rivals = {(s.task, s.repeat): s for s in theirs}
    both = [(s, other) for s in ours if (other := rivals.get((s.task, s.repeat))) is not None]
    by_task: dict[str, list[int]] = defaultdict(list)
    for own, other in both:
        by_task[own.task].append(int(own.fixed) - int(other.fixed))
    differences = [each for own in by_task.values() for each in own]
    wins, losses = differences.count(1), differences.count(-1)
    p = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    means = _bootstrap(list(by_task.values()), Random(seed))
    return Paired(
        model=ours[0].model,
        format=form,
        rival=rival,
        pairs=len(differences),
        wins=wins,
        losses=losses,
        p=float(p),
        difference=statistics.fmean(differences) if differences else 0.0,
        low=means[int(0.025 * len(means))] if means else 0.0,
        high=means[int(0.975 * len(means))] if means else 0.0,
        input_change=_change([(s.input_tokens, o.input_tokens) for s, o in both]),
        output_change=_change([(s.output_tokens, o.output_tokens) for s, o in both]),
    )


def _change(pairs: Sequence[tuple[int, int]]) -> float | None:
    ours, theirs = (sum(side) for side in zip(*pairs, strict=True)) if pairs else (0, 0)
    return ours / theirs - 1 if theirs else None


def _bootstrap(tasks: Sequence[Sequence[int]], rng: Random) -> list[float]:
    if not tasks:
        return []
    counted = [(sum(own), len(own)) for own in tasks]
    means = []
    for _ in range(_BOOTSTRAPS):
        sums, sizes = zip(*rng.choices(counted, k=len(counted)), strict=True)
        means.append(sum(sums) / sum(sizes))
    return sorted(means)

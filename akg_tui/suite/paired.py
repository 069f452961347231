"""Two suites compared task by task, over the pairs of a task that ended in both.

Each figure has one statistic: a percentile bootstrap over the pairs, with a fixed seed. Speed is
the geometric mean of B's ratio over eager by that of A, where both kernels are correct. The gain by
cost is the verified gain of all of a side's tasks over their tokens, dollars or hours, so that a
task without a gain counts with what it cost.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from akg_tui.core.sanitize import one_line
from akg_tui.store.errors import RunFolderError
from akg_tui.suite.suite_record import Suite
from akg_tui.suite.suite_results import (
    CONFIDENCE,
    RESAMPLES,
    SEED,
    Mean,
    TaskResult,
    geometric_mean,
    results_of,
)

SCHEMA = 3
ENDED = ("correct", "failed")
LEAST_PAIRS = 7
"""With fewer pairs a bootstrap's interval is too narrow to show a difference."""

KINDS = 3
"""The kinds of cost that are looked at: chance must not show a difference in one of them more often
than it would show one alone, so the interval of each holds at a third of the error."""


class Pair(Struct, frozen=True):
    """One task with both. `b_over_a`: above 1 where B's kernel is the faster one."""

    a: TaskResult
    b: TaskResult
    b_over_a: float | None


class Rates(Struct, frozen=True, kw_only=True):
    """The gain of A and of B by one kind of cost, and the bounds of the difference B - A.

    `shown`: there are `LEAST_PAIRS`, and 0 is outside the bounds, so the two differ beyond chance.
    """

    per: str
    a: float
    b: float
    low: float
    high: float
    shown: bool


class Comparison(Struct, frozen=True, kw_only=True):
    """B against A over the tasks that both have and that ended in both.

    `only_a` and `only_b` count the tasks that only one of them solved; `left_out` the tasks that
    one of them lacks, refused, or has not ended.
    """

    schema: int
    a: str
    b: str
    pairs: tuple[Pair, ...]
    left_out: int
    both_correct: int
    only_a: int
    only_b: int
    speed: Mean | None
    rates: tuple[Rates, ...]
    notes: tuple[str, ...]


def named_results(word: str) -> tuple[str, list[TaskResult]]:
    """Return the name and the results of `FOLDER` or `FOLDER:AGENT`.

    Raises `RunFolderError` if there is no such suite or agent, or the folder has several and none
    is named.
    """
    folder, agent = Path(word), ""
    if not folder.is_dir() and ":" in word:
        place, _, agent = word.partition(":")
        folder = Path(place)
    results = results_of(Suite(folder))
    agents = [each.agent for each in results.agents]
    if not agent and len(agents) > 1:
        raise RunFolderError(
            f"{folder}: has agents {', '.join(agents)}; name one: {folder}:{agents[0]}"
        )
    agent = agent or agents[0]
    if agent not in agents:
        raise RunFolderError(f"{folder}: has no agent {agent!r}, only {', '.join(agents)}")
    return f"{results.name}:{agent}", [task for task in results.tasks if task.agent == agent]


def compare(a: tuple[str, Sequence[TaskResult]], b: tuple[str, Sequence[TaskResult]]) -> Comparison:
    """Return the comparison of the results of B with those of A."""
    ended = [{r.task: r for r in results if r.state in ENDED} for _, results in (a, b)]
    names = [r.task for r in a[1] if r.task in ended[0] and r.task in ended[1]]
    everything = {r.task for r in a[1]} | {r.task for r in b[1]}
    pairs = [_pair(ended[0][name], ended[1][name]) for name in names]
    ratios = [pair.b_over_a for pair in pairs if pair.b_over_a is not None]
    machines = [{m for name in names for m in side[name].machines} for side in ended]
    notes = [
        f"left out: {side}, {r.task}: {one_line(r.why) or r.state}"
        for side, (_, results) in (("A", a), ("B", b))
        for r in results
        if r.state not in ENDED
    ]
    if machines[0] != machines[1]:
        notes.append(
            "A and B were measured on different machines: each ratio over eager is from one "
            "machine, but a kernel may gain more on one than on the other"
        )
    return Comparison(
        schema=SCHEMA,
        a=a[0],
        b=b[0],
        pairs=tuple(pairs),
        left_out=len(everything) - len(pairs),
        both_correct=len(ratios),
        only_a=sum((p.a.state, p.b.state) == ("correct", "failed") for p in pairs),
        only_b=sum((p.a.state, p.b.state) == ("failed", "correct") for p in pairs),
        speed=geometric_mean(ratios),
        rates=gain_by_cost(pairs),
        notes=tuple(notes),
    )


def _pair(a: TaskResult, b: TaskResult) -> Pair:
    return Pair(a, b, b.over_eager / a.over_eager if a.over_eager and b.over_eager else None)


Sample = tuple[float, float, float, float]
"""Of one pair: the gain and the cost of A, and those of B."""


def gain_by_cost(pairs: Sequence[Pair]) -> tuple[Rates, ...]:
    """Return the gain of A and of B by each kind of cost that both sides know and had.

    A search without a model has no tokens, so it has no gain by tokens.
    """
    kinds: dict[str, list[tuple[float | None, float | None]]] = {
        "million tokens": [(p.a.tokens / 1e6, p.b.tokens / 1e6) for p in pairs],
        "dollar": [(p.a.cost_usd, p.b.cost_usd) for p in pairs],
        "hour": [(p.a.worked_s / 3600, p.b.worked_s / 3600) for p in pairs],
    }
    found = []
    for per, costs in kinds.items():
        samples = [
            (pair.a.gain, a, pair.b.gain, b)
            for pair, (a, b) in zip(pairs, costs, strict=True)
            if a is not None and b is not None
        ]
        had = sum(each[1] for each in samples) > 0 and sum(each[3] for each in samples) > 0
        if had and len(samples) == len(pairs):
            found.append(_rates(per, samples))
    return tuple(found)


def _rates(per: str, samples: Sequence[Sample]) -> Rates:
    dice, count = random.Random(SEED), len(samples)
    drawn = (_by_cost(dice.choices(samples, k=count)) for _ in range(RESAMPLES))
    differences = sorted(b - a for a, b in drawn)
    cut = int(RESAMPLES * (1 - CONFIDENCE) / KINDS / 2)
    low, high = differences[cut], differences[-1 - cut]
    a, b = _by_cost(samples)
    shown = count >= LEAST_PAIRS and not low <= 0 <= high
    return Rates(per=per, a=a, b=b, low=low, high=high, shown=shown)


def _by_cost(samples: Sequence[Sample]) -> tuple[float, float]:
    """Return the gain of A and of B by their cost; runs that all ended before a call have none."""
    a_gain, a_cost, b_gain, b_cost = (math.fsum(each) for each in zip(*samples, strict=True))
    return a_gain / a_cost if a_cost else 0.0, b_gain / b_cost if b_cost else 0.0

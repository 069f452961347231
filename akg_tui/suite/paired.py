"""Two suites compared task by task: differences, and tests that respect the pairs.

The gain by tokens, dollars and hours is in `gain_by_cost`.

Speed: the ratio of the two ratios over eager of a task, where both kernels are correct; the
Wilcoxon signed-rank test on their logarithms, and a bootstrap interval of the geometric mean.
Correctness: McNemar's exact test on the tasks that only one of the two solved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from akg_tui.core.sanitize import one_line
from akg_tui.store.errors import RunFolderError
from akg_tui.suite.gain_by_cost import Rates, Spent, rates
from akg_tui.suite.suite_record import Suite
from akg_tui.suite.suite_results import Mean, TaskResult, geometric_mean, results_of

SCHEMA = 1
ENDED = ("correct", "failed")
LEAST_PAIRS = 6
"""With fewer pairs no outcome of Wilcoxon's test is below 5 % (two-sided: 2 / 2^5 = 0.0625)."""


class Pair(Struct, frozen=True, kw_only=True):
    """One task in both. `b_over_a`: above 1 where B's kernel is the faster one.

    `a_proved`, `b_proved`: whether a ratio over eager proves that the kernel is faster or slower.
    """

    task: str
    a_state: str
    b_state: str
    a_over_eager: float | None
    b_over_eager: float | None
    b_over_a: float | None
    a_tokens: int
    b_tokens: int
    a_s: float
    b_s: float
    a_gain: float
    b_gain: float
    a_cost_usd: float | None
    b_cost_usd: float | None
    a_proved: bool = True
    b_proved: bool = True


class Comparison(Struct, frozen=True, kw_only=True):
    """B against A over the tasks that both have and that ended in both.

    `wilcoxon_p` and `mcnemar_p` are two-sided, None where there is too little to test.
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
    wilcoxon_p: float | None
    mcnemar_p: float | None
    rates: tuple[Rates, ...]
    notes: tuple[str, ...]


def named_results(word: str) -> tuple[str, list[TaskResult]]:
    """Return the name and the results of `FOLDER` or `FOLDER:AGENT`.

    Raises
    ------
    RunFolderError
        If there is no such suite or agent, or the folder has several and none is named.
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
    only_a = sum((p.a_state, p.b_state) == ("correct", "failed") for p in pairs)
    only_b = sum((p.a_state, p.b_state) == ("failed", "correct") for p in pairs)
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
    for side, results in (("A", ended[0]), ("B", ended[1])):
        runs = max((results[name].runs for name in names), default=1)
        if runs > 1:
            notes.append(
                f"{side} has {runs} runs of each task, of which the best counts: tokens, dollars "
                "and hours are those of all, the hours as of one machine that takes them in turn"
            )
    if len(ratios) < LEAST_PAIRS:
        notes.append(f"no Wilcoxon test: fewer than {LEAST_PAIRS} tasks are correct in both")
    return Comparison(
        schema=SCHEMA,
        a=a[0],
        b=b[0],
        pairs=tuple(pairs),
        left_out=len(everything) - len(pairs),
        both_correct=len(ratios),
        only_a=only_a,
        only_b=only_b,
        speed=geometric_mean(ratios),
        wilcoxon_p=_wilcoxon(ratios),
        mcnemar_p=_mcnemar(only_a, only_b),
        rates=rates([(_spent(ended[0][name]), _spent(ended[1][name])) for name in names]),
        notes=tuple(notes),
    )


def _spent(result: TaskResult) -> Spent:
    return Spent(
        gain=result.gain,
        tokens=result.tokens,
        cost_usd=result.cost_usd,
        worked_s=result.worked_s,
        runs=result.runs,
        longest_s=result.longest_s,
    )


def _pair(a: TaskResult, b: TaskResult) -> Pair:
    over_a = b.over_eager / a.over_eager if a.over_eager and b.over_eager else None
    return Pair(
        task=a.task,
        a_state=a.state,
        b_state=b.state,
        a_over_eager=a.over_eager,
        b_over_eager=b.over_eager,
        b_over_a=over_a,
        a_tokens=a.tokens,
        b_tokens=b.tokens,
        a_s=a.worked_s,
        b_s=b.worked_s,
        a_gain=a.gain,
        b_gain=b.gain,
        a_cost_usd=a.cost_usd,
        b_cost_usd=b.cost_usd,
        a_proved="eager" not in a.not_proved,
        b_proved="eager" not in b.not_proved,
    )


def _wilcoxon(ratios: Sequence[float]) -> float | None:
    """Return the two-sided p of the signed-rank test on the logarithms; ties of zero drop out."""
    from scipy.stats import wilcoxon

    logs = [math.log(ratio) for ratio in ratios if ratio != 1.0]
    if len(logs) < LEAST_PAIRS:
        return None
    return float(wilcoxon(logs).pvalue)


def _mcnemar(only_a: int, only_b: int) -> float | None:
    """Return the exact two-sided p: the discordant tasks are even odds by chance alone."""
    from scipy.stats import binomtest

    if not only_a + only_b:
        return None
    return float(binomtest(only_a, only_a + only_b).pvalue)

"""A race ranks verified kernels, and tells which of them it cannot tell apart."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.evaluate import Judge, statistics
from tests.evaluate.kernels import kernel

TIMES = (160, 20, 640, 20)
"""How often the kernels of the race compute a softmax; they are equal but for that."""


def softmaxes(count: int, first: str = "pass") -> str:
    return kernel(first, f"for _ in range({count}):", "    y = torch.softmax(x, -1)", "return y")


@pytest.mark.asyncio(loop_scope="session")
async def test_kernels_are_ranked_and_those_that_fail_leave(judge: Judge) -> None:
    quick = [softmaxes(times) for times in TIMES]
    failing = [softmaxes(20, "os._exit(3)"), softmaxes(20, "raise ValueError('lost')")]
    found = await judge.race([*quick, *failing], within_s=2.0)
    assert not found.message
    slow, one, slowest, other, ended, raised = found.racers
    assert one.group == other.group == 1
    assert 1 < slow.group < slowest.group
    assert slow.ratio is not None
    assert slow.ratio.ratio == 1
    assert one.ratio is not None
    assert one.ratio.low > 1
    assert (ended.group, raised.group) == (0, 0)
    assert "exit code 3" in ended.failed
    assert "ValueError: lost" in raised.failed
    assert 2 <= slowest.rounds <= one.rounds


@pytest.mark.asyncio(loop_scope="session")
async def test_a_race_without_a_kernel_that_runs_has_no_winner(judge: Judge) -> None:
    found = await judge.race([softmaxes(1, "raise ValueError('lost')")], within_s=1.0)
    assert found.message or found.racers[0].failed
    found = await judge.race([softmaxes(1), softmaxes(2)], within_s=9.0, limit_s=1e-3)
    assert found.message == "it took longer than 0.001 s"


logs = st.lists(st.lists(st.floats(-12, 3), min_size=2, max_size=8), min_size=1, max_size=12).map(
    lambda rows: [row[: min(map(len, rows))] for row in rows]
)


@given(logs)
def test_groups_follow_the_mean_times(rows: list[list[float]]) -> None:
    groups, may_win = statistics.race_groups(rows), statistics.race_contenders(rows)
    order = sorted(range(len(rows)), key=lambda at: math.fsum(rows[at]) / len(rows[at]))
    ranked = [groups[at] for at in order]
    assert ranked[0] == 1
    assert all(0 <= later - sooner <= 1 for sooner, later in itertools.pairwise(ranked))
    assert may_win[order[0]]


@pytest.mark.parametrize("deviation", [0.02, 0.1])
def test_the_fastest_stays_in_the_race(deviation: float) -> None:
    rng, lost = random.Random(4), 0
    for _ in range(200):
        true = [0.0, *(rng.uniform(0.01, 1.0) for _ in range(11))]
        rows = [[mean + rng.gauss(0, deviation) for _ in range(4)] for mean in true]
        seen = [[row[:2] for row in rows], rows]
        lost += not all(statistics.race_contenders(each)[0] for each in seen)
    assert lost <= 0.05 * 200


def test_a_gain_that_a_race_says_it_would_see_is_seen() -> None:
    rng, seen = random.Random(7), 0

    def rows(gain: float) -> list[list[float]]:
        means = [0.0, -math.log1p(gain)]
        return [[mean + rng.gauss(0, 0.05) for _ in range(8)] for mean in means] + [[2.0, 2.1]]

    told = sorted(statistics.race_detectable(rows(0.0)) or 0.0 for _ in range(201))[100]
    for _ in range(200):
        seen += statistics.race_groups(rows(told))[:2] == [2, 1]
    assert 0.05 < told < 0.3
    assert seen >= 0.9 * 200
    assert statistics.race_detectable([[0.0, 0.0]]) is None


def test_a_kernel_that_left_is_compared_over_its_own_rounds() -> None:
    rows = [[0.0, 0.1, 0.0, 0.1], [2.0, 2.1]]
    assert statistics.race_groups(rows) == [1, 2]

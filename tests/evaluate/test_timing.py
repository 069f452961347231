"""A comparison, of clusters that are told and not measured."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import Interval
from akg_tui.core.task import Task, Timing
from akg_tui.evaluate import timing_samples
from akg_tui.evaluate.cases import JudgedCase
from akg_tui.evaluate.child.unusual_values import ValueKind
from akg_tui.evaluate.prefetch import Prefetched
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.worker import TimedCall
from akg_tui.evaluate.protocol.engine_protocol import Evaluate
from akg_tui.evaluate.reference import Draw, Reference
from akg_tui.evaluate.statistics import Standing
from akg_tui.evaluate.targets.lease import Lease
from akg_tui.evaluate.timing import Runners, TimedCase, TimingResult, TimingStage
from akg_tui.evaluate.timing_samples import Cluster, ClusterRunner, Decoys, cluster_size, counted
from akg_tui.evaluate.verification_inputs import VerificationInput

Report = Callable[[str, int, int, Interval | None], None]


@dataclass
class FakeClusterRunner:
    """A `ClusterRunner` whose clusters have a gain of `mean` and spread by `deviation`."""

    rng: random.Random
    mean: float
    deviation: float
    waits: float = 0.0
    sampled_s: float = 0.0

    def run_cluster(self) -> Cluster:
        value = self.rng.gauss(self.mean, self.deviation)
        return Cluster(value, value - self.waits, value + self.waits, 11, 1e-3, 8e-4, 0.0)


@dataclass
class IdlePool:
    """Stands in for `ChildPool`: nobody needs its children here."""

    task: Task
    lease: Lease = field(default_factory=lambda: Lease(None, time.sleep))

    def fork_spares(self, count: int) -> None:
        del count


def stage_of(
    found: TimingResult,
    report: Report = lambda *_: None,
    budget_s: float = 1e6,
    prior: Sequence[float] = (),
    cases: Sequence[TimedCase] = (),
) -> TimingStage:
    return TimingStage(
        cast("ChildPool", IdlePool(Task(op="told", timing=Timing(budget_s=budget_s)))),
        cases,
        found,
        request=Evaluate(
            number=1, kernel=KernelFiles({"kernel.py": ""}), label="", prior=tuple(prior)
        ),
        levels=(),
        report=report,
        rng=random.Random(1),
    )


def timed_case(name: str = "", weight: float = 1.0) -> TimedCase:
    nothing = cast("Reference", None), cast("Prefetched", None)
    return TimedCase(JudgedCase(name, weight, *nothing))


def fake_runners(mean: float, deviation: float, waits: float = 0.0) -> Runners:
    runner = cast("ClusterRunner", FakeClusterRunner(random.Random(2), mean, deviation, waits))
    return [(timed_case(), runner)]


def test_each_cluster_is_told_of_and_the_last_with_what_is_found() -> None:
    steps: list[tuple[str, int, int, Interval | None]] = []
    found = TimingResult()
    standing = stage_of(found, lambda *step: steps.append(step))._run_until_decided(
        fake_runners(0.22, 0.02)
    )
    assert standing is Standing.FASTER
    assert [step[:2] for step in steps] == [("time", done) for done in range(1, found.clusters + 1)]
    assert [step[3] is not None for step in steps] == [step[1] > 1 for step in steps]
    last = steps[-1][3]
    assert last is not None
    assert found.ratio is not None
    assert last.ratio == found.ratio.ratio
    # A look that decides has a part of the error rate alone, so it says less.
    assert found.ratio.low < last.low < last.high < found.ratio.high


@pytest.mark.parametrize(
    ("ratio", "waits", "clusters", "standing"),
    [
        (500, 0.0, 2, Standing.FASTER),
        (8, 0.0, 2, Standing.FASTER),
        (500, 3.0, 2, Standing.FASTER),  # the baseline waited for 95 % of its time
        (8, 1.0, 4, Standing.FASTER),  # half of the ratio may be waits
        (3.5, 0.0, 4, Standing.FASTER),
        (1 / 8, 0.0, 2, Standing.FUTILE),
        (1 / 500, 3.0, 2, Standing.FUTILE),
    ],
)
def test_a_ratio_far_from_1_ends_a_comparison_at_once_unless_waits_may_explain_it(
    ratio: float, waits: float, clusters: int, standing: Standing
) -> None:
    found = TimingResult()
    stage = stage_of(found)
    runners = fake_runners(math.log(ratio), 0.05, waits)
    assert stage._run_until_decided(runners) is standing
    assert found.clusters == clusters
    if standing is Standing.FASTER:
        stage._confirm(runners)
        assert found.confirmation is not None
        assert found.confirmation.agrees
        assert found.clusters <= 2 * clusters


NO_TIME = 1e-9
"""A budget, in seconds, that is spent as soon as it may be."""


def test_a_wait_for_others_who_time_spends_no_budget() -> None:
    found = TimingResult()
    stage = stage_of(found, budget_s=NO_TIME)
    (case, runner), lease = fake_runners(0.0, 0.2)[0], stage.pool.lease
    plainly = runner.run_cluster

    def after_a_wait() -> Cluster:
        lease.waited_s += 3_600.0
        return plainly()

    runner.run_cluster = after_a_wait  # type: ignore[method-assign]
    stage._run_until_decided([(case, runner)])
    assert found.clusters > 4


def test_a_gain_that_is_not_proved_when_time_ends_is_undecided() -> None:
    found = TimingResult()
    standing = stage_of(found, budget_s=NO_TIME)._run_until_decided(fake_runners(0.05, 0.2))
    assert standing is Standing.FUTILE
    assert found.undecided
    assert len(found.log_ratios) == found.clusters == 4


def test_a_kernel_that_is_no_faster_is_decided_when_time_ends() -> None:
    found = TimingResult()
    stage_of(found, budget_s=NO_TIME)._run_until_decided(fake_runners(0.0, 0.005))
    assert not found.undecided
    assert found.excluded is not None
    assert 0 < found.excluded < 0.05


def test_what_was_measured_before_counts() -> None:
    rng = random.Random(5)
    prior = [rng.gauss(0.05, 0.05) for _ in range(40)]
    found = TimingResult()
    stage = stage_of(found, budget_s=NO_TIME, prior=prior)
    assert stage._run_until_decided(fake_runners(0.05, 0.05)) is Standing.FASTER
    assert list(found.log_ratios[:40]) == prior
    assert found.clusters == len(found.log_ratios) - 40 == 1


def test_disturbed_pairs_of_calls_do_not_count_unless_few_others_are_left() -> None:
    calm, waited = TimedCall(1e-3, 0.0), TimedCall(2e-3, 1e-3)
    disturbed = [(waited, calm)] * 5 + [(calm, waited)] * 2
    assert counted([*disturbed, *[(calm, calm)] * 3]) == [(calm, calm)] * 3
    assert counted([*disturbed, *[(calm, calm)] * 2]) == [*disturbed, *[(calm, calm)] * 2]


def test_decoys_of_each_kind_come_before_one_comes_again() -> None:
    def given_of(name: str, kind: ValueKind, base: VerificationInput | None) -> VerificationInput:
        return VerificationInput(name, cast("Draw", None), 0, (), kind, base=base)

    unusual = [ValueKind.LARGE, ValueKind.SMALL, *[ValueKind.HIGH] * 20]
    bases = [given_of(f"input {at}", kind, None) for at, kind in enumerate(unusual)]
    altered = [given_of(f"alteration {at % 3}", ValueKind.DRAWN, bases[0]) for at in range(30)]
    every = [*((base,) for base in bases), *((bases[0], each) for each in altered)]
    decoys = Decoys(every, random.Random(3))
    for _ in range(4):
        dealt = [decoys.deal()[-1] for _ in range(6)]
        assert {each.kind for each in dealt if not each.altered} == {*unusual}
        assert {each.name for each in dealt if each.altered} == {each.name for each in altered}


def test_without_altered_inputs_decoys_are_unusual_ones_alone() -> None:
    only = VerificationInput("large", cast("Draw", None), 0, (), ValueKind.LARGE)
    assert Decoys([(only,)], random.Random(3)).deal() == (only,)
    assert not Decoys([], random.Random(3))


def test_a_gain_is_confirmed_undecided_or_contradicted_by_the_second_measurement() -> None:
    for mean, deviation, agrees, undecided in (
        (0.2, 0.02, True, False),
        (0.2, 0.6, False, True),
        (-0.2, 0.02, False, False),
    ):
        found = TimingResult(log_ratios=(0.2, 0.21, 0.19, 0.2))
        stage_of(found, budget_s=NO_TIME)._confirm(fake_runners(mean, deviation))
        assert found.confirmation is not None
        assert (found.confirmation.agrees, found.undecided) == (agrees, undecided)
        assert found.log_ratios[:4] == (0.2, 0.21, 0.19, 0.2)
        assert len(found.log_ratios) == 4 + found.clusters


def test_a_candidate_that_is_plainly_slower_gets_the_least_pairs() -> None:
    near, slower = (cluster_size(1e-4, each, 1024).pairs for each in (1.4e-4, 1.6e-4))
    assert (near, slower) == (timing_samples.PAIRS_MOST, timing_samples.PAIRS)


@given(
    baseline_s=st.floats(1e-6, 10),
    candidate_s=st.floats(1e-6, 10),
    item_bytes=st.integers(0, 8 << 30),
)
def test_a_cluster_is_bounded_in_time_and_memory(
    baseline_s: float, candidate_s: float, item_bytes: int
) -> None:
    warmups, pairs, turns = cluster_size(baseline_s, candidate_s, item_bytes)
    assert 1 <= warmups <= timing_samples.WARMUPS
    assert 1 <= pairs <= timing_samples.PAIRS_MOST
    assert warmups + pairs <= turns
    least = timing_samples.PAIRS_LEAST + timing_samples.WARMUPS
    assert turns <= least or turns * item_bytes <= timing_samples.POOL_BYTES
    pair_s = baseline_s + candidate_s
    most_s = timing_samples.CLUSTER_MOST_S
    assert pairs <= timing_samples.PAIRS_LEAST or pairs * pair_s <= most_s
    assert turns == 2 or turns * pair_s <= 3 * timing_samples.SLOW_S

"""Tasks with cases: a kernel is verified and timed on the sizes of each."""

from __future__ import annotations

import random
import re
from typing import cast

import pytest
from msgspec import structs

from akg_tui.core.measurement import FailureKind, Measurement, Outcome, Progress
from akg_tui.core.phases import Verdict
from akg_tui.core.task import Case, Correctness, Task, Timing
from akg_tui.core.verdict import decide_verdict
from akg_tui.evaluate.statistics import Standing
from akg_tui.evaluate.timing import Runners, TimingResult
from akg_tui.evaluate.timing_samples import ClusterRunner
from tests.evaluate.test_timing import FakeClusterRunner, stage_of, timed_case
from tests.judging import AS_DRAWN, Evaluated, quick_task

REFERENCE = """
import torch

ROWS = 64
COLUMNS = 64
SCALE = 2


class Model(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(columns))

    def forward(self, x):
        return torch.softmax(x, dim=-1) * self.weight * SCALE


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
"""
RIGHT = REFERENCE.replace("class Model", "class ModelNew")
WIDE_WRONG = RIGHT.replace(
    "return torch", "x = x.clamp(min=-3) if x.shape[-1] > 64 else x\n        return torch"
)
WIDE_SLOW = RIGHT.replace(
    "return torch",
    "for _ in range(20 if x.shape[-1] > 64 else 0):\n            torch.softmax(x, dim=-1)\n"
    "        return torch",
)
NARROW_SLOW = WIDE_SLOW.replace("> 64", "<= 64")


def task_of(*cases: Case, rules: Correctness | None = None, **timing: float) -> Task:
    return structs.replace(quick_task(rules, **timing), cases=cases)


NARROW, WIDE = Case("narrow"), Case("wide", {"ROWS": 32, "COLUMNS": 500}, 3.0)


def test_a_right_kernel_is_timed_in_every_case(evaluated: Evaluated) -> None:
    task = task_of(NARROW, WIDE, rules=AS_DRAWN, budget_s=0.3)
    found: Measurement = evaluated(task, REFERENCE, RIGHT)
    assert found.outcome is Outcome.CORRECT, found
    assert [case.name for case in found.cases] == ["narrow", "wide"]
    assert [case.weight for case in found.cases] == [0.25, 0.75]
    narrow, wide = found.cases
    assert narrow.candidate_ms is not None
    assert wide.candidate_ms is not None
    assert found.candidate_ms is not None
    # A geometric mean lies between.
    low, high = sorted((narrow.candidate_ms, wide.candidate_ms))
    assert 0.5 * low < found.candidate_ms < 2 * high
    assert found.clusters >= 2 * len(found.log_ratios)
    assert {each.case for each in found.errors} == {"narrow", "wide"}
    assert found.roofline is None
    assert all(case.roofline is not None for case in found.cases)


def test_the_bar_of_verification_never_falls_back(evaluated: Evaluated) -> None:
    steps: list[Progress] = []
    task = task_of(NARROW, WIDE)
    found = evaluated(task, REFERENCE, RIGHT, timed=False, report=steps.append)
    assert found.outcome is Outcome.CORRECT, found
    stages = [step.stage for step in steps]
    assert list(dict.fromkeys(stages)) == ["reference", "build", "verify"]
    assert stages == sorted(stages, key=["reference", "build", "verify"].index)
    bars = [step.filled for step in steps if step.stage == "verify"]
    filled = [part / whole for part, whole in bars]
    assert filled == sorted(filled)
    assert (filled[0], steps[-1].case, steps[-1].cases_done) == (0, "wide", 1)
    assert any(step.told.startswith("narrow ") for step in steps)


def test_a_kernel_that_is_wrong_in_one_case_fails_with_its_name(evaluated: Evaluated) -> None:
    found = evaluated(task_of(NARROW, WIDE), REFERENCE, WIDE_WRONG)
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found
    # The hidden shapes of the narrow case are narrower, so only the wide one shows it.
    assert found.message.startswith("case wide: ")


def test_a_kernel_that_is_slower_in_one_case_is_refused_with_its_name(
    evaluated: Evaluated,
) -> None:
    # Far faster in the other case: without a gain the comparison may end before the loss is sure.
    heavy = structs.replace(NARROW, weight=1000.0)
    task = task_of(heavy, WIDE, rules=AS_DRAWN, budget_s=20.0)
    found = evaluated(task, REFERENCE, WIDE_SLOW, incumbent=NARROW_SLOW)
    assert found.outcome is Outcome.CORRECT, found
    assert [case.slower for case in found.cases] == [False, True]
    decision = decide_verdict(found, 0.01)
    assert decision.verdict is Verdict.DISCARD
    assert decision.reason.startswith("slower in case wide: -")


def test_a_reference_that_fails_in_one_case_is_named(evaluated: Evaluated) -> None:
    broken = REFERENCE.replace(
        "return [COLUMNS]", "assert COLUMNS < 100, 'too wide'\n    return [COLUMNS]"
    )
    found = evaluated(task_of(NARROW, WIDE), broken, RIGHT)
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.REFERENCE), found
    assert re.match(r"case wide: reference\.py:\d+: .*too wide", found.message), found.message


def runners_of(gains: dict[str, float], deviation: float) -> Runners:
    return [
        (
            timed_case(name, 1 / len(gains)),
            cast("ClusterRunner", FakeClusterRunner(random.Random(name), gain, deviation)),
        )
        for name, gain in gains.items()
    ]


FOUR = {"a": 0.1, "b": 0.1, "c": 0.1}


@pytest.mark.parametrize("deviation", [0.01, 0.05])
def test_three_faster_cases_do_not_hide_a_slower_one(deviation: float) -> None:
    runners = runners_of(FOUR | {"d": -0.1}, deviation)
    found = TimingResult()
    stage = stage_of(found, cases=[case for case, _ in runners])
    standing = stage._run_until_decided(runners)
    if standing is Standing.FASTER:
        standing = stage._settle_cases(runners)
    stage._record_cases()
    assert standing is Standing.FUTILE
    assert [case.name for case in found.cases if case.slower] == ["d"]


def test_a_case_that_only_seems_slower_is_measured_on_and_no_obstacle() -> None:
    runners = runners_of(FOUR | {"d": -0.005}, 0.05)
    found = TimingResult()
    stage = stage_of(found, cases=[case for case, _ in runners])
    assert stage._run_until_decided(runners) is Standing.FASTER
    before = {case.judged.name: len(case.log_ratios) for case, _ in runners}
    last = runners[-1][0]
    last.log_ratios[:] = [-0.06, -0.02, 0.01, -0.08]
    assert stage._settle_cases(runners) is Standing.FASTER
    stage._record_cases()
    assert len(last.log_ratios) > 4
    assert all(len(case.log_ratios) == before[case.judged.name] for case, _ in runners[:-1])
    assert [case.name for case in found.cases if case.open or case.slower] == ["d"]


def test_equal_cases_are_rarely_called_slower() -> None:
    called = 0
    for turn in range(150):
        rng = random.Random(turn)
        runners: Runners = [
            (
                timed_case(name, 0.25),
                cast("ClusterRunner", FakeClusterRunner(rng, 0.0, 0.05)),
            )
            for name in "abcd"
        ]
        found = TimingResult()
        stage = stage_of(found, cases=[case for case, _ in runners])
        stage._run_until_decided(runners)
        stage._record_cases()
        called += any(case.slower for case in found.cases)
    assert called <= 1


def test_a_gain_in_all_cases_is_found_as_one_gain() -> None:
    runners = runners_of(dict.fromkeys("abcd", 0.03), 0.02)
    found = TimingResult()
    stage = stage_of(found, cases=[case for case, _ in runners])
    assert stage._run_until_decided(runners) is Standing.FASTER
    assert found.ratio is not None
    assert 1.01 < found.ratio.low < 1.03 < found.ratio.high


def test_a_task_says_its_cases_and_their_limits() -> None:
    task = Task(op="x", cases=(NARROW, WIDE), timing=Timing(max_regression=0.1))
    assert task.constants() == {}
    assert task.constants(WIDE) == {"ROWS": 32, "COLUMNS": 500}
    with pytest.raises(ValueError, match="two cases are named 'narrow'"):
        Task(op="x", cases=(NARROW, NARROW))

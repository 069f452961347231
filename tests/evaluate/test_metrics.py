"""Numbers that a task declares: computed by its reference, from results that were found right."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from akg_tui.core.measurement import FailureKind, Metric, Outcome
from akg_tui.core.task import Case
from tests.judging import Evaluated, quick_task

REFERENCE = """
import torch

n = 6


class Model(torch.nn.Module):
    def forward(self, x, scale):
        return x * scale


def get_inputs():
    return [torch.rand(n, 4), 3.0]


def get_init_inputs():
    return []


"""
KERNEL = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, scale):
        return x * scale * (1 + 2**-20)
"""
ONE_CASE = replace(quick_task(), metrics=("rows", "Mean R", "lines"))
TASK = replace(ONE_CASE, cases=(Case("small"), Case("large", sizes={"n": 9})))


def with_metrics(body: str, takes: str = "inputs, outputs, expected, kernel") -> str:
    return f"{REFERENCE}def metrics({takes}):\n    {body}\n"


def test_metrics_are_those_of_the_right_results_over_all_cases(evaluated: Evaluated) -> None:
    body = (
        "x, scale = inputs; y, = outputs; r, = expected\n"
        "    assert scale == 3.0 and not torch.equal(y, r) and torch.equal(r, x * scale)\n"
        "    x.zero_(), y.zero_()  # copies: what the judge compares is not changed\n"
        "    return {'rows': len(y), 'Mean R': torch.tensor(0.5), 'lines': kernel.count(chr(10)),\n"
        "            'undeclared': 1}"
    )
    found = evaluated(TASK, with_metrics(body), KERNEL, timed=False)
    assert found.outcome is Outcome.CORRECT, found.message
    assert found.metrics == (
        Metric("rows", 6, 9), Metric("Mean R", 0.5, 0.5), Metric("lines", 7, 7)
    )  # fmt: skip
    wrong = evaluated(TASK, with_metrics(body), KERNEL.replace("1 +", "2 +"), timed=False)
    assert wrong.outcome is Outcome.FAILED
    assert wrong.metrics == ()
    unseen = evaluated(ONE_CASE, with_metrics(body), KERNEL, timed=False, verified=False)
    assert (unseen.outcome, unseen.metrics) == (Outcome.CORRECT, ()), unseen.message


def test_a_number_that_is_not_finite_is_no_metric(evaluated: Evaluated) -> None:
    body = "return {'rows': float('nan'), 'Mean R': float('inf'), 'lines': 1}"
    found = evaluated(ONE_CASE, with_metrics(body, ""), KERNEL, timed=False)
    note = "not a finite number"
    assert found.metrics[:2] == (Metric("rows", note=note), Metric("Mean R", note=note))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return {'rows': 1, 'lines': 2}", "reference.py: metrics() returned no 'Mean R'"),
        ("raise ValueError('odd')", "reference.py:21: ValueError: odd"),
    ],
)
def test_metrics_that_fail_are_the_references_fault(
    evaluated: Evaluated, body: str, told: str
) -> None:
    found = evaluated(ONE_CASE, with_metrics(body, "outputs"), KERNEL, timed=False)
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.REFERENCE)
    assert told in found.message

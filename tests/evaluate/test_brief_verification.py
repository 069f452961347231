"""A slow kernel is verified in two parts: the second is done before it is kept."""

from __future__ import annotations

import pytest

from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.evaluate import verification
from tests.evaluate.kernels import PLAIN, REFERENCE, kernel
from tests.judging import Evaluated, quick_task

INCUMBENT = kernel("for _ in range(40):", "    y = torch.softmax(x, dim=-1)", "return y")
ONE_SHAPE = kernel("y = torch.softmax(x, dim=-1)", "return y if x.shape[0] in {rows} else y + 0.1")


@pytest.fixture(autouse=True)
def every_kernel_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "BRIEF_S", 0.0)


def left(found: Measurement) -> list[str]:
    return [each.name for each in found.errors if "before a kernel is kept" in each.note]


def test_what_is_left_is_tried_before_a_gain_counts(evaluated: Evaluated) -> None:
    # With time for a confirmation on a slow machine that has other work, too.
    task = quick_task(budget_s=20.0)
    found = evaluated(task, REFERENCE, PLAIN, incumbent=INCUMBENT)
    assert found.outcome is Outcome.CORRECT, found.message
    assert found.confirmation is not None
    assert found.confirmation.agrees
    assert not left(found)


def test_a_fast_kernel_that_is_wrong_in_the_second_part_fails(evaluated: Evaluated) -> None:
    rows = REFERENCE[REFERENCE.index("randn(") + 6 :].split(",")[0]
    wrong = ONE_SHAPE.replace("{rows}", f"({rows},)")
    task = quick_task(budget_s=20.0)
    found = evaluated(task, REFERENCE, wrong, incumbent=INCUMBENT)
    assert found.failure is FailureKind.WRONG, found


def test_a_kernel_without_a_gain_tells_what_was_left_out(evaluated: Evaluated) -> None:
    task = quick_task(budget_s=0.3)
    found = evaluated(task, REFERENCE, INCUMBENT, incumbent=PLAIN)
    assert found.outcome is Outcome.CORRECT, found.message
    assert left(found)
    whole = evaluated(task, REFERENCE, INCUMBENT, incumbent=PLAIN, whole=True)
    assert not left(whole)

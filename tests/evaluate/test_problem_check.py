"""A task's own check, for results that are not unique: eigenvectors, ties of a top k, samples."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Correctness, Task
from akg_tui.evaluate.reference import LINTED_AGAIN, Loaded
from tests.judging import Evaluated, quick_task

REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, a):
        values, vectors = torch.linalg.eigh(a + a.mT)
        return vectors, values


def get_inputs():
    return [torch.randn(4, 12, 12)]


def get_init_inputs():
    return []


def whole(inputs):
    return inputs[0].double() + inputs[0].double().mT
"""
CHECK = """
import torch

from reference import whole


def check(inputs, outputs):
    a, (q, values) = whole(inputs), outputs
    q, eye = q.double(), torch.eye(q.shape[-1], dtype=torch.double)
    inputs[0].zero_()  # a copy
    if not torch.isfinite(q).all():
        raise ValueError("odd values")
    assert torch.allclose(q.mT @ q, eye, atol=1e-4), "Q is not orthogonal"
    right = q * values.double().unsqueeze(-2)
    good = torch.allclose(a @ q, right, atol=1e-4 * float(a.abs().amax()))
    return good, "A Q is not Q diag(L)"
"""
KERNEL = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, a):
        values, vectors = torch.linalg.eigh(a + a.mT)
        return -vectors, values
"""
SAMPLED = """
import torch


class Model(torch.nn.Module):
    def forward(self, p):
        return torch.multinomial(p, 4, replacement=True)


def get_inputs():
    return [(torch.rand(64, 32) > 0.7) + torch.eye(32).repeat(2, 1)]


def get_init_inputs():
    return []


def check(inputs, outputs):
    return bool((inputs[0].gather(1, outputs[0]) > 0).all())
"""
SAMPLING = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, p):
        return torch.multinomial(p, 4, replacement=True)
"""


def checked(source: str = CHECK, name: str = "check.py:check", **rules: object) -> Task:
    correctness = Correctness(trials=2, check=name, **rules)  # type: ignore[arg-type]
    return replace(quick_task(budget_s=0.3), correctness=correctness, check_source=source)


def test_eigenvectors_of_other_signs_are_right_also_when_timed(evaluated: Evaluated) -> None:
    found = evaluated(checked(), REFERENCE, KERNEL)
    assert found.outcome is Outcome.CORRECT, found.message
    assert found.ratio is not None
    assert found.notes[0].startswith("results are judged by check.py:check of the task")
    assert {each.note for each in found.errors if each.name == "as drawn"} == {
        "accepted by check.py:check"
    }
    assert len({each.name for each in found.errors if "accepted" in each.note}) > 8
    assert found.max_error is None


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("-vectors,", "2 * vectors,", "check.py:check refuses it: Q is not orthogonal"),
        (", values", ", values * 1.1", "check.py:check refuses it: A Q is not Q diag(L)"),
        ("-vectors,", "vectors / 0,", "check.py:check fails on it: check.py:12: ValueError: odd"),
        ("-vectors, values", "values, vectors", "wrong shape: output 0"),
        ("(a + a.mT)", "(a + a.mT + (a.shape[-1] != 12))", "refuses it: A Q"),
    ],
)
def test_a_result_that_the_check_refuses_fails(
    evaluated: Evaluated, old: str, new: str, told: str
) -> None:
    kernel = KERNEL.replace(old, new)
    assert kernel != KERNEL
    found = evaluated(checked(), REFERENCE, kernel, timed=False)
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG)
    assert told in found.message


def test_samples_of_a_reference_are_judged_by_their_odds(evaluated: Evaluated) -> None:
    task = checked("", "reference.py:check", fixed_shape=True, values="drawn")
    assert evaluated(task, SAMPLED, SAMPLING, timed=False).outcome is Outcome.CORRECT
    wrong = SAMPLING.replace("(p,", "(torch.ones_like(p),")
    found = evaluated(task, SAMPLED, wrong, timed=False)
    assert "reference.py:check refuses it: it gave no reason" in found.message


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return None", "check.py: the check accepts zeros in place of a result"),
        ("raise KeyError(3)", "check.py: the check does not accept the reference's own result: "),
        ("return False, 'never'", "check.py:check refuses it: never"),
        (
            "return bool(outputs[0].double().norm() > 1)",
            "check.py: the check accepts a permuted result",
        ),
    ],
)
def test_an_unsound_check_is_refused_before_any_kernel(
    evaluated: Evaluated, body: str, told: str
) -> None:
    source = f"def check(inputs, outputs):\n    {body}\n"
    found = evaluated(checked(source), REFERENCE, KERNEL, timed=False)
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.REFERENCE)
    assert told in found.message


def test_a_tolerance_that_is_wider_than_the_judge_s_own_bound_is_told(
    evaluated: Evaluated,
) -> None:
    task = quick_task(Correctness(trials=2, tolerance=1e-2, fixed_shape=True))
    reference = REFERENCE.replace("return vectors, values", "return values")
    rounded = KERNEL.replace("return -vectors, values", "return values.bfloat16().float()")
    found = evaluated(task, reference, rounded, timed=False)
    assert found.outcome is Outcome.CORRECT, found.message
    (note,) = found.notes
    assert note.startswith("the task's tolerance of 0.01 is wider than the judge's own bound, ")


def test_a_check_that_does_not_load_is_named_with_its_line(evaluated: Evaluated) -> None:
    found = evaluated(checked("import torch\n1 / 0\n"), REFERENCE, KERNEL, timed=False)
    assert found.message.startswith("check.py:2: ZeroDivisionError")


NEAR_AT_FIRST = """
import torch

drawn = 0


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 4


def get_inputs():
    global drawn
    drawn += 1
    return [torch.arange(64.0).view(8, 8) + torch.rand(8, 8) * (1e-3 if drawn < NEAR else 50.0)]


def get_init_inputs():
    return []


def check(inputs, outputs):
    return bool((outputs[0] - inputs[0] - 4).abs().max() < 0.1)
"""
ADDING = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"


def test_draws_that_are_near_each_other_by_chance_are_drawn_again_with_a_check(
    evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def noted(loaded: Loaded, item: int, count: int, *more: Any) -> int:
        counts.append(count)
        return draw(loaded, item, count, *more)

    draw = Loaded.draw
    monkeypatch.setattr(Loaded, "draw", noted)
    reference = NEAR_AT_FIRST.replace("NEAR", "8")
    task = checked("", "reference.py:check", fixed_shape=True, values="drawn")
    found = evaluated(task, reference, f"{ADDING}        return x + 4\n", timed=False)
    assert found.outcome is Outcome.CORRECT, found.message
    assert LINTED_AGAIN in counts

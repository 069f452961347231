"""Every input alone decides the result: in the task, and in what a kernel is verified with."""

from __future__ import annotations

import msgspec
import pytest
import torch

from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.task import Correctness
from akg_tui.evaluate import task_lint
from akg_tui.evaluate.child import unusual_values
from akg_tui.evaluate.child.unusual_values import Alteration, InputChange
from tests.evaluate.conftest import Evaluated, quick_task


def task(parameters: str, body: str, inputs: str) -> str:
    return f"""
import torch


class Model(torch.nn.Module):
    def forward(self, {parameters}):
        {body}


def get_inputs():
    return [{inputs}]
"""


MASKED = task(
    "x, mask, k, scale",
    "return torch.softmax((x * scale).masked_fill(~mask, -1e9), -1).roll(k, -1)",
    "torch.randn(16, 48), torch.ones(16, 48, dtype=torch.bool), 3, 0.5",
)


def judged(
    evaluated: Evaluated, reference: str, kernel: str | None = None, **rules: object
) -> Measurement:
    checked = msgspec.structs.replace(quick_task(), correctness=Correctness(trials=1, **rules))  # type: ignore[arg-type]
    kernel = (kernel or reference).replace("Model(", "ModelNew(")
    return evaluated(checked, reference, kernel, timed=False)


REFUSED = {
    "a mask that decides nothing": (
        "x, mask",
        "return torch.softmax(x, -1) + 0 * mask",
        "torch.randn(8, 32), torch.ones(8, 32, dtype=torch.bool)",
        "'mask' decides nothing",
    ),
    "a constant number": ("x, k", "return torch.softmax(x, -1)", "torch.randn(8, 32), 4", "'k'"),
    "a scale": ("x, s", "return x.abs() + 0 * s", "torch.randn(8, 32), 1e-12", "'s'"),
    "an index": (
        "x, index",
        "return x.exp() + 0 * index",
        "torch.randn(8, 32), torch.randint(9, (8, 1))",
        "'index'",
    ),
    "a small bias": (
        "x, bias",
        "return x.exp() + bias * 1e-9",
        "torch.randn(8, 32), torch.randn(32)",
        "'bias' decides nothing",
    ),
    "names unknown": (
        "*given",
        "return given[0].exp()",
        "torch.randn(8, 32), torch.randn(32)",
        "input 1 decides nothing",
    ),
    "half of a mean": (
        "x",
        "return x.mean(-1)",
        "(torch.rand(8, 60_000) + 3 * torch.rand(8, 1)).bfloat16()",
        "half of 'x' decides nothing",
    ),
}


@pytest.mark.parametrize(("parameters", "body", "inputs", "says"), REFUSED.values(), ids=REFUSED)
def test_an_input_that_decides_nothing_is_refused(
    evaluated: Evaluated, parameters: str, body: str, inputs: str, says: str
) -> None:
    found = judged(evaluated, task(parameters, body, inputs))
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.REFERENCE), found
    assert says in found.message
    assert "[correctness] free_inputs = [" in found.message


@pytest.mark.parametrize(
    ("name", "free"),
    [
        ("a mask that decides nothing", "mask"),
        ("a constant number", "k"),
        ("a small bias", 1),
        ("names unknown", 1),
        ("half of a mean", "x"),
    ],
)
def test_a_task_may_declare_such_an_input_free(
    evaluated: Evaluated, name: str, free: str | int
) -> None:
    found = judged(evaluated, task(*REFUSED[name][:3]), free_inputs=(free,))
    assert found.outcome is Outcome.CORRECT, found


@pytest.mark.parametrize("unknown", ["maks", 4])
def test_a_free_input_that_does_not_exist_is_named(
    evaluated: Evaluated, unknown: str | int
) -> None:
    found = judged(evaluated, MASKED, free_inputs=(unknown,))
    assert found.outcome is Outcome.ERROR
    assert found.message == (
        f"task.toml: correctness.free_inputs: forward() has no input {unknown!r}, "
        "it has: 'x', 'mask', 'k', 'scale'"
    )


ACCEPTED = {
    "one maximum": ("x", "return x.max()", "torch.randn(200)"),
    "positions": ("x", "return x.argmax(-1)", "torch.randn(8, 32)"),
    "a count that is part of a shape": ("x, n", "return x.view(n, -1).sum(0)", "torch.randn(64), 8"),
    "an index": ("x, at", "return x[at]", "torch.randn(64), torch.randint(64, (5,))"),
    "one element": ("x, y", "return x.exp() * y", "torch.randn(64), torch.randn(1)"),
    "a logarithm": ("x", "return x.log()", "torch.rand(64) + 0.1"),
    "ones": ("x, w", "return x.exp() * w", "torch.randn(8, 64), torch.ones(64)"),
    "a mean in single precision": ("x", "return x.mean(-1)", "torch.rand(8, 60_000)"),
    "a small number": ("x, eps", "return x / (x.norm() + eps)", "torch.randn(64), 1e-6"),
    "no elements": ("x, y", "return torch.cat([x.exp(), y])", "torch.randn(64), torch.empty(0)"),
    "a mode": ("x, how", "return x.exp() if how == 'e' else x", "torch.randn(64), 'e'"),
}  # fmt: skip


@pytest.mark.parametrize(("parameters", "body", "inputs"), ACCEPTED.values(), ids=ACCEPTED)
def test_inputs_that_decide_are_accepted(
    evaluated: Evaluated, parameters: str, body: str, inputs: str
) -> None:
    found = judged(evaluated, task(parameters, body, inputs), values="drawn", fixed_shape=True)
    assert found.outcome is Outcome.CORRECT, found


def test_a_slow_reference_is_not_altered_for_long(evaluated: Evaluated) -> None:
    wait = "end = time.thread_time() + 0.4\n        while time.thread_time() < end: pass\n        "
    slow = task("*given", wait + "return sum(given).exp()", "torch.randn(64), " * 30)
    slow = slow.replace("import torch\n", "import time\nimport torch\n", 1)
    found = judged(evaluated, slow, values="drawn", fixed_shape=True)
    assert found.outcome is Outcome.CORRECT, found
    assert found.elapsed_s < 12  # all 60 alterations would take 24 s


def test_halving_keeps_one_of_each_pair() -> None:
    x = torch.arange(24.0).view(2, 12)
    change = InputChange(0, Alteration.HALVED, 1)
    rng = torch.Generator().manual_seed(0)
    made = unusual_values.altered(change, [x], lambda: [x], rng)
    assert made is not None
    assert isinstance(made[0], torch.Tensor)
    for row, before in zip(made[0].tolist(), x.tolist(), strict=True):
        assert set(row) < set(before)
        assert sorted(row) == sorted(2 * list(dict.fromkeys(row)))


def test_positions_of_free_inputs() -> None:
    assert task_lint.free_positions(("b", 0), ("a", "b"), 2) == {0, 1}
    assert isinstance(task_lint.free_positions(("c",), ("a", "b"), 2), task_lint.Fault)
    assert isinstance(task_lint.free_positions((2,), (), 2), task_lint.Fault)

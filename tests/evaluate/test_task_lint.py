"""A task that can't tell a kernel from nothing is refused before any kernel runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.phases import Verdict
from akg_tui.core.verdict import decide_verdict
from akg_tui.evaluate import task_lint
from akg_tui.evaluate.task_lint import Item
from tests.evaluate.kernels import PLAIN, REFERENCE, kernel
from tests.judging import Evaluated, quick_task


def items(function: object, *inputs: torch.Tensor) -> list[Item]:
    assert callable(function)
    made = []
    for x in inputs:
        result = function(x)
        exact = function(x.double()) if x.is_floating_point() else None
        made.append(Item([x], [result], [exact] if exact is not None else None))
    return made


def draws(count: int = 3) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(40, 30, generator=generator) for _ in range(count)]


def refused(made: list[Item], given: float | None = None) -> str:
    found = task_lint.fault(made, made[0].results, given)
    return found.reason if found is not None else ""


def test_ordinary_tasks_pass() -> None:
    for function in (
        torch.relu,
        lambda x: torch.softmax(x, -1),
        lambda x: x.argmax(-1),
        lambda x: (x * 2).t().contiguous(),
        lambda x: x > 0.5,
        lambda x: x.sum(),
    ):
        assert not refused(items(function, *draws()))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: x * 0, "returns zeros"),
        (lambda x: x.clone(), "returns input 0 itself"),
        (lambda x: x * 0 + 3.0, "returns the mean of the results, everywhere"),
        (lambda x: torch.ones(5, dtype=x.dtype), "returns the mean of the results"),
        (lambda x: x * float("nan"), "NaN everywhere"),
        (lambda x: x * 1e-9 + torch.arange(30.0), "its first result, for every other input"),
        (lambda x: x[:, :0], "every output is empty"),
        (lambda x: x > 100, "returns zeros"),
    ],
)
def test_a_task_that_a_cheat_would_pass_is_refused(function: object, says: str) -> None:
    assert says in refused(items(function, *draws()))


def test_inputs_that_never_change_are_refused() -> None:
    same = draws(1) * 3
    assert "the same values every time" in refused(items(torch.relu, *same))
    nothing = [Item([], [torch.arange(3.0)], None)] * 3
    assert "returns nothing" in refused(nothing)


def test_a_tolerance_that_hides_a_tenth_of_a_value_is_refused_and_a_narrower_one_taken() -> None:
    made = items(lambda x: torch.softmax(x, -1), *draws())
    assert refused(made, 0.2) == (
        "the tolerance of 0.2 is too loose: a kernel would pass that is wrong by 10 %"
    )
    assert not refused(made, 2e-2)
    assert not refused(made, 1e-5)


def test_a_mean_of_many_terms_is_no_loose_tolerance() -> None:
    # Each mean differs from a number of 16 bits by less than the rounding of its sum.
    near = [
        x - x.mean() + value for x, value in zip(draws(), (0.50005, 0.75005, 1.2501), strict=True)
    ]
    made = [Item([x], [x.mean()], [x.double().mean()], terms=1_000_000) for x in near]
    assert not refused(made)


def test_a_reference_that_moves_is_refused() -> None:
    made = items(torch.relu, *draws())
    found = task_lint.fault(made, [made[0].results[0] + 1], None)
    assert found is not None
    assert "not deterministic" in found.reason


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (
            REFERENCE.replace("    return [torch", "    torch.manual_seed(0)\n    return [torch"),
            "get_inputs() returns the same values every time",
        ),
        (
            REFERENCE.replace("torch.softmax(x, dim=-1)", "torch.relu(x)").replace(
                "torch.randn", "torch.rand"
            ),
            "returns input 0 itself",
        ),
    ],
    ids=["seeded", "no negative number"],
)
def test_the_judge_refuses_the_task_and_runs_no_kernel(
    evaluated: Evaluated, reference: str, says: str
) -> None:
    stages: list[str] = []
    for _ in range(2):
        found = evaluated(quick_task(), reference, PLAIN, report=lambda p: stages.append(p.stage))
        assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.REFERENCE), found
        assert says in found.message
    assert set(stages) == {"reference"}


def test_a_copy_of_any_values_is_a_task_and_the_input_itself_no_gain(evaluated: Evaluated) -> None:
    copies = REFERENCE.replace("torch.softmax(x, dim=-1)", "x.clone()")
    copies = copies.replace("torch.randn", "torch.rand")
    copying = kernel("return x.clone()")
    found = evaluated(quick_task(budget_s=0.3), copies, kernel("return x"), incumbent=copying)
    assert found.outcome is Outcome.CORRECT, found
    assert found.ratio is not None
    assert decide_verdict(found, 0.01).verdict is not Verdict.KEEP, found
    # `torch.rand` draws no negative values, and the reference takes them.
    wrong = evaluated(quick_task(budget_s=0.3), copies, kernel("return torch.relu(x)"))
    assert (wrong.outcome, wrong.failure) == (Outcome.FAILED, FailureKind.WRONG), wrong


def test_results_that_are_near_each_other_by_chance_are_drawn_again(evaluated: Evaluated) -> None:
    by_chance = """
import torch

drawn = 0


class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum()


def get_inputs():
    global drawn
    drawn += 1
    return [torch.randn(16) if drawn > 4 else torch.full((16,), 3.0) + 1e-7 * torch.rand(16)]
"""
    kernel = by_chance.replace("Model(", "ModelNew(")
    found = evaluated(quick_task(), by_chance, kernel, timed=False)
    assert found.outcome is Outcome.CORRECT, found


def test_no_run_is_tuned_on_a_task_that_is_refused(tmp_path: Path) -> None:
    task = tmp_path / "task"
    task.mkdir()
    (task / "task.toml").write_text('op = "nothing"\n')
    (task / "reference.py").write_text(REFERENCE.replace("torch.softmax(x, dim=-1)", "x * 0"))
    (task / "kernel.py").write_text(PLAIN + "\nBLOCK = 1  # tune: [1, 2, 4]\n")
    told = subprocess.run(
        [sys.executable, "-m", "akg_tui", "tune", str(task), "--headless"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert told.returncode == 2, (told.stdout, told.stderr)
    assert "a kernel would pass that returns zeros" in told.stdout + told.stderr

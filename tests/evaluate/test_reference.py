"""A reference that can't be used is an error of its own, with file, line and cause."""

from __future__ import annotations

import pytest

from akg_tui.core.measurement import FailureKind, Outcome, Progress
from tests.evaluate.kernels import PLAIN, REFERENCE
from tests.judging import Evaluated, quick_task

WITH_STATE = """
import torch


class Model(torch.nn.Module):
    def __init__(self, width, bias, names, scale):
        super().__init__()
        assert bias is True and names == ["a", ("b", None)]
        self.linear = torch.nn.Linear(width, 8, bias=bias)
        self.register_buffer("scale", scale)

    def forward(self, x, times, index):
        return self.linear(x) * self.scale * times, index + 1, index > 2


def get_inputs():
    return [torch.randn(4, 16).t().contiguous().t(), 2.5, torch.randint(5, (3,))]


def get_init_inputs():
    return [16, True, ["a", ("b", None)], torch.rand(8)]
"""


def test_weights_arguments_and_several_results_reach_the_kernel(evaluated: Evaluated) -> None:
    kernel = WITH_STATE.replace("class Model(", "class ModelNew(")
    steps: list[Progress] = []
    task = quick_task(budget_s=0.3)
    found = evaluated(task, WITH_STATE, kernel, label="attempt 1", report=steps.append)
    assert found.outcome is Outcome.CORRECT, found
    assert {step.message for step in steps} == {"attempt 1"}
    stages = list(dict.fromkeys(step.stage for step in steps))
    timed = ["reference", "build", "verify", "time"]
    # An equal kernel may look faster at first, once in a hundred times, and is measured again then.
    assert stages in (timed, [*timed, "confirm"])
    # Told at most every so often, and so maybe not of the last cluster, which can move the ratio.
    clusters = [step for step in steps if step.stage == "time"]
    done = [step.done for step in clusters]
    assert done == sorted(set(done))
    assert done[0] == 0
    assert 0 < done[-1] <= found.clusters
    assert [step.ratio is not None for step in clusters] == [count > 1 for count in done]


def test_a_missing_compiler_is_told_with_what_to_install(
    evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = "/nonexistent/c++"
    kernel = f"{PLAIN}\nimport os\nfrom akg_tui.dsl import compile_cpp\n"
    kernel += f"os.environ['CXX'] = {missing!r}\ncompile_cpp('')\n"
    found = evaluated(quick_task(), REFERENCE, kernel)
    assert found.failure is FailureKind.BUILD, "a kernel may claim what it likes"
    monkeypatch.setenv("CXX", missing)
    found = evaluated(quick_task(), REFERENCE, kernel)
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.TOOLCHAIN), found
    assert missing in found.message

"""Kernels in Helion where there is no GPU: verified by Triton's interpreter, timed nowhere."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Correctness, Guard, Target, Task, Timing
from akg_tui.dsl.adapters import DSLS, dsl_of
from akg_tui.evaluate import Judge, static_guard
from akg_tui.evaluate.targets import adapters
from benchmarks.judge.ordinary.windows import module

REFERENCE = module("x", "return x * 2 + 1", "torch.randn(6, 48)")
GOOD = """
import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[4, 16]))
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] * 2 + 1
    return out


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return doubled(x.contiguous())
"""
WRONG = GOOD.replace("* 2 + 1", "* 2 - 1")
UNKNOWN_NAME = GOOD.replace("* 2 + 1", "* 2 + no_such_name")

TASK = Task(
    op="doubled",
    target=Target(backend="cpu", dsl="helion"),
    correctness=Correctness(trials=1),
    guard=Guard(kernel_must_do_the_work=True),
    timing=Timing(call_timeout_s=20.0, build_timeout_s=120.0),
)


def test_a_kernel_in_helion_is_known_by_what_it_imports_and_the_guard_wants_one() -> None:
    assert dsl_of(GOOD) == "helion"
    assert static_guard.findings(GOOD, TASK) == ()
    plain = GOOD.replace("@helion.kernel(config=helion.Config(block_sizes=[4, 16]))\n", "")
    (found,) = static_guard.findings(plain, TASK)
    assert found.reason == "nothing has helion.kernel: this task's DSL is Helion"


def test_a_missing_helion_is_told_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install helion" in adapters.lacking(TASK)


def test_helions_own_search_is_off_on_every_target() -> None:
    for target in ("cpu", "cuda"):
        assert DSLS["helion"].environment(target)["HELION_AUTOTUNE_EFFORT"] == "none"


@pytest.fixture(scope="module")
def installed() -> None:
    pytest.importorskip("helion")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def helion_judge(
    installed: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Judge]:
    folder: Path = tmp_path_factory.mktemp("helion")
    async with Judge(TASK, REFERENCE, folder) as running:
        yield running


@pytest.mark.asyncio(loop_scope="module")
async def test_a_right_kernel_is_verified_and_not_timed(helion_judge: Judge) -> None:
    found = await helion_judge.evaluate(GOOD)
    assert found.outcome is Outcome.CORRECT, found
    assert not found.timed
    assert found.environment["helion"]
    assert found.environment["triton"].endswith(", interpreter")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_wrong_kernel_is_refused(helion_judge: Judge) -> None:
    found = await helion_judge.evaluate(WRONG)
    assert found.failure is FailureKind.WRONG, found


@pytest.mark.asyncio(loop_scope="module")
async def test_what_helion_refuses_has_its_line(helion_judge: Judge) -> None:
    found = await helion_judge.evaluate(UNKNOWN_NAME)
    line = UNKNOWN_NAME[: UNKNOWN_NAME.index("no_such_name")].count("\n") + 1
    assert found.failure is FailureKind.BUILD, found
    assert found.message.startswith(f"kernel.py:{line}: Helion does not compile: no_such_name")

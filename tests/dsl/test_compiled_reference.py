"""The reference under torch.compile, built, compared and timed by the real judge."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Correctness, Guard, ReferenceChanges, Target, Task, Timing
from akg_tui.dsl import compiled_reference
from akg_tui.dsl.adapters import DSLS
from akg_tui.evaluate import Judge
from akg_tui.evaluate.sandbox import confinement
from akg_tui.evaluate.static_guard import findings

REFERENCE = """\
import torch
import torch.nn.functional as F

WIDTH = 4096


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((WIDTH,), 2.0))

    def forward(self, x):
        return F.relu(x * self.scale) + 1


def get_inputs():
    return [torch.randn(64, WIDTH)]


def get_init_inputs():
    return []
"""


def task(**changes: Any) -> Task:
    changes = {"correctness": Correctness(trials=1), **changes}
    timing = Timing(budget_s=0.5)
    reference = ReferenceChanges(constants={"WIDTH": 256})
    return Task(op="op", reference=reference, target=Target(dsl="cpp"), timing=timing, **changes)


def test_the_kernel_is_the_reference_with_a_model_that_compiles_itself() -> None:
    text = compiled_reference.kernel_of(task(), REFERENCE, "compile")
    assert text.startswith(REFERENCE.replace("4096", "256").rstrip())
    classes = [n.name for n in ast.parse(text).body if isinstance(n, ast.ClassDef)]
    assert classes == ["Model", "ModelNew"]
    assert 'mode="default"' in text
    # The child that builds may use more, and would leave code that no other child can use.
    assert "torch._inductor.config.cpp.threads = 1\n" in text
    autotuned = compiled_reference.kernel_of(task(), REFERENCE, "max-autotune")
    # No CUDA graphs: with them a result is overwritten by the next call, which the judge refuses.
    assert 'mode="max-autotune-no-cudagraphs"' in autotuned


def test_no_rule_of_the_task_that_is_about_kernels_refuses_it() -> None:
    strict = task(
        guard=Guard(level="strict", kernel_must_do_the_work=True),
        correctness=Correctness(deterministic=True, noncontiguous=True, tolerance=1e-3),
    )
    terms = compiled_reference.terms_of(strict)
    found = findings(compiled_reference.kernel_of(strict, REFERENCE, "compile"), terms)
    assert not any(each.refused for each in found)
    assert (terms.correctness.values, terms.correctness.fixed_shape) == ("drawn", True)
    assert terms.correctness.tolerance == 1e-3
    assert not terms.correctness.deterministic
    assert terms.timing.call_timeout_s == strict.timing.build_timeout_s


def test_what_was_compiled_is_cached_with_the_kernel_and_not_in_a_folder_of_the_user() -> None:
    for dsl in DSLS.values():
        cache = dsl.caches(Path("/cache/of/a/kernel"))["TORCHINDUCTOR_CACHE_DIR"]
        assert Path(cache).is_relative_to("/cache/of/a/kernel")


def test_packages_outside_the_prefix_of_python_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = ["/home/user/.local/lib/python3.11/site-packages", "/home/user/secrets"]
    monkeypatch.setattr("sys.path", [*sys.path, *elsewhere])
    assert elsewhere[0] in confinement.programs()
    assert elsewhere[1] not in confinement.programs()


async def test_it_is_timed_against_eager_in_the_sandbox(tmp_path: Path) -> None:
    judge = Judge(task(), REFERENCE, tmp_path)
    found = await judge.measure_compiled("compile")
    assert (found.outcome, found.message) == (Outcome.CORRECT, "")
    assert found.ratio is not None
    assert found.ratio.ratio > 0.2
    assert found.clusters >= 2
    assert judge.pid is None, "the judge of the run's kernels was not needed"


async def test_a_machine_without_a_compiler_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    found = await Judge(task(), REFERENCE, tmp_path).measure_compiled("compile")
    assert found.outcome is not Outcome.CORRECT
    assert found.ratio is None
    assert "compiler" in found.message.lower()
    assert "\n" not in found.message


async def test_the_time_it_takes_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(compiled_reference.LIMITS_S, "compile", 0.2)
    found = await Judge(task(), REFERENCE, tmp_path).measure_compiled("compile")
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.TIMEOUT)
    assert found.message == "it took longer than 0.2 s"

"""Kernels in Triton where there is no GPU: verified in all stages, timed in none."""

from __future__ import annotations

import importlib.util
from typing import Any

import msgspec
import pytest

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Correctness, Guard, Target, Task, Timing
from tests.evaluate import triton_kernels as kernels
from tests.judging import Evaluated

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is for Linux"
)

TASK = Task(
    op="softmax",
    target=Target(backend="cpu", dsl="triton"),
    correctness=Correctness(trials=1),
    guard=Guard(level="warn"),
    timing=Timing(call_timeout_s=3.0),
)


@pytest.mark.parametrize("asked", [{"precise": 0.02}, {"incumbent": kernels.GOOD}])
def test_a_right_kernel_is_verified_on_every_kind_of_input_and_not_timed(
    evaluated_in_triton: Evaluated, asked: dict[str, Any]
) -> None:
    found = evaluated_in_triton(TASK, kernels.REFERENCE, kernels.GOOD, **asked)
    assert found.outcome is Outcome.CORRECT, found
    assert not found.timed
    assert found.message == "verified only: Triton's interpreter says nothing about time"
    assert found.ratio is found.candidate_ms is found.baseline_ms is found.roofline is None
    assert (found.samples, found.clusters, found.sampled_s) == (0, 0, 0.0)
    assert found.environment["triton"].endswith(", interpreter")
    names = [each.name for each in found.errors]
    assert names[:2] == ["as drawn", "the same input again"]
    assert any("shape [" in name for name in names)
    assert {"landlock", "seccomp", "rlimits"} <= set(found.sandbox) | {
        each.partition(" ")[0] for each in found.sandbox_missing
    }


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        # What lies beyond a row is the next row, or nobody's memory.
        (kernels.NO_LOAD_MASK, {FailureKind.WRONG, FailureKind.CRASH}),
        (kernels.PADDED_WITH_ZEROS, {FailureKind.WRONG}),
        (kernels.ONE_GRID, {FailureKind.WRONG, FailureKind.CRASH}),
        (kernels.NO_MAXIMUM, {FailureKind.WRONG}),
        (kernels.WRITES_ITS_INPUT, {FailureKind.WRONG}),
        (kernels.WILD_POINTER, {FailureKind.CRASH}),
        (kernels.FOR_EVER, {FailureKind.TIMEOUT}),
    ],
    ids=["load mask", "padding", "grid", "overflow", "input", "pointer", "loop"],
)
def test_a_wrong_kernel_is_refused(
    evaluated_in_triton: Evaluated, source: str, kinds: set[FailureKind]
) -> None:
    found = evaluated_in_triton(TASK, kernels.REFERENCE, source)
    assert found.outcome is Outcome.FAILED, found
    assert found.failure in kinds, found


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (kernels.NO_SUCH_OP, "kernel.py:13: AttributeError: module 'triton.language' has no"),
        (kernels.NO_POWER_OF_TWO, "kernel.py:10: ValueError: arange's range must be a power of 2"),
    ],
)
def test_what_goes_wrong_in_a_program_is_told_with_its_line(
    evaluated_in_triton: Evaluated, source: str, says: str
) -> None:
    found = evaluated_in_triton(TASK, kernels.REFERENCE, source)
    assert found.failure is FailureKind.CALL, found
    assert found.message.startswith(says)


def test_what_triton_writes_goes_to_the_scratch_folder_alone(
    evaluated_in_triton: Evaluated,
) -> None:
    before = "import os, triton\nassert os.environ['TRITON_HOME'] == os.environ['AKG_CACHE_DIR']\n"
    before += "from triton import knobs\nopen(os.path.join(knobs.cache.home_dir, 'x'), 'w')\n"
    found = evaluated_in_triton(TASK, kernels.REFERENCE, before + kernels.GOOD)
    assert found.outcome is Outcome.CORRECT, found


def test_what_the_interpreter_computes_is_the_kernel_s_work(
    evaluated_in_triton: Evaluated,
) -> None:
    task = msgspec.structs.replace(
        TASK,
        guard=Guard(kernel_must_do_the_work=True),
        correctness=Correctness(trials=1, fixed_shape=True, values="drawn"),
    )
    found = evaluated_in_triton(task, kernels.REFERENCE, kernels.BY_LIBDEVICE)
    assert found.outcome is Outcome.CORRECT, found
    found = evaluated_in_triton(task, kernels.REFERENCE, kernels.FRAMEWORK_AFTER)
    assert found.failure is FailureKind.GUARD
    assert "aten::softmax: write that in the kernel" in found.message

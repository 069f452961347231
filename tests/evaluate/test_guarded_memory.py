"""Accesses past the end of arguments and results are found; correct kernels are left alone."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Correctness, Task, Timing
from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.child.guarded_memory import GuardedArguments, GuardedResults
from akg_tui.evaluate.protocol import tensor_layout as layouts
from benchmarks.judge.ordinary.windows import module
from tests.judging import Evaluated

REFERENCE = module("x", "return x * 2", "torch.randn(8, 33)")

KERNEL = '''
import ctypes
import torch
from akg_tui.dsl import compile_cpp, pointer

SOURCE = r"""
extern "C" void twice(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i] * 2;
  volatile float* past = PAST;
  ACCESS;
}
"""
library = compile_cpp(SOURCE, ("-O1",))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.twice(pointer(x), pointer(y), ctypes.c_long(x.numel()))
        return y
'''


@pytest.fixture
def task() -> Task:
    rules = Correctness(trials=1, values="drawn", fixed_shape=True)
    return Task(op="twice", correctness=rules, timing=Timing(budget_s=0.1))


@pytest.mark.parametrize(
    ("past", "access", "kind", "says"),
    [
        (
            "y + n",
            "past[0] = 1",
            FailureKind.WRONG,
            "past the end of a new tensor (float32[8, 33])",
        ),
        ("y + n", "past[300] = 1", FailureKind.WRONG, "1200 bytes behind it"),
        ("y + n", "past[4000] = 1", FailureKind.CRASH, "SIGSEGV"),
        ("(float*)x + n", "past[1] = 1", FailureKind.WRONG, "argument 0, 4 bytes behind it"),
        ("(float*)x + n", "if (past[40] == 1.5f) y[0] = 1", FailureKind.CRASH, "SIGSEGV"),
    ],
)
def test_an_access_past_the_end_fails_a_kernel(
    evaluated: Evaluated, task: Task, past: str, access: str, *, kind: FailureKind, says: str
) -> None:
    kernel = KERNEL.replace("PAST", past).replace("ACCESS", access)
    found = evaluated(task, REFERENCE, kernel, timed=False)
    assert found.outcome is Outcome.FAILED
    assert found.failure is kind, found
    assert says in found.message


def test_a_kernel_that_stays_inside_is_correct(evaluated: Evaluated, task: Task) -> None:
    kernel = KERNEL.replace("PAST", "y + n - 1").replace("ACCESS", "past[0] = past[0]")
    found = evaluated(task, REFERENCE, kernel, timed=False)
    assert found.outcome is Outcome.CORRECT, found


@given(
    shape=st.lists(st.integers(0, 9), max_size=3),
    dtype=st.sampled_from(
        [torch.float32, torch.bool, torch.int64, torch.bfloat16, torch.float8_e5m2]
    ),
)
def test_guarded_arguments_hold_what_was_shared_and_give_changes_back(
    shape: list[int], dtype: torch.dtype
) -> None:
    values = torch.arange(max(1, torch.Size(shape).numel())).to(dtype)
    value = values[: torch.Size(shape).numel()].reshape(shape)
    layout = layouts.lay_out([value, 3, value.clone()])
    shared = mmap.mmap(-1, max(layout.size, 1))
    layouts.store(layout, [value, 3, value.clone()], shared, 0)
    guarded = GuardedArguments(layout, shared)
    guarded.fill()
    first, number, second = guarded.arguments
    assert number == 3
    assert torch.equal(first, value)  # type: ignore[arg-type]
    assert isinstance(second, torch.Tensor)
    assert second.data_ptr() % 64 == 0
    second.fill_(1)
    guarded.check()
    assert torch.equal(layouts.views(layout, shared, 0)[1], torch.ones_like(value))


def test_new_tensors_are_what_they_would_be() -> None:
    like = torch.arange(12.0).reshape(3, 4).t()
    with GuardedResults() as results:
        made = [
            torch.empty(5),
            torch.zeros(3, 4, dtype=torch.int32),
            torch.ones_like(like),
            like.new_full((2, 3), 7.0),
            torch.empty(0),
        ]
    assert [tuple(each.shape) for each in made] == [(5,), (3, 4), (4, 3), (2, 3), (0,)]
    assert not made[1].any()
    assert made[2].stride() == torch.ones_like(like).stride()
    assert (made[3] == 7).all()
    results.check()
    ctypes.memset(made[0].data_ptr() + 20, 0, 1)
    results.check()  # the tensors before it were checked already


def test_a_write_behind_a_new_tensor_is_told_by_its_distance() -> None:
    with GuardedResults() as results:
        made = torch.empty(5)
    ctypes.memset(made.data_ptr() + 20 + 9, 0, 1)
    with pytest.raises(Fault, match=r"float32\[5\]\), 9 bytes behind it"):
        results.check()


def test_the_page_behind_an_argument_can_not_be_read() -> None:
    program = (
        "import ctypes, mmap, torch\n"
        "from akg_tui.evaluate.protocol import tensor_layout as layouts\n"
        "from akg_tui.evaluate.child.guarded_memory import GuardedArguments\n"
        "layout = layouts.lay_out([torch.empty(16)])\n"
        "(x,) = GuardedArguments(layout, mmap.mmap(-1, layout.size)).arguments\n"
        "ctypes.string_at(x.data_ptr(), 64)\n"
        "print('inside', flush=True)\n"
        "ctypes.string_at(x.data_ptr(), 65)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert done.stdout == b"inside\n"
    assert done.returncode == -11

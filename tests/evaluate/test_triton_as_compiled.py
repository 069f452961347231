"""Triton's interpreter as the compiler would: operations, published kernels, what cannot run."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Correctness, Guard, Target, Task
from benchmarks.judge.ordinary.windows import module
from tests.evaluate import triton_operations as operations
from tests.judging import Evaluated

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is for Linux"
)
TASK = Task(
    op="line",
    target=Target(backend="cpu", dsl="triton"),
    correctness=Correctness(trials=1),
    guard=Guard(level="warn"),
)
REFERENCE = module("x", "return 3 * x + 1", "torch.randn(300, device='cuda')")
TUNED = """
import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"SIZE": n}, num_warps=w) for n in SIZES for w in (2, 4)], key=["count"],
    prune_configs_by={"early_config_prune": lambda all, *_, **named: PRUNED},
)
@triton.heuristics({"EVEN": lambda args: args["count"] % args["SIZE"] == 0})
@triton.jit
def line(x, y, count, slope, SIZE: tl.constexpr, EVEN: tl.constexpr):
    tl.static_assert(SIZE < 512, "too large")
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = at < count and at >= 0
    if EVEN:
        v = tl.load(x + at)
    else:
        v = tl.load(x + at, mask=inside)
    tl.store(y + at, slope.to(tl.float32) * v + 1, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        assert x.is_cuda and x.device.type == "cuda"
        x = x.contiguous()
        y = torch.empty(x.shape, device="cuda")
        with torch.cuda.device(x.device.index):
            line[lambda meta: (triton.cdiv(x.numel(), meta["SIZE"]),)](x, y, x.numel(), 3.0)
        torch.cuda.synchronize()
        return y
"""


def tuned(sizes: str, pruned: str = "all", changed: tuple[str, str] = ("", "")) -> str:
    return TUNED.replace("SIZES", sizes).replace("PRUNED", pruned).replace(*changed)


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    """The outcome of each operation and published kernel, from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.evaluate.triton_operations"],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", operations.names())
def test_the_interpreter_does_as_the_compiler(name: str, compared: dict[str, Any]) -> None:
    found = compared[name]
    if name in operations.REFUSED:
        assert found.startswith(operations.REFUSED[name][1])
    elif isinstance(found, float):
        assert found < 0.015
    else:
        assert not found


WRONG_FROM_64 = "slope.to", "(slope + (SIZE == 64)).to"
CONVERTED = "slope.to(tl.float32)"
CUBLAS = "from triton._C.libtriton import nvidia\nblas = nvidia.cublas.CublasLt(torch.empty(8))\n"


@pytest.mark.parametrize(
    ("kernel", "failure", "says"),
    [
        (tuned("(32, 64)"), None, "verified only"),
        (tuned("(32, 512)"), None, "verified only"),
        (tuned("(16, 32, 64)", changed=WRONG_FROM_64), FailureKind.WRONG, "line: SIZE=64)"),
        (tuned("(32, 48)"), FailureKind.CALL, "(configuration of line: SIZE=48)"),
        (tuned("(512, 1024)"), FailureKind.CALL, "of line has a valid launch: SIZE=512: static"),
        (tuned("(32, 64)", "[]"), FailureKind.CALL, "No valid autotuner configs after pruning"),
        (
            tuned("(32, 64)", changed=("triton.cdiv(x", "torch.cuda.CUDAGraph() or triton.cdiv(x")),
            FailureKind.UNSUPPORTED,
            "could not run here: CUDA graphs need a GPU",
        ),
        (
            tuned("(32,)", changed=("import triton.language", CUBLAS + "import triton.language")),
            FailureKind.UNSUPPORTED,
            "kernel.py:5: could not run here: cuBLAS needs a GPU",
        ),
        (
            tuned("(32,)", changed=(CONVERTED, "tl.extra.cuda.smid() + 3.0")),
            FailureKind.UNSUPPORTED,
            "kernel.py:21: could not run here: Triton's interpreter has no inline_asm",
        ),
        (
            tuned("(32,)", changed=("at < count and at >= 0", "0 <= at < count")),
            FailureKind.BUILD,
            "kernel.py:16: Triton does not compile: simultaneous multiple comparison",
        ),
    ],
    ids=[
        "every configuration",
        "one does not launch",
        "one is wrong",
        "one does not run",
        "none launches",
        "all pruned",
        "graphs",
        "a library of CUDA",
        "assembly",
        "chained",
    ],
)
def test_each_configuration_is_verified_and_the_reason_is_one_line(
    evaluated_in_triton: Evaluated, kernel: str, failure: FailureKind | None, says: str
) -> None:
    found = evaluated_in_triton(TASK, REFERENCE, kernel)
    assert found.failure is failure, found
    assert found.outcome is (Outcome.FAILED if failure else Outcome.CORRECT)
    assert says in found.message
    assert "\n" not in found.message

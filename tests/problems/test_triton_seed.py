"""`--seed inductor` in Triton: what torch.compile generates for a GPU, on a machine without one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from akg_tui.core.kernel.knobs import find_knobs
from akg_tui.core.measurement import Outcome
from akg_tui.core.task import Target, Task
from akg_tui.engine.task_draft import NewTask
from akg_tui.engine.task_making import make_task
from akg_tui.problems.inductor.generated import Generated, Given, TritonConfig, TritonFunction
from akg_tui.problems.inductor.module import NoSeed
from akg_tui.problems.inductor.seed import kernel_of
from akg_tui.sizing.size_probe import SizeProbe
from akg_tui.store.task_folder import TaskFolder
from tests.judging import Evaluated

PROBLEM = """import torch
import torch.nn as nn

ROWS = 6


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 24)
        self.scale = torch.rand(24) + 0.5

    def forward(self, x):
        y = torch.exp(self.linear(x)) * self.scale
        return y / y.sum(-1, keepdim=True), y.sum(0)


def get_inputs():
    return [torch.randn(ROWS, 16)]


def get_init_inputs():
    return []
"""

# Run where `torch._inductor` can't be imported, by Triton's interpreter.
ALONE = """
import os, sys
os.environ["TRITON_INTERPRET"] = "1"
sys.modules["torch._inductor"] = None
import importlib.util
import torch
from akg_tui.dsl import triton_interpreter
triton_interpreter.install()
spec = importlib.util.spec_from_file_location("kernel", sys.argv[1])
kernel = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kernel)
torch.manual_seed(0)
reference = kernel.Model()
ours = kernel.ModelNew()
ours.load_state_dict(reference.state_dict())
ours.scale = reference.scale
for rows in (6, 5):
    x = torch.randn(rows, 16)
    for one, other in zip(ours(x), reference(x), strict=True):
        torch.testing.assert_close(one, other)
"""


@pytest.fixture(scope="module")
def generator() -> Iterator[SizeProbe]:
    task = Task(op="x", target=Target(dsl="triton", arch="sm_80"))
    with SizeProbe(task, generates=True) as running:
        yield running


def made(probe: SizeProbe, folder: Path, text: str, *, arch: str = "") -> TaskFolder:
    origin = folder.with_suffix(".py")
    origin.write_text(text)
    task = NewTask(
        folder=folder, origin=origin, inductor=True, own_seed=False, dsl="triton", arch=arch
    )
    return make_task(task, lambda _: None, probe)


def test_the_generated_triton_is_correct_tunable_and_runs_without_inductor(
    generator: SizeProbe, tmp_path: Path, evaluated_in_triton: Evaluated
) -> None:
    task = made(generator, tmp_path / "task", PROBLEM)
    kernel = task.kernel.text
    assert "Triton for sm_80" in kernel.splitlines()[1]
    readme = (tmp_path / "task" / "README.md").read_text()
    assert "- Triton is generated for sm_80\n" in readme
    knobs = {knob.name.partition("_")[0] for knob in find_knobs(kernel.splitlines())}
    assert {"XBLOCK", "WARPS"} <= knobs
    assert "MATH" in knobs
    ran = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path / "task" / "kernel.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = evaluated_in_triton(task.task, task.reference, kernel, timed=False, whole=True)
    assert found.outcome is Outcome.CORRECT, found.message


def test_an_arch_that_it_can_not_be_generated_for_is_told(
    generator: SizeProbe, tmp_path: Path
) -> None:
    made(
        generator,
        tmp_path / "task",
        PROBLEM.replace("y / y.sum(-1, keepdim=True), ", ""),
        arch="gfx942",
    )
    says = "Triton is generated for sm_80: the properties of gfx942 are not known"
    assert f"- {says}\n" in (tmp_path / "task" / "README.md").read_text()


def test_a_scan_has_its_own_inner_function(generator: SizeProbe, tmp_path: Path) -> None:
    text = PROBLEM.replace("y / y.sum(-1, keepdim=True), y.sum(0)", "torch.cumsum(y, 1)")
    kernel = made(generator, tmp_path / "task", text).kernel.text
    assert "tl.associative_scan(" in kernel
    assert "_triton_helper_fn" not in kernel.replace("0_triton_helper_fn", "")


MODEL = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x @ x).sum(-1)
"""

# Written as Inductor of torch 2.13 writes it.
RECORDINGS = Path(__file__).parents[1] / "recorded" / "inductor"
MODULE = (RECORDINGS / "triton.txt").read_text()

TEXT = """def triton_red_fused_exp_sum_0(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK, R0_BLOCK):
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        tmp1 = libdevice.exp(libdevice.tanh(tmp0))
        tmp2 = triton_helpers.maximum(tmp1, tmp0)
        tmp3 = _triton_helper_fn_add0(tmp2)"""

INNER = """@triton.jit
def _triton_helper_fn_add0(arg0):
    return arg0 + 1"""

HELPERS = """@triton.jit
def is_floating(x):
    return math.abs(x)


@triton.jit
def maximum(a, b):
    is_floating(a)
    return tl.maximum(a, b)"""

FUNCTION = TritonFunction(
    name="triton_red_fused_exp_sum_0",
    text=TEXT,
    inner=INNER,
    configs=(
        TritonConfig(blocks={"XBLOCK": 8, "R0_BLOCK": 64}, warps=2, stages=1),
        TritonConfig(blocks={"XBLOCK": 1, "R0_BLOCK": 64}, warps=4, stages=2),
    ),
    limits={"XBLOCK": 16, "R0_BLOCK": 64},
    grid="Grid1D",
)

RECORDED = Generated(
    module=MODULE,
    inputs=(Given(name="x", shape=(64, 64), stride=(64, 1), dtype="torch.float32"),),
    arguments=("x",),
    results=("results[0]",),
    returned=1,
    single=True,
    constants={},
    torch="2.13.0",
    arch="sm_90",
    functions=(FUNCTION,),
    helpers=HELPERS,
)


def changed(**values: Any) -> Generated:
    return replace(RECORDED, functions=(replace(FUNCTION, **values),))


def test_launches_of_inductor_become_launches_of_triton_with_knobs() -> None:
    kernel = kernel_of(RECORDED, MODEL, "p.py")
    assert kernel[kernel.index("    @torch.no_grad()") :] == (
        """    @torch.no_grad()
    def forward(self, x):
        if not fits(x, (64, 64), (64, 1), torch.float32):
            return super().forward(x)
        buf0 = torch.empty_strided((64, 64), (64, 1), dtype=torch.float32, device=x.device)
        # matmul: aten.mm
        torch.mm(x, x, out=buf0)
        buf0 = laid_out(buf0, (64, 1))
        buf1 = torch.empty_strided((64, ), (1, ), dtype=torch.float32, device=x.device)
        triton_red_fused_exp_sum_0[(triton.cdiv(64, XBLOCK),)](
            buf0, buf1, 64, 64,
            XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=WARPS, num_stages=STAGES,
        )
        del buf0
        return buf1
"""
    )
    assert "def laid_out(tensor, stride):" in kernel
    knobs = {knob.name: (knob.value, knob.choices) for knob in find_knobs(kernel.splitlines())}
    assert knobs == {
        "MATH": ("libdevice", ("libdevice", "triton")),
        "XBLOCK": (8, (1, 2, 4, 8, 16)),
        "R0_BLOCK": (64, (16, 32, 64)),
        "WARPS": (2, (1, 2, 4, 8)),
        "STAGES": (1, (1, 2, 3, 4)),
    }


def test_what_a_function_calls_has_names_that_no_reference_has() -> None:
    kernel = kernel_of(RECORDED, MODEL, "p.py")
    assert "tmp1 = special.exp(libdevice.tanh(tmp0))" in kernel
    assert "tmp2 = helper_maximum(tmp1, tmp0)" in kernel
    assert "def helper_is_floating(x):\n    return tl_math.abs(x)" in kernel
    assert "    helper_is_floating(a)\n    return tl.maximum(a, b)" in kernel
    own = "triton_red_fused_exp_sum_0_triton_helper_fn_add0"
    assert f"@triton.jit\ndef {own}(arg0):" in kernel
    assert f"tmp3 = {own}(tmp2)" in kernel
    assert "from triton.language import math as tl_math" in kernel
    with pytest.raises(NoSeed, match="the reference binds special, a name that the kernel needs"):
        kernel_of(RECORDED, MODEL.replace("class Model", "special = 1\n\n\nclass Model"), "p.py")
    with pytest.raises(NoSeed, match="the reference binds XBLOCK, a name that the kernel needs"):
        kernel_of(RECORDED, MODEL.replace("class Model", "XBLOCK = 1\n\n\nclass Model"), "p.py")


@pytest.mark.parametrize(
    ("grid", "launched"),
    [
        ("Grid2D", "(triton.cdiv(64, XBLOCK), triton.cdiv(64, YBLOCK))"),
        ("Grid2DWithYZOverflow", "programs(triton.cdiv(64, XBLOCK), triton.cdiv(64, YBLOCK))"),
    ],
)
def test_grids_of_two_dimensions(grid: str, launched: str) -> None:
    configs = (TritonConfig(blocks={"XBLOCK": 8, "YBLOCK": 8}, warps=2, stages=1),)
    text = TEXT.replace("r0_numel, XBLOCK, R0_BLOCK", "ynumel, XBLOCK, YBLOCK")
    kernel = kernel_of(changed(grid=grid, configs=configs, text=text), MODEL, "p.py")
    assert f"triton_red_fused_exp_sum_0[{launched}](" in kernel
    assert ("def programs(x, y):" in kernel) == ("programs" in launched)


@pytest.mark.parametrize(
    ("generated", "says"),
    [
        (changed(grid="SplitScanGrid"), "on a SplitScanGrid"),
        (changed(text=TEXT.replace("r0_numel, X", "X")), "with 4 arguments"),
        (changed(grid="Grid2D"), "has no size for the grid of triton_red_fused_exp_sum_0"),
        (changed(text="x = 1"), "has no function triton_red_fused_exp_sum_0"),
        (
            replace(RECORDED, module=MODULE.replace("compile.triton(", "compile.cpp_pybinding(")),
            "a kernel of cpp_pybinding and not of Triton",
        ),
    ],
)
def test_what_can_not_run_without_inductor_is_refused(generated: Generated, says: str) -> None:
    with pytest.raises(NoSeed, match="the generated code") as refused:
        kernel_of(generated, MODEL, "p.py")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)

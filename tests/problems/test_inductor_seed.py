"""`--seed inductor`: what torch.compile generates, as one file that stands alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from akg_tui.core.kernel.knobs import find_knobs
from akg_tui.engine.task_draft import NewTask
from akg_tui.engine.task_making import make_task
from akg_tui.problems.inductor.generated import Generated, Given
from akg_tui.problems.inductor.module import NoSeed
from akg_tui.problems.inductor.seed import kernel_of
from akg_tui.sizing.size_probe import SizeProbe
from akg_tui.store.errors import BadTask
from akg_tui.store.task_folder import TaskFolder
from tests.problems.conftest import SETS

PROBLEM = """import torch
import torch.nn as nn

WIDTH = 28


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, width), nn.BatchNorm1d(width))
        self.scale = torch.arange(1.0, width + 1)

    def forward(self, x, weight):
        y = torch.softmax(self.net(x) * self.scale, dim=-1)
        return y, y @ weight


def get_inputs():
    return [torch.randn(256, 16), torch.randn(WIDTH, 4)]


def get_init_inputs():
    return [WIDTH]
"""

# Run where `torch._inductor` can't be imported.
ALONE = """
import sys
sys.modules["torch._inductor"] = None
import torch
names = {"__name__": "kernel"}
exec(open(sys.argv[1]).read(), names)
torch.manual_seed(0)
reference = names["Model"](28)
kernel = names["ModelNew"](28)
kernel.load_state_dict(reference.state_dict())
for rows in (8, 5):
    x, weight = torch.randn(rows, 16), torch.randn(28, 4)
    for ours, wanted in zip(kernel(x, weight), reference(x, weight), strict=True):
        torch.testing.assert_close(ours, wanted)
means = [each.net[1].running_mean for each in (kernel, reference)]
torch.testing.assert_close(*means)
"""


def made(probe: SizeProbe | None, folder: Path, origin: Path, **wanted: Any) -> TaskFolder:
    task = NewTask(folder=folder, origin=origin, inductor=True, own_seed=False, **wanted)
    return make_task(task, lambda _: None, probe)


def test_the_generated_kernel_is_correct_tunable_and_runs_without_inductor(
    generator: SizeProbe, tmp_path: Path
) -> None:
    path = tmp_path / "p.py"
    path.write_text(PROBLEM)
    task = made(generator, tmp_path / "task", path)
    kernel = task.kernel.text
    head = kernel.splitlines()[:2]
    assert head[0] == "# The first kernel: what torch.compile generates for p.py, as one file."
    assert torch.__version__ in head[1]
    knobs = {knob.name for knob in find_knobs(kernel.splitlines())}
    assert knobs == {"OPTIMIZE", "MATH", "CONTRACT", "LOOPS", "EXP"}
    build = next(line for line in kernel.splitlines() if line.startswith("BUILD = "))
    assert all(f"{{{name}}}" in build for name in knobs)
    assert ".EXP()" in kernel
    assert "net_0_weight = self.net[0].weight" in kernel
    assert "scale = self.scale" in kernel
    # Not optimized, which is another's subject, and not kept in the user's cache.
    assert 'OPTIMIZE = "-O3"' in kernel
    (tmp_path / "alone.py").write_text(kernel.replace('OPTIMIZE = "-O3"', 'OPTIMIZE = "-O0"'))
    command = [sys.executable, "-c", ALONE, str(tmp_path / "alone.py")]
    kept = {**os.environ, "AKG_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=kept)
    assert ran.returncode == 0, ran.stderr
    assert task.task.target.dsl == "cpp"


def test_what_has_nothing_to_fuse_calls_the_library_and_says_so(
    generator: SizeProbe, tmp_path: Path
) -> None:
    path = tmp_path / "p.py"
    plain = PROBLEM.replace("torch.softmax(self.net(x) * self.scale, dim=-1)", "x @ weight.T")
    path.write_text(plain.replace("(256, 16)", "(256, 4)").replace("y, y @ weight", "y"))
    told: list[str] = []
    wanted = NewTask(folder=tmp_path / "task", origin=path, inductor=True, own_seed=False)
    task = make_task(wanted, told.append, generator)
    says = "torch.compile generates no code of its own: all is calls of torch's library"
    assert told[-1] == says
    assert says in (tmp_path / "task" / "README.md").read_text()
    assert task.task.target.dsl == "torch"
    assert "compile_cpp" not in task.kernel.text
    assert "torch.mm(" in task.kernel.text


NOT_GENERATED = [
    ("y = torch", "x = x if x.sum() > 0 else -x\n        y = torch", "p.py:14: torch.compile"),
    ("dim=-1)", "dim=-1).clone()\n        torch._dynamo.graph_break()", "p.py:15: torch.comp"),
    ("self.scale,", "self.scale + library,", "p.py:14: NameError: "),
]


def test_what_can_not_be_generated_is_told_in_a_line_and_nothing_is_written(
    generator: SizeProbe, tmp_path: Path
) -> None:
    path = tmp_path / "p.py"
    for old, new, says in NOT_GENERATED:
        assert old in PROBLEM
        path.write_text(PROBLEM.replace(old, new))
        with pytest.raises(BadTask) as refused:
            made(generator, tmp_path / "task", path)
        said = str(refused.value)
        assert says in said
        assert "\n" not in said
        assert not (tmp_path / "task").exists()


@pytest.mark.parametrize(
    ("wanted", "compiler", "says"),
    [
        ({"dsl": "torch"}, ["g++"], "or Triton's interpreter (cpu), not torch for cpu"),
        ({"backend": "cuda", "dsl": "cpp"}, ["g++"], "not cpp for cuda"),
        ({"backend": "ascend"}, ["g++"], "not cpp for ascend"),
        ({}, [], "it needs a C++ compiler, such as g++"),
    ],
)
def test_what_it_can_not_write_for_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    wanted: dict[str, Any],
    compiler: list[str],
    says: str,
) -> None:
    monkeypatch.setattr("akg_tui.dsl.compilers.find_compiler", lambda: compiler)
    monkeypatch.setattr("akg_tui.engine.task_making.SizeProbe", None)
    with pytest.raises(BadTask) as refused:
        made(None, tmp_path / "task", SETS / "kernelbench" / "4_softmax.py", **wanted)
    assert str(refused.value).endswith(says)


MODEL = """from __future__ import annotations

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x @ x), x
"""

# Written as Inductor of torch 2.13 writes it.
RECORDINGS = Path(__file__).parents[1] / "recorded" / "inductor"
MODULE = (RECORDINGS / "cpp.txt").read_text()

RECORDED = Generated(
    module=MODULE,
    inputs=(Given(name="x", shape=(2, 2), stride=(2, 1), dtype="torch.float32"),),
    arguments=("x",),
    results=("results[0]", "x"),
    returned=1,
    single=False,
    constants={},
    torch="2.13.0",
    isa="avx2",
    macro="CPU_CAPABILITY_AVX2",
    options=("O3", "g1", "shared", "fopenmp", "fmath-errno", "march=native", "std=c++20"),
)


def test_calls_of_inductor_become_calls_of_torch_and_of_the_compiled_library() -> None:
    kernel = kernel_of(RECORDED, MODEL, "p.py")
    body = kernel[kernel.index("    @torch.no_grad()") :]
    assert body == (
        """    @torch.no_grad()
    def forward(self, x):
        if not fits(x, (2, 2), (2, 1), torch.float32):
            return super().forward(x)
        buf0 = torch.empty_strided((2, 2), (2, 1), dtype=torch.float32)
        # matmul: aten.mm
        torch.mm(x, view(x, (2, 2), (2, 1), 0), out=buf0)
        assert buf0.stride() == (2, 1)  # as the code expects it
        buf1 = buf0; del buf0  # reuse
        library.cpp_fused_relu_0(buf1.data_ptr(), 4)
        return buf1, x
"""
    )
    assert "library.cpp_fused_relu_0.argtypes = [c_void_p, c_int64]" in kernel
    assert "from __future__" in kernel.partition("import torch")[0]
    flags = kernel.partition("FLAGS = (")[2].partition(")")[0]
    assert flags.split() == ['"-std=c++20', "-march=native", "-DCPU_CAPABILITY_AVX2", '"']
    assert [knob.name for knob in find_knobs(kernel.splitlines())] == ["OPTIMIZE", "MATH"]


def test_the_cpp_loses_casts_of_indices_only() -> None:
    kernel = kernel_of(RECORDED, MODEL, "p.py")
    source = kernel.partition('SOURCE = r"""')[2].partition('"""')[0]
    assert "auto tmp0 = in_out_ptr0[x1 + 4L*x0] + static_cast<int64_t>(tmp3);" in source
    assert "auto tmp1 = Vectorized<int>::loadu(x0, 8L);" in source
    assert "if(x0 >= 0L && x0 < 32L)\n" in source


def test_a_constant_that_the_code_uses_is_written_out() -> None:
    module = MODULE.replace("extern_kernels.mm(arg0_1, ", "extern_kernels.mm(_tensor_constant0, ")
    constants = {"_tensor_constant0": "torch.tensor([1.0, inf], dtype=torch.float32)"}
    kernel = kernel_of(replace(RECORDED, module=module, constants=constants), MODEL, "p.py")
    assert "\n_tensor_constant0 = torch.tensor([1.0, inf], dtype=torch.float32)\n" in kernel
    assert "from math import inf, nan" in kernel
    assert "_tensor_constant0" not in kernel_of(replace(RECORDED, constants=constants), MODEL, "p")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("extern_kernels.mm", "extern_kernels.fancy", "calls fancy, a function of torch._inductor"),
        ("extern_kernels.mm", "torch.ops.inductor.mm", "uses inductor, a part of torch._inductor"),
        ("extern_kernels.mm", "run_hooks", "uses run_hooks, a part of torch._inductor"),
        ("cpp_pybinding(", "triton(", "has a kernel of triton, which is no C++"),
        ("arg0_1, = args", "arg0_1, s0 = args", "has other arguments than the model's graph"),
        ("return (buf1, )", "return (buf1, buf1)", "returns other tensors than the model's graph"),
        ("mm(arg0_1, ", "mm(_tensor_constant0, ", "needs _tensor_constant0, whose values are not"),
        ("(buf1, 4)", "(buf1)", "calls cpp_fused_relu_0 with 1 arguments"),
        ("'const int64_t'", "'Strange'", "has an argument of unknown type"),
        ("runner = Runner()", "runner = Runner(", "is no Python: "),
    ],
)
def test_what_has_no_counterpart_outside_of_inductor_is_refused(
    old: str, new: str, says: str
) -> None:
    assert old in MODULE
    with pytest.raises(NoSeed, match="the generated code") as refused:
        kernel_of(replace(RECORDED, module=MODULE.replace(old, new)), MODEL, "p.py")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_names_of_the_reference_that_the_kernel_needs_itself_are_refused() -> None:
    with pytest.raises(NoSeed, match="the reference binds library, a name that the kernel needs"):
        kernel_of(RECORDED, MODEL.replace("class Model", "library = 1\n\n\nclass Model"), "p.py")
    given = replace(RECORDED.inputs[0], name="view")
    with pytest.raises(NoSeed, match="has a parameter view, a name that generated code uses"):
        kernel_of(replace(RECORDED, inputs=(given,), arguments=("view",)), MODEL, "p.py")


def test_weights_get_names_of_their_own() -> None:
    weights = ("self.x", "self.net[0].weight", "self._modules['0']", "self.buf1")
    module = MODULE.replace("arg0_1, = args", "arg0_1, arg1_1, arg2_1, arg3_1, arg4_1 = args")
    module = module.replace("mm(arg0_1, ", "mm(arg1_1 + arg2_1 + arg3_1 + arg4_1, ")
    changed = replace(RECORDED, module=module, arguments=("x", *weights))
    kernel = kernel_of(changed, MODEL, "p.py")
    assert "torch.mm(x_ + net_0_weight + _modules_0 + weight_buf1, " in kernel
    assert "        x_ = self.x\n        net_0_weight = self.net[0].weight\n" in kernel

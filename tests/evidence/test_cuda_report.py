"""The compile report of CUDA C++: recorded output of nvcc 13.5, and a whole report with a fake."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.task import Target, Task
from akg_tui.dsl import compilers
from akg_tui.evidence import asking, compile_report
from akg_tui.evidence.compile_report import CompileFor, CompileReport, Launch
from akg_tui.evidence.cuda import cuda_process
from akg_tui.evidence.cuda.launch_recorder import Noted
from akg_tui.evidence.gpu.assembly import Entry, Instructions, Resources, read_entries
from tests.dsl import fake_nvcc
from tests.dsl.fake_nvcc import RECORDED
from tests.evaluate import cuda_kernels as kernels
from tests.evidence.test_compile_report import REFERENCE

REAL = compilers.find_nvcc()
TASK = Task(op="softmax", target=Target(backend="cuda", dsl="cuda_cpp"))

SCALING = (
    'import torch\nfrom akg_tui.dsl import compile_cuda\n\nSOURCE = r"""\n'
    + (RECORDED / "scale.cu").read_text()
    + '''"""
library = compile_cuda(SOURCE, ["scaled"], "-O3")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        for _ in range(2):
            library.scaled(x, y, x.numel(), 2.0, 7)
        library.scaled(x, y, x.numel(), 2.0, 0)
        return y
'''
)


def test_a_kernel_of_a_module_has_its_own_instructions_and_resources() -> None:
    ptx = (RECORDED / "scale.ptx").read_text()
    log = (RECORDED / "scale.ptxas.txt").read_text()
    (entry,) = read_entries(ptx, log).values()
    assert entry.resources == Resources(26, 0)
    assert (entry.shared, entry.most_threads) == (1024, 256)
    assert entry.instructions.loads == {128: 1}
    assert entry.instructions.stores == {32: 4}
    assert entry.instructions.barriers == 2
    # Another kernel and a function that was not inlined, before and after it.
    func = ".func  (.param .b32 r) _Z1gf(\n\t.param .b32 a\n)\n{\n\tst.global.f32 [%rd1], %f1;\n}\n"
    more = func + ptx.partition(".address_size 64")[2].replace("scale", "other") + func
    logs = log + log.replace("'scale'", "'other'").replace("26 registers", "40 registers").replace(
        "0 bytes spill stores", "8 bytes spill stores"
    )
    found = read_entries(ptx + more, logs)
    assert found["scale"] == entry
    assert found["other"].resources == Resources(40, 8)
    assert found["other"].instructions == entry.instructions


def test_a_kernel_in_several_files_has_its_lines_in_the_one_that_holds_the_cuda(
    tmp_path: Path,
) -> None:
    source = (RECORDED / "scale.cu").read_text()
    kernel = KernelFiles({"kernel.py": "import torch\n\n# reads scale.cu\n", "scale.cu": source})
    request = CompileFor(
        reference="", reference_name="reference.py", kernel=kernel, threads=1, arches=("sm_90",),
    )  # fmt: skip
    recorder = cuda_process.Recorder(request, tmp_path)
    line = recorder._line(source, "scale")
    assert kernel.page.splitlines()[line - 1][:6] == "scale("
    launch = Launch(kernel="k", line=line, arguments=(), constants=(), grid=(1,))
    report = CompileReport(launches=(launch,), files=kernel.before)
    (told,) = compile_report.fields(report, "kernel.py")["kernels"]  # type: ignore[misc]
    file, _, number = told["place"].partition(":")
    assert (file, source.splitlines()[int(number) - 1][:6]) == ("scale.cu", "scale(")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"grid": (7, 0, 1)}, "a size is 0"),
        ({"grid": (7, 65536, 1)}, "the grid has 65536 blocks in y, the limit is 65535"),
        ({"block": (1, 1, 65)}, "the block has 65 threads in z, the limit is 64"),
        (
            {"block": (300, 1, 1)},
            "a block has 300 threads, and __launch_bounds__ states at most 256",
        ),
        ({"shared": 47 << 10}, ""),
        (
            {"shared": 48 << 10},
            "more than 48 KiB a block must be allowed with cudaFuncSetAttribute",
        ),
        ({"shared": 48 << 10, "allowed": 48 << 10}, ""),
    ],
)
def test_a_launch_that_the_runtime_refuses_is_told(change: dict[str, object], says: str) -> None:
    entry = Entry(Instructions(0, {}, {}, {}, 0), None, shared=1024, most_threads=256)
    noted = Noted("k", "k()", (7, 1, 1), (256, 1, 1), 0, 0)._replace(**change)  # type: ignore[arg-type]
    why = cuda_process._refused(noted, entry)
    assert says in why
    assert bool(why) is bool(says)


async def test_launches_are_noted_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way through the sandbox, with a contract fake of nvcc."""
    script = tmp_path / "bin" / "nvcc"
    script.parent.mkdir()
    for name in ("dsl/fake_nvcc.py", "recorded/nvcc/scale.ptx", "recorded/nvcc/scale.ptxas.txt"):
        copied = tmp_path / "bin" / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes((Path(fake_nvcc.__file__).parents[1] / name).read_bytes())
    fake = tmp_path / "bin/dsl/fake_nvcc.py"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{fake}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("NVCC", str(script))
    found = await asking.compile_report(TASK, REFERENCE, SCALING, ["sm_80", "sm_90"])
    assert found.stopped == ""
    assert [(each.kernel, each.grid, each.launches) for each in found.launches] == [
        ("scale", (7, 1, 1), 2), ("scale", (0, 1, 1), 1),
    ]  # fmt: skip
    good, empty = found.launches
    assert SCALING.splitlines()[good.line - 1].startswith("scale(const float *x")
    for each in good.compiled:
        assert (each.warps, each.shared, each.refused) == (8, 2048, "")
        assert each.resources == Resources(26, 0)
    assert "a size is 0" in empty.compiled[0].refused
    lines = "\n".join(compile_report.as_lines(found, "kernel.py"))
    assert "kernel.py:8 scale: grid 7x1x1, 2 launches" in lines
    assert "26 registers; 0 bytes spilled; 256 threads (8 warps); 2048 bytes of shared" in lines
    wrong = SCALING.replace("v.x;", "missing_name;")
    found = await asking.compile_report(TASK, REFERENCE, wrong, ["sm_90"])
    (failed,) = found.launches
    assert "missing_name" in wrong.splitlines()[failed.line - 1]
    assert "missing_name" in failed.compiled[0].failed
    assert "missing_name" in found.stopped


@pytest.mark.skipif(not REAL, reason="nvcc is not here")
async def test_the_real_nvcc_compiles_what_a_template_launches() -> None:
    found = await asking.compile_report(TASK, REFERENCE, kernels.GOOD, ["sm_90"])
    assert found.stopped == ""
    (launch,) = found.launches
    assert (launch.kernel, launch.grid) == ("softmax_rows<128>", (6, 1, 1))
    assert launch.arguments == ("float const*", "float*", "int")
    for each in launch.compiled:
        assert (each.warps, each.shared, each.refused) == (4, 512, "")
        assert each.instructions is not None
        assert set(each.instructions.loads) == {128}
        assert each.resources is not None
        assert each.resources.registers > 16

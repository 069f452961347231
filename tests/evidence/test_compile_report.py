"""What Triton's compiler tells of kernels for GPUs that are not here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.task import Target, Task
from akg_tui.dsl.gpu_arches import ARCHES, Occupancy, occupancy
from akg_tui.evidence import asking, compile_report, page
from akg_tui.evidence.compile_report import Compiled, CompileFor, CompileReport, Launch
from akg_tui.evidence.gpu.assembly import (
    Instructions,
    Resources,
    ptxas_remarks,
    read_amdgcn,
    read_ptx,
    read_ptxas,
)
from tests.evaluate.triton_kernels import REFERENCE

RECORDED = Path(__file__).parents[1] / "recorded" / "gpu"
PTX = (RECORDED / "attend.ptx").read_text()
PTXAS = (RECORDED / "big.ptxas.txt").read_text()
AMDGCN = (RECORDED / "attend.amdgcn").read_text()


def test_widths_matrix_instructions_and_barriers_are_read_from_ptx() -> None:
    found = read_ptx(PTX)
    assert found.loads == {128: 2, 32: 1}
    assert found.stores == {32: 1}
    assert found.vectorized == 0.5
    assert (found.barriers, found.bulk) == (1, 1)
    assert found.matrix == {
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16": 1,
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": 1,
        "tcgen05.mma.cta_group::1.kind::f16": 1,
    }
    assert found.total == 24


def test_registers_and_spills_are_read_from_the_log_of_ptxas() -> None:
    assert read_ptxas(PTXAS) == Resources(32, 34188)
    assert read_ptxas("ptxas fatal: no such file") is None


def test_what_ptxas_warns_of_is_told_once() -> None:
    said = "wgmma.mma_async instructions are serialized due to insufficient register resources"
    log = f"ptxas-blackwell info    : (C7511) Potential Performance Loss: {said}\n"
    assert ptxas_remarks(PTXAS) == ()
    assert ptxas_remarks(log * 2 + PTXAS) == (said,)


def test_amds_assembly_has_the_same_facts() -> None:
    found, resources = read_amdgcn(AMDGCN)
    assert resources == Resources(119, 12, waves=4)
    assert (found.loads, found.stores) == ({128: 1, 16: 1, 8: 1}, {64: 1})
    assert (found.matrix, found.barriers) == ({"v_mfma_f32_32x32x8_f16": 1}, 1)
    assert found.total == 17


@pytest.mark.parametrize(
    ("arch", "warps", "registers", "shared", "waves", "expected"),
    [
        # 77 registers are 2560 a warp: 25 warps fit, 24 of them by fours.
        ("sm_80", 4, 77, 12288, None, Occupancy(6, 24 / 64, ("registers",))),
        ("sm_80", 4, 32, 0, None, Occupancy(16, 1.0, ("threads", "registers"))),
        ("sm_80", 1, 16, 0, None, Occupancy(32, 0.5, ("blocks",))),
        ("sm_89", 8, 32, 0, None, Occupancy(6, 1.0, ("threads",))),
        # Two blocks of 113 KiB and their reserved KiB are the 228 KiB of an SM.
        ("sm_90", 4, 32, 113 << 10, None, Occupancy(2, 8 / 64, ("shared memory",))),
        ("sm_90", 4, 32, (113 << 10) + 1, None, Occupancy(1, 4 / 64, ("shared memory",))),
        ("gfx942", 4, 119, 4096, 4, Occupancy(4, 0.5, ("registers",))),
        ("gfx942", 4, 32, (21 << 10) + 1, 8, Occupancy(2, 0.25, ("shared memory",))),
        ("gfx942", 4, 32, 32 << 10, 8, Occupancy(2, 0.25, ("shared memory",))),
    ],
)
def test_occupancy_is_that_of_the_scarcest_resource(
    *, arch: str, warps: int, registers: int, shared: int, waves: int | None, expected: Occupancy
) -> None:
    found = occupancy(ARCHES[arch], warps=warps, registers=registers, shared=shared, waves=waves)
    assert found == expected


def test_the_report_says_what_does_not_fit_and_shows_no_control_characters() -> None:
    code = Instructions(3, {128: 1}, {32: 1}, {}, 0)
    too_much = Compiled(
        arch="sm_80",
        warps=4,
        stages=3,
        shared=200_000,
        instructions=code,
        resources=Resources(40, 8),
    )
    refused = Compiled(arch="sm_90", failed="no \x1b[31mdot", line=7)
    launch = Launch(
        kernel="k\x1b[2J", line=5, arguments=("x *fp32",), constants=("B=\x07",), grid=(2, 3),
        compiled=(too_much, refused),
    )  # fmt: skip
    report = CompileReport(compiler="Triton 3", launches=(launch,), stopped="kernel.py:9: no\n")
    text = "\n".join(compile_report.as_lines(report, "kernel.py"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "a block needs 200000 bytes, and sm_80 has 166912" in text
    assert "40 registers; 8 bytes spilled; 128 threads (4 warps, 3 stages)" in text
    assert "global loads 1 of 128 bits; stores 1 of 32 bits (50% by 128 bits)" in text
    assert "sm_90: does not compile: kernel.py:7: no" in text
    assert "occupancy" not in text
    long = CompileReport(launches=tuple(launch for _ in range(24)))
    assert len(compile_report.as_lines(long, "kernel.py")) == compile_report.MOST_LINES


def test_what_lies_in_a_second_file_is_named_by_that_file() -> None:
    fine = Compiled(arch="sm_90", warps=4)
    failed = Compiled(arch="sm_80", failed="no such type", line=50)
    launch = Launch(
        kernel="k", line=48, arguments=(), constants=(), grid=(2,), compiled=(fine, failed)
    )
    report = CompileReport(launches=(launch,), files={"kernel.py": 0, "rows.py": 40})
    text = "\n".join(compile_report.as_lines(report, "kernel.py"))
    assert "rows.py:8 k: grid 2" in text
    assert "sm_80: does not compile: rows.py:10: no such type" in text
    refused = compile_report.cannot_run(report, "sm_80", "kernel.py")
    assert refused
    assert refused.reason.endswith("rows.py:10: no such type")
    assert refused.place == ("rows.py", 10)


@pytest.mark.parametrize(("arch", "asked"), [("gfx942", ("gfx942",)), ("zen4", ("sm_80", "sm_90"))])
async def test_the_agents_profile_of_a_triton_kernel_has_the_report(
    arch: str, asked: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[CompileFor] = []

    async def answer(
        module: str, task: Task, request: CompileFor, *_: object, **__: object
    ) -> CompileReport:
        requests.append(request)
        if "lost" in str(request.kernel):
            raise asking.Lost("it took longer than 90 s")
        return CompileReport(compiler="Triton 3")

    async def no_roofs(*_: object) -> tuple[()]:
        return ()

    monkeypatch.setattr(asking, "_confined", answer)
    monkeypatch.setattr(asking, "roofs", no_roofs)
    task = Task(op="softmax", target=Target(backend="cpu", dsl="triton", arch=arch))
    measured = Measurement(outcome=Outcome.CORRECT)
    told = page.fields(await asking.evidence(task, REFERENCE, "fine"), measured, "kernel.py")
    assert told["compile_report"] == ["compile report by Triton 3; nothing ran on a device"]
    told = page.fields(await asking.evidence(task, REFERENCE, "lost"), measured, "kernel.py")
    assert "compile_report" not in told
    assert "it took longer" in str(told["left_out"])
    assert [each.arches for each in requests] == [asked, asked]


KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def largest(x):
    return tl.max(x, axis=0)


@triton.jit
def twice_too_long(x, N: tl.constexpr):
    return tl.reshape(x, (2 * N,))


@triton.autotune([triton.Config({}, num_warps=w) for w in (1, 2)], key=["columns"])
@triton.jit
def rows_of(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * columns + at, mask=at < columns, other=-1e9)
    powers = tl.exp(x - largest(x))
    y = powers / tl.sum(powers, axis=0)
    tl.store(y_ptr + tl.program_id(0) * columns + at, y, mask=at < columns)


@triton.jit
def broken(x_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, twice_too_long(tl.load(x_ptr + at), BLOCK))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        for _ in range(2):
            rows_of[lambda meta: (x.shape[0],)](x, y, x.shape[1], BLOCK=64)
        # Only with right values of the launches before does the forward come to this one.
        if torch.allclose(y, torch.softmax(x, -1)):
            broken[(1,)](y, BLOCK=64)
        return y
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is for Linux")
async def test_each_launch_is_compiled_for_each_arch_and_interpreted() -> None:
    task = Task(op="softmax", target=Target(backend="cpu", dsl="triton"))
    found = await asking.compile_report(task, REFERENCE, KERNEL, ["sm_80", "gfx942"])
    chosen, other, broken = found.launches
    assert [chosen.kernel, other.kernel, broken.kernel] == ["rows_of", "rows_of", "broken"]
    assert (chosen.launches, other.launches, chosen.grid) == (2, 0, (6,))
    assert chosen.arguments == (
        "x_ptr *fp32 divisible by 16", "y_ptr *fp32 divisible by 16", "columns i32 divisible by 16",
    )  # fmt: skip
    assert chosen.constants == ("BLOCK=64",)
    assert KERNEL.splitlines()[chosen.line - 1].startswith("def rows_of")
    for one, two in zip(chosen.compiled, other.compiled, strict=True):
        assert (one.warps, two.warps) == (1, 2)
        for each in (one, two):
            assert each.resources is not None
            assert each.instructions is not None
            assert 0 < each.resources.registers < 100
            assert each.resources.spilled == 0
            assert sum(each.instructions.loads.values()) >= 1
            assert sum(each.instructions.stores.values()) >= 1
    for each in broken.compiled:
        assert KERNEL.splitlines()[each.line - 1] == "    return tl.reshape(x, (2 * N,))"
        assert "reshape" in each.failed
    assert "reshape" in found.stopped


ONLY_ON_A_GPU = """
import torch
import triton
import triton.language as tl
from triton.language.extra.libdevice import tanh
exp = tl.exp
properties = triton.runtime.driver.active.utils.get_device_properties(0)

@triton.jit
def timed(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at) + tl.extra.cuda.globaltimer() % 1)

@triton.jit
def line(x, y, columns, slope, N: tl.constexpr):
    at = tl.arange(0, N)
    row = tl.program_id(0)
    inside = at < columns and not at < 0
    v = tl.load(x + row * columns + at, mask=inside)
    v = tanh(exp(v.to(tl.float32))) * slope.to(tl.float32)
    tl.store(y + row * columns + at, v, mask=inside)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        assert x.is_cuda and torch.cuda.get_device_capability() == (9, 0)
        y = torch.empty_like(x, device="cuda")
        with torch.cuda.device(x.device):
            timed[(1,)](x, y, N=16)
            kernel = line.warmup(x, y, x.shape[1], 3.0, N=64, grid=(1,))
            kernel._init_handles()
            programs = min(properties["multiprocessor_count"], x.shape[0])
            kernel[(programs,)](x, y, x.shape[1], 3.0)
        return y
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is for Linux")
@pytest.mark.asyncio
async def test_what_cannot_run_here_is_compiled_all_the_same() -> None:
    task = Task(op="softmax", target=Target(backend="cpu", dsl="triton"))
    found = await asking.compile_report(task, REFERENCE, ONLY_ON_A_GPU, ["sm_90"])
    assert [(each.kernel, each.launches) for each in found.launches] == [("timed", 1), ("line", 1)]
    assert all(each.compiled[0].resources for each in found.launches), found
    assert found.stopped.startswith("timed: could not run here: ")

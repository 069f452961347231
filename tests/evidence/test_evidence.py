"""What binds a kernel: machine code, remarks and the roofline."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from akg_tui.core.measurement import CaseTiming, Measurement, Outcome
from akg_tui.core.task import Case, ReferenceChanges, Target, Task
from akg_tui.evaluate.targets.roofline import Level
from akg_tui.evidence import asking, page
from akg_tui.evidence.compile_report import MOST_LINES
from akg_tui.evidence.compiler_remarks import condensed, read_remarks
from akg_tui.evidence.disassembly import find_loops, read_functions
from akg_tui.evidence.findings import (
    CaseWork,
    CodeFunction,
    CompilerRemark,
    Instruction,
    KernelFindings,
    Loop,
    MachineCode,
)
from akg_tui.evidence.machine_rates import Rates
from akg_tui.evidence.page import Evidence, page_lines
from akg_tui.evidence.roof import Roof
from akg_tui.evidence.source_lines import lines_in_file

RECORDED = Path(__file__).parents[1] / "recorded" / "cpu"
LISTING = (RECORDED / "scale.objdump.txt").read_text()


def functions() -> list[CodeFunction]:
    return read_functions(LISTING.splitlines(), lambda number: number + 100, "kernel.cpp")[0]


def test_a_listing_becomes_functions_with_labels_and_lines_of_the_kernels_file() -> None:
    (function,) = functions()
    assert function.name == "scale(float*, long)"
    rows = {row.text: row for row in function.rows}
    assert rows["vmulps (%rdi),%ymm1,%ymm2"] == Instruction("vmulps (%rdi),%ymm1,%ymm2", 105, ".1")
    assert rows["jne .1"].line == 105
    # An instruction that came from a header belongs to the statement before it.
    assert rows["vxorps %xmm0,%xmm0,%xmm0"].line == 104
    assert "call expf@plt" in rows
    assert function.rows[-1].text == "ret"  # no padding, nothing of the linker's


def test_the_hot_loop_is_the_innermost_one_with_the_most_packed_instructions() -> None:
    hot, rest = find_loops(functions())
    assert (hot.packed, hot.vector, hot.lines) == (2, 2, (105,))
    assert (rest.packed, rest.lines) == (0, (106,))


def test_a_listing_is_cut_at_its_bound() -> None:
    long = ["0000000000001000 <f>:", *(f"    {n:x}:\tnop" for n in range(4096, 14096))]
    long += ["    2710:\tret"]
    (function,), cut = read_functions(long, int, "kernel.cpp")
    assert len(function.rows) == 4000
    assert cut == 6001


def test_lines_are_found_where_the_file_puts_its_cpp_together() -> None:
    file = 'T = 4\nS = f"""\nint f() {{\n  return {T};\n}}\n"""\ng = compile_cpp(S)\n'
    assert lines_in_file(file, "\nint f() {\n  return 4;\n}\n") == [2, 3, 4, 5]
    assert lines_in_file(file, "void other() {}\n") == [0]


GCC = (RECORDED / "remarks.txt").read_text()


def test_remarks_are_told_once_at_the_lines_of_the_kernels_file() -> None:
    found = read_remarks(GCC.splitlines(), lambda number: number + 10, "kernel.cpp")
    assert found == [
        CompilerRemark(17, "vectorized", "loop vectorized using 32 byte vectors"),
        CompilerRemark(18, "missed", "not vectorized: complicated access pattern."),
        CompilerRemark(19, "missed", "statement clobbers memory: f ();"),
    ]
    assert condensed(found, [17], 1) == [found[0]]
    assert condensed(found, [], 2) == found[1:]


LEVELS = [Level("L2", 1 << 20, 40e9), Level("L3", 1 << 24, 50e9), Level("memory", 1 << 62, 10e9)]
RATES = Rates(1, 100e9, 50e9)


def test_the_side_with_the_larger_least_time_binds() -> None:
    memory = Roof.of(CaseWork("", 32 << 20, 1 << 20), LEVELS, RATES, 1)
    assert (memory.binds, memory.level, memory.bandwidth) == ("memory", "memory", 10e9)
    assert memory.share(2 * memory.least_s * 1e3) == 0.5
    adds = Roof.of(CaseWork("", 1 << 19, 10**9, "float64"), LEVELS, RATES, 1)
    assert (adds.binds, adds.peak, adds.least_s) == ("arithmetic", 50e9, 0.02)
    # A farther level was measured faster: so is the nearer one.
    assert adds.bandwidth == 50e9
    assert Roof.of(CaseWork("", 100, 100), [], None, 1).binds == ""


def test_the_page_names_each_case_and_what_is_left_out_in_at_most_120_lines() -> None:
    many = tuple(CompilerRemark(n, "missed", f"reason {n} \x1b[31m") for n in range(1, 150))
    rows = tuple(Instruction(f"vaddps {n}", 7, ".1" if not n else "") for n in range(300))
    rows = (*rows, Instruction("jne .1", 8))
    code = MachineCode(functions=(CodeFunction("f", rows),), remarks=many)
    code = MachineCode(
        functions=code.functions, loops=tuple(find_loops(code.functions)), remarks=many
    )
    roofs = [Roof.of(CaseWork(f"case{n}", 1 << 20, 1), LEVELS, RATES, 1) for n in range(32)]
    roofs.append(Roof("odd", unknown="it looks at values"))
    findings = KernelFindings(code=code, left_out={"hot loop": "not allowed"})
    times = tuple(
        CaseTiming(name=roof.case, candidate_ms=roof.least_s * 2e3, baseline_ms=1.0)
        for roof in roofs[:2]
    )
    measured = Measurement(outcome=Outcome.CORRECT, cases=times)
    told = page.fields(Evidence(tuple(roofs), findings), measured, "kernel.py")
    text = page.as_json(told)
    assert len(text.splitlines()) <= MOST_LINES
    assert len(page_lines(told)) <= MOST_LINES
    assert "\x1b" not in "".join(page_lines(told))
    read = json.loads(text)
    first = read["roofline"][0]
    assert (first["case"], first["share_of_limit"]) == ("case0", 0.5)
    assert first["binds"] == "memory (L2, 50 GB/s)"
    assert read["left_out"]["hot loop"] == "not allowed"
    assert read["hot_loop"]["lines"] == "7-8"
    assert any(row.startswith("kernel.py:8 missed: reason 8") for row in read["remarks"])
    # A loop of intrinsics is packed, whatever the compiler missed there.
    packed = tuple(msgspec.structs.replace(each, vector=9, packed=8) for each in code.loops)
    by_hand = msgspec.structs.replace(findings, code=msgspec.structs.replace(code, loops=packed))
    remarks = page.fields(Evidence(tuple(roofs), by_hand), measured, "kernel.py")["remarks"]
    assert isinstance(remarks, list)
    assert not [row for row in remarks if row.startswith(("kernel.py:7 ", "kernel.py:8 "))]


REFERENCE = """
import torch

N = 64


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x @ x, dim=-1)


def get_inputs():
    return [torch.rand(N, N)]


def get_init_inputs():
    return []
"""

KERNEL = '''
import ctypes

import torch

from akg_tui.dsl import compile_cpp, pointer

SOURCE = r"""
extern "C" void twice(const float* __restrict x, float* __restrict y, long n) {
    for (long i = 0; i < n; ++i) y[i] = 2 * x[i];
}
"""


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.twice = compile_cpp(SOURCE, "-O3").twice

    def forward(self, x):
        y = torch.empty_like(x)
        self.twice(pointer(x), pointer(y), ctypes.c_long(x.numel()))
        return y
'''


async def test_a_kernel_has_its_instructions_loops_and_remarks_with_their_lines() -> None:
    found = await asking.kernel_findings(Task(op="x"), REFERENCE, KERNEL)
    (function,) = found.code.functions
    assert function.name == "twice"
    assert KERNEL.splitlines()[function.rows[0].line - 1].startswith('extern "C" void twice')
    line = 1 + next(n for n, text in enumerate(KERNEL.splitlines()) if "for (long" in text)
    assert line in found.code.loops[0].lines
    assert found.code.loops[0].packed > 0
    vectorized = [r for r in found.code.remarks if r.kind == "vectorized"]
    assert [r.line for r in vectorized[:1]] == [line]
    assert "hot loop" not in found.left_out


HOSTILE = """
import socket
from pathlib import Path


def tried(act):
    try:
        act()
    except OSError:
        return "refused"
    return "done"


raise RuntimeError(" ".join((
    "read", tried(Path("{secret}").read_text),
    "wrote", tried(lambda: Path("{secret}").write_text("x")),
    "connected", tried(socket.socket),
)))
"""


async def test_a_kernel_is_read_inside_the_sandbox(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("key")
    kernel = HOSTILE.format(secret=secret)
    found = await asking.kernel_findings(Task(op="x"), REFERENCE, kernel)
    denied = "read refused wrote refused connected refused"
    assert denied in found.left_out["machine code"]
    assert secret.read_text() == "key"


async def test_a_process_that_fails_or_takes_too_long_is_told_in_a_line() -> None:
    with pytest.raises(asking.Lost, match="status 1"):
        await asking._answer(["json.tool"], {}, b"no json", 30)
    with pytest.raises(asking.Lost, match=r"longer than 0\.05 s"):
        await asking._answer(["http.server", "0", "--bind", "127.0.0.1"], {}, b"", 0.05)


async def test_an_answer_that_cannot_be_true_is_no_answer(monkeypatch) -> None:
    rows = (Instruction("ret", 1),)
    outside = MachineCode(functions=(CodeFunction("f", rows),), loops=(Loop(0, 0, 7, 1, 1),))
    many = MachineCode(functions=(CodeFunction("f", rows * 4001),))
    long = MachineCode(functions=(CodeFunction("f" * 601, rows),))
    for code in (outside, many, long):

        async def forged(*_: object, code: MachineCode = code) -> bytes:
            return msgspec.json.encode(KernelFindings(code=code))

        monkeypatch.setattr(asking, "_answer", forged)
        found = await asking.kernel_findings(Task(op="x"), REFERENCE, KERNEL)
        assert found.code == MachineCode()
        assert "answer" in found.left_out["machine code"]


async def test_targets_without_machine_code_say_why() -> None:
    for backend in ("cuda", "ascend"):
        on_device = Task(op="x", target=Target(backend=backend, dsl="torch"))
        found = await asking.kernel_findings(on_device, REFERENCE, KERNEL)
        assert "of a device" in found.left_out["machine code"]


async def test_bytes_and_operations_are_counted_once_by_case(monkeypatch) -> None:
    task = Task(
        op="x",
        reference=ReferenceChanges({"N": 32}),
        cases=(Case("small"), Case("large", {"N": 128})),
    )
    works = await asking.case_works(task, REFERENCE)
    # The product has 2 N^3 operations, the softmax 4 N^2; input and output are moved once.
    assert works == tuple(
        CaseWork(name, 2 * 4 * n * n, 2 * n**3 + 4 * n * n, "float32")
        for name, n in (("small", 32), ("large", 128))
    )
    monkeypatch.setattr(asking, "_answer", None)
    assert await asking.case_works(task, REFERENCE) == works


def test_why_the_limit_is_far_is_told_unless_the_machine_was_busy() -> None:
    roof = Roof("", 8_000_000, 4_000_000, "L3", 20e9, 80e9, "float32")
    assert page.binding_words(roof, 40.0).endswith(f"): {page.FAR}")
    assert page.binding_words(roof, 0.4) == "memory (L3, 20 GB/s)"
    busy = page.binding_words(roof, 40.0, busy=True)
    assert busy.endswith("how near cannot be told on a busy machine")

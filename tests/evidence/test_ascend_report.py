"""What the compiler for Ascend tells of a Triton kernel: from recorded programs, and for real."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from akg_tui.core.kernel.kernel_files import LineNames
from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.task import Target, Task
from akg_tui.dsl import toolchains
from akg_tui.evidence import asking, compile_report, page
from akg_tui.evidence.ascend import lowering, program_report
from akg_tui.evidence.compile_report import Compiled, CompileReport, Launch
from akg_tui.resources import sample
from akg_tui.store.task_folder import load_task
from benchmarks import hybrid_mask_steps
from tests.evaluate.triton_kernels import REFERENCE
from tests.evidence import recorded_hivm

NPU = "Ascend910B1"
TASK = Task(op="softmax", target=Target(backend="cpu", dsl="triton", arch=NPU))
UB = (
    "ub overflow, requires 3145984 bits while 1572864 bits available! (possible reason: tiling "
    "basic block is too large)"
)
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is for Linux"
)
needs_toolchain = pytest.mark.skipif(
    toolchains.installed("ascend") is None, reason="akg-tui toolchain add ascend"
)


Facts = dict[str, Any]


def told(hivm: str, *notes: str) -> Facts:
    told = program_report.fields(hivm, notes, LineNames("kernel.py"))
    found: Facts = json.loads(msgspec.json.encode(told))
    return found


def operations(facts: Facts, kind: str = "") -> int:
    """Return the number of vector operations whose name and type end so."""
    return sum(n for name, n in facts["vector_operations"].items() if name.endswith(kind))


def check_that_each_finding_shows(programs: list[str]) -> None:
    """The seed's findings, one by one, change the report in the direction that the seed tells."""
    seed, merged, triu, lean = (told(program) for program in programs)
    # Merged accesses: fewer transfers, less to wait for, fewer products.
    for name in ("loads", "stores", "flags", "core_flags"):
        assert merged[name] < seed[name]
    assert sum(seed["cube_operations"].values()) == 4
    assert sum(merged["cube_operations"].values()) == 2
    # A mask from `ones` and `triu`: one load more, much less arithmetic on indices.
    assert triu["loads"] == merged["loads"] + 1
    assert operations(triu) < 0.75 * operations(merged)
    assert operations(triu, " i32") < 0.5 * operations(merged, " i32")
    assert triu["memory"]["UB"]["used"] < merged["memory"]["UB"]["used"]
    # Without redundant mask work: vector operations and barriers go, transfers stay.
    assert lean["loads"] == triu["loads"]
    assert operations(lean) < 0.75 * operations(triu)
    assert operations(lean, " i32") == 0
    assert lean["barriers"] < triu["barriers"]
    assert lean["memory"]["UB"]["used"] < triu["memory"]["UB"]["used"]


def test_each_finding_of_the_seed_shows_in_the_report() -> None:
    programs = [recorded_hivm.texts()[f"step_{step}"] for step in hybrid_mask_steps.STEPS]
    check_that_each_finding_shows(programs)


@needs_triton
@needs_toolchain
async def test_each_finding_of_the_seed_shows_when_it_is_compiled() -> None:
    folder = load_task(sample("hybrid_attention_mask_triton"))
    programs = []
    for step in hybrid_mask_steps.STEPS:
        kernel = hybrid_mask_steps.kernel(step)
        found = await asking.compile_report(folder.task, folder.reference, kernel, [NPU])
        assert not found.stopped
        (launch,) = found.launches
        programs.append(launch.compiled[0].hivm)
    check_that_each_finding_shows(programs)


def test_a_softmax_tells_memory_transfers_operations_and_flags() -> None:
    facts = told(recorded_hivm.texts()["located"])
    assert facts["cores"] == "vector"
    assert facts["memory"] == {"UB": {"used": 6496, "of": 196608}}
    assert (facts["load_lines"], facts["store_lines"]) == ({"kernel.py:5": 1}, {"kernel.py:7": 1})
    assert facts["vector_operations"] == dict.fromkeys(
        ("reduce_max f32", "reduce_sum f32", "vadds f32", "vdiv f32", "vexp f32"), 1
    )
    assert (facts["flags"], facts["barriers"]) == (4, 3)
    assert facts["multi_buffering"] == "none: no loop alternates between buffers"


def test_the_lines_of_a_program_name_what_is_slow() -> None:
    gather = program_report.words(told(recorded_hivm.texts()["gather"]))
    assert gather[0] == ["vector cores", "UB 20,544 of 196,608 bytes (10%)"]
    assert ["  scalar unit, accesses in loops (kernel.py: 3)"] in gather
    *_, last = program_report.words(told(recorded_hivm.texts()["add_loop"]))
    assert last[-1] == "multi-buffering: done for 3 buffers"


def test_a_refusal_tells_bytes_and_block_sizes_and_dropped_buffers_are_told() -> None:
    constants = ("BLOCK=65536", "FLAG=True", "DT=fp16")
    plain = program_report.refusal(UB, constants)
    assert "a program needs 393,248 bytes of UB with BLOCK=65536, and a core has 196,608" in plain
    assert program_report.refusal("Cbuf overflow, requires 16 bits while 8 bits available", ()) == (
        "L1 overflow: a program needs 2 bytes of L1, and a core has 1: make its blocks smaller, or "
        "go through them in a loop"
    )
    assert program_report.refusal("no such thing", constants) == "no such thing"
    launch = Launch(
        kernel="rows", line=3, arguments=(), constants=constants, grid=(8,),
        compiled=(Compiled(arch=NPU, failed=UB, line=3),),
    )  # fmt: skip
    lines = compile_report.as_lines(CompileReport(launches=(launch,)), "kernel.py")
    assert f"  {NPU}: does not compile: kernel.py:3: {plain}" in lines
    note = (
        "Due to Ub overflow, automatically set enable-code-motion to false, set "
        "enable-auto-multi-buffer to false; compilation then succeeded."
    )
    dropped = told(recorded_hivm.texts()["located"], note)
    assert str(dropped["multi_buffering"]).startswith("dropped by the compiler")


def test_what_is_no_program_is_told_and_shows_no_control_characters() -> None:
    launch = Launch(
        kernel="k", line=5, arguments=(), constants=(), grid=(1,),
        compiled=(Compiled(arch=NPU, hivm="\x1b[2J no HIVM", remarks=("so\x07",)),),
    )  # fmt: skip
    text = "\n".join(compile_report.as_lines(CompileReport(launches=(launch,)), "kernel.py"))
    assert f"{NPU}: the program can't be read" in text
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize(
    ("said", "reason", "line"),
    [
        (
            f'loc("/x/f0.py":3:0): error: Failed to run BiShengHIR pipeline\n\n'
            f'loc("/x/f0.py":3:0): error: {UB}\n',
            UB,
            3,
        ),
        (
            'loc(callsite("/x/f1.py":7:4 at "/x/f0.py":9:2)): error: failed to legalize\n',
            "failed to legalize",
            7,
        ),
        ("Segmentation fault\n", "the compiler failed: Segmentation fault", 0),
        ("", "the compiler failed: it ended without a word", 0),
    ],
)
def test_the_compilers_errors_are_read_with_their_line(said: str, reason: str, line: int) -> None:
    assert lowering._reason(said, []) == (reason, line)


FAKE = """#!{python}
import json, sys
if sys.argv[-1].endswith("lowering.py"):
    request = json.load(sys.stdin)
    functions = [(f["name"], f["line"], f["globals"]) for f in request["functions"]]
    said = [functions, request["constants"], request["options"], request["arch"],
            sorted(request["signature"]), request["divisible"]]
    print(json.dumps({{"hivm": open({hivm!r}).read(), "notes": [json.dumps(said)]}}))
"""

KERNEL = """
import torch
import triton
import triton.language as tl

SCALE: tl.constexpr = tl.constexpr(2)


@triton.jit
def largest(x):
    return tl.max(x, axis=0) * SCALE


@triton.jit
def rows_of(x_ptr, y_ptr, columns, DT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * columns + at, mask=at < columns, other=-1e9)
    powers = tl.exp(x - largest(x)).to(DT)
    y = powers / tl.sum(powers, axis=0)
    tl.store(y_ptr + tl.program_id(0) * columns + at, y, mask=at < columns)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        rows_of[(x.shape[0],)](x, y, x.shape[1], DT=tl.float32, BLOCK=64, multibuffer=False)
        if not torch.allclose(y, torch.softmax(x, -1)):
            raise ValueError("the options of Ascend must not reach the interpreter")
        return y
"""


def fake_toolchain(folder: Path) -> None:
    """Put a complete toolchain `ascend` there, whose Python answers with a recorded program."""
    home = folder / "akg_tui" / "toolchains" / "ascend"
    (home / "lib" / "python3.11" / "site-packages" / "ascendnpuir" / "bin").mkdir(parents=True)
    (home / "bin").mkdir()
    (home / "program.mlir").write_text(recorded_hivm.texts()["located"])
    python = home / "bin" / "python"
    real = os.path.realpath(sys.executable)
    python.write_text(FAKE.format(python=real, hivm=str(home / "program.mlir")))
    python.chmod(0o755)
    mark = toolchains.Installed(toolchains.TOOLCHAINS["ascend"].pins, "3.11.7", sys.base_prefix)
    (home / toolchains.MARK).write_bytes(msgspec.json.encode(mark))


@needs_triton
async def test_a_launch_is_handed_to_the_toolchain_inside_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    fake_toolchain(tmp_path)
    found = await asking.compile_report(TASK, REFERENCE, KERNEL, [NPU])
    assert found.stopped == ""
    (launch,) = found.launches
    assert (launch.kernel, launch.grid) == ("rows_of", (6,))
    (compiled,) = launch.compiled
    assert compiled.failed == ""
    assert "load_gm_to_ubuf" in compiled.hivm
    functions, constants, options, arch, names, divisible = json.loads(compiled.remarks[0])
    rows = KERNEL.splitlines()
    assert [(name, rows[line - 1].split("(")[0]) for name, line, _ in functions] == [
        ("rows_of", "def rows_of"),
        ("largest", "def largest"),
    ]
    assert functions[0][2] == {"largest": {"function": 1}, "tl": {"module": "triton.language"}}
    assert functions[1][2]["SCALE"] == {"constexpr": {"value": 2}}
    assert constants == {
        "BLOCK": {"value": 64}, "DT": {"attribute": ["triton.language", "float32"]},
    }  # fmt: skip
    assert (options, arch) == ({"multibuffer": False}, NPU)
    assert names == ["BLOCK", "DT", "columns", "x_ptr", "y_ptr"]
    assert divisible == [0, 1, 2]


async def test_the_agents_profile_says_how_to_get_the_toolchain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_roofs(*_: object) -> tuple[()]:
        return ()

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(asking, "roofs", no_roofs)
    found = await asking.evidence(TASK, REFERENCE, "kernel")
    told = page.fields(found, Measurement(outcome=Outcome.CORRECT), "kernel.py")
    assert "the toolchain ascend is not installed: akg-tui toolchain add ascend" in str(
        told["left_out"]
    )


REFUSED = KERNEL.replace("BLOCK=64", "BLOCK=1 << 16")


@needs_triton
@needs_toolchain
async def test_the_real_compiler_compiles_and_refuses() -> None:
    plain = KERNEL.replace(", multibuffer=False", "")
    found = await asking.compile_report(TASK, REFERENCE, plain, [NPU])
    facts = told(found.launches[0].compiled[0].hivm)
    assert facts["load_lines"] == {"kernel.py:17": 1}
    found = await asking.compile_report(TASK, REFERENCE, REFUSED, [NPU])
    (compiled,) = found.launches[0].compiled
    assert KERNEL.splitlines()[compiled.line - 1].startswith("def rows_of")
    assert "bytes of UB with BLOCK=65536" in program_report.refusal(
        compiled.failed, found.launches[0].constants
    )

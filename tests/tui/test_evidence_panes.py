"""The panes of machine code and of the roofline: what they show, and when they ask for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import Progress
from akg_tui.core.phases import Phase, Verdict
from akg_tui.core.task import Target, Task
from akg_tui.evidence.compile_report import Compiled, CompileReport, Launch, as_findings
from akg_tui.evidence.findings import (
    CodeFunction,
    CompilerRemark,
    Instruction,
    KernelFindings,
    Loop,
    MachineCode,
)
from akg_tui.evidence.gpu.assembly import Instructions, Resources
from akg_tui.evidence.roof import Roof
from akg_tui.tui.evidence_reader import EvidenceReader
from akg_tui.tui.panes.instructions import InstructionsPane
from akg_tui.tui.screens.deck import Deck
from akg_tui.view.evidence.machine_code import ComparedCode, code_rows
from akg_tui.view.evidence.roofline_chart import LimitsView, kernels_of, limits_rows
from akg_tui.view.run_snapshot import snapshot_of
from akg_tui.view.spans import plain, width

from ..evidence.recorded_hivm import texts
from .moments import at_work, under_evaluation
from .script import KERNEL, FakeHandle, Try, faster, task
from .stage import Stage, on_stage

SEED_MS = 3.4 / 0.42  # the measurement of the seed in the script
SUM_LINE = 1 + next(n for n, row in enumerate(KERNEL.splitlines()) if "sum += y[i]" in row)
MAX_LINE = SUM_LINE - 1


def findings(kernel: str) -> KernelFindings:
    """The code of a kernel of the script: another number of lanes makes other instructions."""
    width_ = "ymm" if "LANES = 16" in kernel else "xmm"
    rows = (
        Instruction("test %rdi,%rdi", SUM_LINE - 2),
        Instruction("vmaxss (%rsi),%xmm0,%xmm0", MAX_LINE, ".1"),
        Instruction("add $0x4,%rsi", MAX_LINE),
        Instruction("jne .1", MAX_LINE),
        Instruction(f"vsubps %{width_}2,%{width_}1,%{width_}1", SUM_LINE, ".2"),
        Instruction("call expf@plt", SUM_LINE),
        Instruction(f"vaddps %{width_}1,%{width_}0,%{width_}0", SUM_LINE),
        Instruction("jne .2", SUM_LINE),
        Instruction("ret", SUM_LINE + 3),
    )
    hot = Loop(0, 4, 7, 2, 2, (SUM_LINE,))
    code = MachineCode(
        compiler="g++ 12 -O3",
        functions=(CodeFunction("row_softmax", rows),),
        loops=(hot, Loop(0, 1, 3, 1, 0, (MAX_LINE,))),
        remarks=(CompilerRemark(MAX_LINE, "missed", "not vectorized: \x1b]0;title\x07 a chain"),),
    )
    return KernelFindings(code=code)


ROOFS = (Roof("", 8_000_000, 4_000_000, "L3", 20e9, 80e9, "float32"),)


class Answers:
    """Stands in for the processes; counts what it was asked."""

    def __init__(self, deck: Deck) -> None:
        self.kernels: list[str] = []
        self.roofs = 0
        self.findings = findings
        deck.shared.evidence.find_code = self.code  # type: ignore[method-assign]
        deck.shared.evidence.find_roofs = self.limits  # type: ignore[method-assign]

    async def code(self, task: Task, kernel: KernelFiles) -> KernelFindings:
        self.kernels.append(kernel.text)
        return self.findings(kernel.text)

    async def limits(self, task: Task) -> tuple[Roof, ...]:
        self.roofs += 1
        return ROOFS


@asynccontextmanager
async def staged(
    handle: FakeHandle, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Stage, Answers]]:
    async with on_stage(handle, size) as stage:
        yield stage, Answers(stage.deck)


async def until(stage: Stage, wanted: str) -> str:
    """Pull until a text is on screen."""
    async with asyncio.timeout(30):
        while wanted not in stage.text():
            await stage.pull()
    return stage.text()


async def test_machine_code_stands_below_its_source_lines_and_is_compared_with_the_best() -> None:
    async with staged(at_work()) as (stage, answers):
        assert answers.kernels == []  # nothing is read before the pane is looked at
        await stage.press("9", "z")
        shown = await until(stage, "the likeliest hot loop")
        assert len(answers.kernels) == 2
        await stage.press("9", "z")
        assert len(answers.kernels) == 2
        await a_key_leads_from_a_line_to_its_instructions_and_back(stage)
    assert "9 machine code of kernel.py +2 -2" in shown
    assert f"{SUM_LINE}" in shown
    assert "sum += y[i]" in shown
    assert "- ▌" not in shown
    removed, added = (
        next(row for row in shown.splitlines() if "vaddps" in row and sign in row)
        for sign in (" - ", " + ")
    )
    assert "ymm" in removed
    assert "xmm" in added
    assert "g++ 12 -O3" in shown


async def a_key_leads_from_a_line_to_its_instructions_and_back(stage: Stage) -> None:
    await stage.press("2")
    stage.source.to_line(MAX_LINE)
    await stage.press("C")
    assert stage.deck.active == "asm"
    assert f"the instructions of line {MAX_LINE}" in stage.text()
    pane = stage.deck.pane("asm", InstructionsPane)
    picked = "".join(plain(pane.rows[n]) for n in pane._picked)
    assert "vmaxss" in picked
    assert "not vectorized: ␛]0;title␇ a chain" in picked
    await stage.press("down", "enter")
    assert stage.deck.active == "source"
    assert stage.source.to_code().place == (0, SUM_LINE)
    assert f"line {SUM_LINE}" in stage.text()


async def test_nothing_is_read_while_a_kernel_is_timed() -> None:
    handle = under_evaluation()
    async with staged(handle) as (stage, answers):
        await stage.press("9", "z")
        assert "when the timing under way is over" in stage.text()
        assert answers.kernels == []
        handle.live.report(Progress("verify", 1, 3))
        await until(stage, "hot loop")
        assert len(answers.kernels) == 2


def test_what_is_being_found_out_tells_for_how_long() -> None:
    now = [100.0]
    begun: list[Coroutine[None, None, None]] = []
    reader = EvidenceReader(begun.append, lambda: "", lambda: None, lambda: now[0])
    handle = at_work()
    snapshot = snapshot_of(handle, handle.state.last_at, "")
    assert reader.findings(snapshot, snapshot.state.work_blob) is None
    assert reader.waits(snapshot).endswith(": 0 s so far")
    now[0] += 12
    assert reader.waits(snapshot).endswith(": 12 s so far")
    (work,) = begun
    work.close()


async def test_a_kernel_without_machine_code_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = FakeHandle(the_task=replace(task(), target=Target("cuda", "torch")))
    async with on_stage(handle.to_phase(Phase.EDIT, settled=1)) as stage:
        monkeypatch.setattr(type(stage.deck.shared.evidence), "_reference", lambda *_: ("", ""))
        await stage.press("9", "z")
        shown = await until(stage, "no machine code")
    assert "no machine code: the machine code of a device is read of Triton kernels only" in shown


def reported(kernel: str) -> KernelFindings:
    """The compile report on a kernel of the script: with 16 lanes it needs fewer registers."""
    small = "LANES = 16" in kernel
    compiled = Compiled(
        arch="sm_90",
        warps=4,
        stages=2,
        shared=16 if small else 500_000,
        instructions=Instructions(3, {128: 6}, {32: 1}, {}, 4),
        resources=Resources(64 if small else 96, 0 if small else 128),
    )
    launch = Launch(
        kernel="softmax\x1b[2J_rows", line=3, arguments=(), constants=(), grid=(8,),
        compiled=(compiled, Compiled(arch="gfx942", failed="error: no \x07such op", line=7)),
    )  # fmt: skip
    return as_findings(CompileReport(compiler="Triton 3.9.0", launches=(launch,)), "kernel.py")


def best_and_worked_on(*found: KernelFindings) -> ComparedCode:
    return ComparedCode(*(code_rows(each, KernelFiles({"kernel.py": KERNEL})) for each in found))


async def test_the_compile_report_of_a_kernel_is_compared_with_the_best_ones() -> None:
    async with on_stage(at_work()) as stage:
        answers = Answers(stage.deck)
        answers.findings = reported
        await stage.press("9", "z")
        await until(stage, "softmax")
        assert len(answers.kernels) == 2
        for size in ((80, 24), (200, 60)):
            await stage.resize(*size)
            # The best kernel has 16 lanes, the one under work has not.
            was = (
                "-   sm_90: 64 registers",
                "-     0 bytes spilled",
                "-     16 bytes of shared memory",
            )
            now = "+   sm_90: 96 registers", "+     128 bytes spilled", "sm_90 has 232448"
            for told in ("Triton 3.9.0", *was, *now, "global loads 6 of 128 bits", "occupancy"):
                assert told in stage.text()
        rows = list(stage.deck.pane("asm", InstructionsPane).texts())
        assert not any("\x1b" in row or "\x07" in row for row in rows)
        await stage.press("right_square_bracket")
        assert "change " in stage.text()


def test_what_two_reports_share_is_no_difference() -> None:
    one, other = reported("LANES = 16"), reported("")
    assert {row.kind.name for row in best_and_worked_on(one, one).compared} == {"SAME"}
    rows = [plain(row).strip() for row in best_and_worked_on(one, other)]
    added = [row.split()[1:3] for row in rows if row.startswith("+")]
    assert added[-3:] == [["sm_90:", "96"], ["128", "bytes"], ["500000", "bytes"]]


async def test_rounds_for_an_npu_are_compared_by_the_numbers_of_their_programs() -> None:
    def compiled(kernel: str) -> KernelFindings:
        name = "add_loop" if "LANES = 16" in kernel else "add_4096"
        launch = Launch(
            kernel="add\x1b[2J", line=7, arguments=(), constants=(), grid=(1024,),
            compiled=(Compiled(arch="Ascend910B1", hivm=texts()[name]),),
        )  # fmt: skip
        return as_findings(CompileReport(launches=(launch,)), "kernel.py")

    async with on_stage(at_work(), (120, 40)) as stage:
        Answers(stage.deck).findings = compiled
        await stage.press("9", "z")
        shown = await until(stage, "barriers")
    assert "\x1b" not in shown
    for told in ("2 loads", "- ", "UB 98,304 of", "+ ", "UB 32,768 of", "8 flags between pipes"):
        assert told in shown


async def test_the_roofline_shows_each_kernel_and_which_side_binds() -> None:
    async with staged(at_work(), (200, 60)) as (stage, answers):
        await stage.press("0", "z")
        shown = await until(stage, "share of the limit that binds, by attempt")
        for size in ((120, 40), (80, 24), (60, 16), (40, 10)):
            await stage.resize(*size)
            assert "cannot be shown" not in stage.text()
        assert answers.roofs == 1
    assert "memory: L3 20 GB/s" in shown
    # 0.4 ms at least; the best kernel's time is the seed's by its ratio over the seed.
    state = stage.handle.state
    best = 0.4 / state.baseline.candidate_ms * state.best.speedup.ratio  # type: ignore[operator]
    assert f"✓ best {best:.0%}".replace("%", " %") in shown
    assert "operations a byte" in shown


def test_the_roofline_ranks_kernels_as_their_verdicts_do_on_a_machine_that_became_slower() -> None:
    later = replace(faster(1.16), candidate_ms=2 * SEED_MS, baseline_ms=2.3 * SEED_MS)
    quiet = replace(faster(0.9), candidate_ms=SEED_MS, baseline_ms=0.9 * SEED_MS)
    tries = [
        Try("FLAGS = -O3", '"-O1"  #', '"-O3"  #', later),
        Try("LANES = 8", "LANES = 1", "LANES = 8", quiet),
    ]
    kernels = kernels_of(FakeHandle(plans=[tries]).work(lambda s: len(s.attempts) == 3).state)
    assert kernels.candidate[""] > kernels.best[""]
    assert kernels.best[""] == pytest.approx(SEED_MS / 1.16)
    assert [round(SEED_MS / times[""], 2) for _, times in kernels.attempts] == [1.0, 1.16, 1.04]
    assert kernels.eager[""] == pytest.approx(SEED_MS * 0.42)


def test_rows_of_the_roofline_keep_to_their_room() -> None:
    state = at_work().state
    roofs = (*ROOFS, replace(ROOFS[0], case="small", operations=0), Roof("odd", unknown="no sizes"))
    view = LimitsView(roofs, kernels_of(state), "")
    for room, height in ((40, 12), (60, 20), (118, 36), (198, 56)):
        rows = limits_rows(view, room, height)
        assert max(map(width, rows)) <= room
        assert any("⣀⠤⠒ roof" in plain(row) for row in rows), "no room leaves out the chart"
        timed = [a for a in state.attempts if a.verdict is not Verdict.FAIL]
        assert sum(plain(row)[2:].startswith(("attempt ", "the seed")) for row in rows) == len(
            timed
        )
        told = [row for row in map(plain, rows) if re.search("✓ best|◦ eager", row)]
        assert "…" not in "".join(row for row in told if "⣀⠤⠒ roof" not in row)  # the legend
    assert "no sizes" in "".join(map(plain, rows))
    far = replace(ROOFS[0], bandwidth=1e6 * ROOFS[0].bandwidth, peak=1e6 * ROOFS[0].peak)
    for busy in (False, True):
        found = limits_rows(
            view._replace(roofs=(far,), kernels=view.kernels._replace(busy=busy)), 118, 36
        )
        assert ("it waits, repeats work" in "".join(map(plain, found))) != busy


def test_labels_and_distances_that_only_shift_are_no_difference() -> None:
    def rows(label: str, distance: str) -> list[Any]:
        code = (
            Instruction(f"vaddss {distance}(%rip),%xmm0,%xmm0", 1, label),
            Instruction(f"jne {label}", 1),
        )
        found = KernelFindings(code=MachineCode(functions=(CodeFunction("f", code),)))
        return code_rows(found, KernelFiles({"kernel.py": "float f();"}))

    compared = ComparedCode(rows(".1", "0x10"), rows(".7", "0xfe"))
    assert {row.kind.name for row in compared.compared} == {"SAME"}
    assert "jne" in plain(compared[3])
    assert ".7" in plain(compared[3])

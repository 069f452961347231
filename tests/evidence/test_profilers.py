"""What profilers tell of a kernel: their recorded files, condensed to ten lines."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import msgspec
import pytest
import torch

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.task import Target, Task
from akg_tui.evaluate.targets import TARGETS
from akg_tui.evaluate.targets.cpu import Cpu
from akg_tui.evidence import asking, profile_process
from akg_tui.evidence.findings import KernelFindings
from akg_tui.evidence.page import Evidence, fields
from akg_tui.evidence.profile_process import CALLS
from akg_tui.evidence.profilers import (
    MOST_LINES,
    Metric,
    Profile,
    ProfiledKernel,
    ProfileFor,
    number_of,
)
from akg_tui.evidence.profilers.msprof import read_summary
from tests.evaluate.ascend_records import FAKE_MSPROF, op_summary
from tests.evaluate.kernels import PLAIN, REFERENCE, kernel


def profiled(name: str, us: float, busy: float, **more: tuple[str, ...]) -> ProfiledKernel:
    units = (Metric("a_ratio", "vector", busy), Metric("b_ratio", "scalar", 0.1))
    return ProfiledKernel(name, 2, us, units, (Metric("waves", "waves", 2.5, ""),), **more)


def test_a_profile_says_what_binds_its_longest_kernels_in_at_most_ten_lines() -> None:
    kernels = [profiled(f"k{n}", 10.0 * n, 0.9 if n == 9 else 0.3) for n in range(1, 10)]
    lines = Profile.of("ncu", kernels).lines
    assert lines == [
        "ncu: 9 kernels, 18 launches, 450 us on the device",
        "k9: 90 us (20%), bound by vector, busy 90%",
        "  vector 90%, scalar 10%, waves 2.5",
        "k8: 80 us (18%), bound by no unit, it waits: the busiest is vector, busy 30%",
        "  vector 30%, scalar 10%, waves 2.5",
        "k7: 70 us (16%), bound by no unit, it waits: the busiest is vector, busy 30%",
        "  vector 30%, scalar 10%, waves 2.5",
        "6 more kernels: 210 us",
    ]
    long = [profiled(f"k{n}", 1.0, 0.5, notes=("one", "two", "three")) for n in range(4)]
    assert len(Profile.of("ncu", long).lines) == MOST_LINES
    assert Profile("ncu").lines == ["ncu: nothing ran on the device"]


def test_a_cell_that_is_no_number_is_none() -> None:
    cells = ["1,234.5", "73.2%", "N/A", "NA", "", None, "nan", "inf"]
    found = [number_of(cell) for cell in cells]
    assert found == [1234.5, 73.2, None, None, None, None, None, None]


TOLD = [
    "msprof: 3 kernels, 4 launches, 771 us on the device",
    "RightShift: 500 us (65%), the profiler told no unit",
    "  blocks 1",
    "MatMulV3: 151 us (20%), bound by memory to L1 (MTE2), busy 79%",
    "  cube 24%, scalar of the cube core 5%, L1 to L0 (MTE1) 58%, memory to L1 (MTE2) 79%, "
    "L0C out (fixpipe) 13%, blocks 24, instruction cache misses of the cube core 1%",
    "softmax_rows: 120 us (16%), bound by no unit, it waits: the busiest is memory to UB (MTE2), "
    "busy 38%",
    "  vector 22%, scalar 16%, memory to UB (MTE2) 38%, UB to memory (MTE3) 31%, blocks 48, "
    "instruction cache misses 1%",
    "RightShift: it runs on the AI CPU: no cube or vector core has an operator for these arguments",
]


def test_what_msprof_writes_is_told_by_kernel_with_the_pipe_that_binds() -> None:
    profile = read_summary(list(csv.DictReader(op_summary(5).splitlines())), 5)
    assert profile.lines == TOLD
    (matmul,) = [each for each in profile.kernels if each.name == "MatMulV3"]
    assert {unit.name: unit.value for unit in matmul.units}["aic_mte2_ratio"] == 0.793


def test_the_first_atlas_has_other_columns_and_an_empty_file_no_kernel() -> None:
    rows = [
        "Op Name,Task Duration(us),Block Dim,vec_ratio,mac_ratio,mte2_ratio",
        "Add,8,2,0.7,0,0.2",
    ]
    assert read_summary(list(csv.DictReader(rows)), 1).lines == [
        "msprof: 1 kernel, 1 launch, 8 us on the device",
        "Add: 8 us (100%), bound by vector, busy 70%",
        "  vector 70%, memory to core (MTE2) 20%, blocks 2",
    ]
    assert read_summary([], 5).lines == ["msprof: nothing ran on the device"]


class _Host(Cpu):
    """The host's memory in the place of an NPU: what is tested is how the profiler is run."""

    name = "ascend"
    device = "cpu"


@pytest.fixture
def fake_msprof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the contract fake of msprof on PATH, and in a folder that a kernel may run."""
    program = tmp_path / "bin" / "msprof"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nSUMMARY = {op_summary(CALLS)!r}\n{FAKE_MSPROF}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(program.parent))
    monkeypatch.setenv("AKG_TUI_LEASES", str(tmp_path))
    monkeypatch.setitem(TARGETS, "ascend", _Host())
    return program


NPU = Task(op="x", target=Target(backend="ascend", dsl="torch"))


async def test_a_kernel_is_called_under_msprof_inside_the_sandbox(fake_msprof: Path) -> None:
    assert (await asking.profile(NPU, REFERENCE, PLAIN)).lines == TOLD


def test_a_kernel_that_raises_is_told_instead_of_a_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The profiler's application, in this process."""
    monkeypatch.chdir(tmp_path)
    request = ProfileFor(
        reference=REFERENCE, reference_name="reference.py",
        kernel=KernelFiles({"kernel.py": kernel("raise ValueError('not today')")}),
        threads=torch.get_num_threads(),
        target="ascend", device="cpu",
    )  # fmt: skip
    asked, failed = tmp_path / "request.json", tmp_path / "failed.txt"
    asked.write_bytes(msgspec.json.encode(request))
    assert profile_process.main([str(asked), str(failed)]) == 1
    assert failed.read_text().startswith("the kernel does not run: ValueError: not today")


async def test_without_msprof_its_absence_is_told(
    fake_msprof: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_msprof.unlink()
    with pytest.raises(asking.Lost, match="msprof is not on PATH"):
        await asking.profile(NPU, REFERENCE, PLAIN)


@pytest.mark.parametrize(
    ("candidate_ms", "says"),
    [
        (1.542, "in a call of 1542 us by the judge's clock: the device works 50% of a call"),
        (0.5, "in a call of 500 us by the judge's clock: they disagree, the profiler slows"),
    ],
)
def test_a_profile_is_checked_against_the_judges_clock(candidate_ms: float, says: str) -> None:
    profile = read_summary(list(csv.DictReader(op_summary(5).splitlines())), 5)
    found = Evidence((), KernelFindings(), profile=profile)
    measured = Measurement(outcome=Outcome.CORRECT, candidate_ms=candidate_ms)
    told = fields(found, measured, "kernel.py")
    assert told["profiler"] == [line.strip() for line in TOLD]
    assert str(told["profiler_and_judge"]).startswith(f"771 us on the device {says}")

"""What Nsight Compute's file says, in ten lines.

`details.csv` has the form of its manual, `h100.csv` is what version 2025.3 wrote on an H100: four
calls of a softmax of 4096 rows and columns in Triton, and one sum of PyTorch.
"""

from __future__ import annotations

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
from akg_tui.evidence import asking, ncu, profile_process
from akg_tui.evidence.findings import KernelFindings
from akg_tui.evidence.ncu import (
    FILE,
    METRICS,
    MOST_LINES,
    NoProfile,
    Profile,
    ProfiledKernel,
    ProfileFor,
    number_of,
    read_csv,
)
from akg_tui.evidence.page import Evidence, fields
from tests.evaluate.kernels import PLAIN, REFERENCE, kernel

RECORDED = Path(__file__).parents[1] / "recorded" / "ncu" / "details.csv"
CALLS = 3
ON_H100 = RECORDED.with_name("h100.csv")


def recorded() -> Profile:
    return read_csv(RECORDED.read_text().splitlines(keepends=True), CALLS)


def test_a_call_has_what_was_launched_in_each_call_longest_first() -> None:
    found = recorded()
    assert [(each.name, each.launches, each.duration_us) for each in found.kernels] == [
        ("void softmax_rows<128>(const float *, float *, int)", 1, 30.5),
        ("finish(float *, int)", 2, 22.0),
    ]


def test_ten_lines_say_what_binds_what_warps_wait_for_and_what_limits_them() -> None:
    lines = recorded().lines
    assert len(lines) <= MOST_LINES
    assert lines[0] == "ncu: 2 kernels, 3 launches, 52.5 us on the device"
    assert lines[1] == (
        "void softmax_rows<128>(const float *, float *, int): 30.5 us (58%), bound by memory, "
        "busy 89%"
    )
    for words in ("L2 40%", "occupancy 91%", "hits in L2 50%", "registers 28", "conflicts 1536"):
        assert words in lines[2]
    assert "bound by no unit, it waits: the busiest is multiprocessors, busy 22%" in lines[3]
    assert lines[5].endswith(
        ": warps stall: waits for global or local memory 62%, waits at barriers 12%; at most 8 "
        "blocks a multiprocessor, limited by registers and threads"
    )
    assert lines[6].endswith(": at most 1 block a multiprocessor, limited by registers")


def test_what_ncu_wrote_on_a_gpu_is_read() -> None:
    found = read_csv(ON_H100.read_text().splitlines(keepends=True), 4)
    assert [(each.name, each.launches) for each in found.kernels] == [("softmax_rows", 1)]
    assert found.kernels[0].duration_us == pytest.approx(46.16)
    lines = found.lines
    assert lines[1].endswith("(100%), bound by L2, busy 82%")
    for words in ("memory 80%", "tensor cores 0%", "occupancy 86%", "registers 32"):
        assert words in "\n".join(lines)
    assert "waits for global or local memory 48%" in lines[-1]
    measured = {line.split('","')[12] for line in ON_H100.read_text().splitlines()[3:]}
    assert measured == set(METRICS)


def test_why_ncu_measured_nothing_is_told(tmp_path: Path) -> None:
    refused = [
        "==PROF== Connected to process 1\n",
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
        "Performance Counters on the target device 0.\n",
    ]
    with pytest.raises(NoProfile, match=r"^ERR_NVGPUCTRPERM - The user does not have permission"):
        read_csv(refused, CALLS)
    with pytest.raises(NoProfile, match="ncu told no launch"):
        read_csv([], CALLS)
    with pytest.raises(NoProfile, match="ncu wrote no file"):
        ncu.read(tmp_path, CALLS)
    (tmp_path / FILE).write_text(RECORDED.read_text())
    assert ncu.read(tmp_path, CALLS) == recorded()


def test_the_command_asks_for_the_fixed_metrics_in_base_units(tmp_path: Path) -> None:
    command = ncu.command("/opt/ncu", tmp_path, ["python", "-m", "x"])
    assert command[0] == "/opt/ncu"
    assert command[-3:] == ["python", "-m", "x"]
    assert f"--log-file={tmp_path / FILE}" in command
    assert {"--csv", "--print-units=base", "--target-processes=all"} <= set(command)
    (metrics,) = (word for word in command if word.startswith("--metrics="))
    assert metrics.removeprefix("--metrics=").split(",") == list(METRICS)
    assert len(METRICS) == len(set(METRICS))


def profiled(name: str, us: float, busy: float, note: str = "") -> ProfiledKernel:
    return ProfiledKernel(name, 2, us, {"L2": busy, "memory": 0.1}, ("registers 32",), note)


def test_a_profile_says_what_binds_its_longest_kernels_in_at_most_ten_lines() -> None:
    kernels = [profiled(f"k{n}", 10.0 * n, 0.9 if n == 9 else 0.3) for n in range(9, 0, -1)]
    assert Profile(tuple(kernels)).lines == [
        "ncu: 9 kernels, 18 launches, 450 us on the device",
        "k9: 90 us (20%), bound by L2, busy 90%",
        "  L2 90%, memory 10%, registers 32",
        "k8: 80 us (18%), bound by no unit, it waits: the busiest is L2, busy 30%",
        "  L2 30%, memory 10%, registers 32",
        "k7: 70 us (16%), bound by no unit, it waits: the busiest is L2, busy 30%",
        "  L2 30%, memory 10%, registers 32",
        "6 more kernels: 210 us",
    ]
    long = tuple(profiled(f"k{n}", 1.0, 0.5, "it waits") for n in range(4))
    assert len(Profile(long).lines) == MOST_LINES
    assert Profile().lines == ["ncu: nothing ran on the device"]


def test_a_cell_that_is_no_number_is_none() -> None:
    cells = ["1,234.5", "73.2%", "N/A", "NA", "", None, "nan", "inf"]
    assert [number_of(cell) for cell in cells] == [1234.5, 73.2, *[None] * 6]


class _Host(Cpu):
    """The host's memory in the place of a GPU: what is tested is how the profiler is run."""

    name = "cuda"
    device = "cpu"


FAKE_NCU = """
import subprocess, sys
options = [word for word in sys.argv[1:] if word.startswith("--")]
(out,) = [word.partition("=")[2] for word in options if word.startswith("--log-file=")]
done = subprocess.run(sys.argv[1 + len(options):])
if done.returncode == 0:
    with open(out, "w") as file:
        file.write("ID,Kernel Name,Metric Name,Metric Unit,Metric Value\\n")
        file.writelines(f"{n},k,gpu__time_duration.sum,ns,7000\\n" for n in range(5))
sys.exit(done.returncode)
"""
"""A contract fake of ncu: it runs the application, and writes where it is told to."""


@pytest.fixture
def fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the fake on PATH."""
    program = tmp_path / "bin" / "ncu"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{FAKE_NCU}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("AKG_TUI_LEASES", str(tmp_path))
    monkeypatch.setitem(TARGETS, "cuda", _Host())
    return program


GPU = Task(op="x", target=Target(backend="cuda", dsl="torch"))


async def test_a_kernel_is_called_under_ncu_inside_the_sandbox(fake_ncu: Path) -> None:
    assert (await asking.profile(GPU, REFERENCE, PLAIN)).lines == [
        "ncu: 1 kernel, 1 launch, 7 us on the device",
        "k: 7 us (100%), the profiler told no unit",
    ]


async def test_without_ncu_its_absence_is_told(
    fake_ncu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ncu.unlink()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(asking.Lost, match="ncu is not on PATH"):
        await asking.profile(GPU, REFERENCE, PLAIN)


def test_a_kernel_that_raises_is_told_instead_of_a_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The profiler's application, in this process."""
    monkeypatch.chdir(tmp_path)
    request = ProfileFor(
        reference=REFERENCE, reference_name="reference.py",
        kernel=KernelFiles({"kernel.py": kernel("raise ValueError('not today')")}),
        threads=torch.get_num_threads(), device="cpu",
    )  # fmt: skip
    asked, failed = tmp_path / "request.json", tmp_path / "failed.txt"
    asked.write_bytes(msgspec.json.encode(request))
    assert profile_process.main([str(asked), str(failed)]) == 1
    told = failed.read_text()
    assert told.startswith("the kernel does not run: kernel.py:")
    assert told.endswith("ValueError: not today")


@pytest.mark.parametrize(
    ("candidate_ms", "says"),
    [
        (0.105, "in a call of 105 us by the judge's clock: the device works 50% of a call"),
        (0.03, "in a call of 30 us by the judge's clock: they disagree, the profiler slows"),
    ],
)
def test_a_profile_is_checked_against_the_judges_clock(candidate_ms: float, says: str) -> None:
    found = Evidence((), KernelFindings(), profile=recorded())
    measured = Measurement(outcome=Outcome.CORRECT, candidate_ms=candidate_ms)
    told = fields(found, measured, "kernel.py")
    assert told["profiler"] == [line.strip() for line in recorded().lines]
    assert str(told["profiler_and_judge"]).startswith(f"52.5 us on the device {says}")

"""What Nsight Compute's file says, in ten lines.

`details.csv` has the form of its manual, `h100.csv` is what version 2025.3 wrote on an H100: four
calls of a softmax of 4096 rows and columns in Triton, and one sum of PyTorch.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.evidence.profilers import MOST_LINES, NoProfile, Profile
from akg_tui.evidence.profilers.ncu import FILE, METRICS, Ncu, read_csv

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


@pytest.mark.parametrize(("unit", "value"), [("us", "30.5"), ("usecond", "30.5"), ("ms", "0.0305")])
def test_times_are_read_in_any_unit(unit: str, value: str) -> None:
    text = RECORDED.read_text().replace(',"ns","30,500"', f',"{unit}","{value}"')
    found = read_csv(text.splitlines(keepends=True), CALLS)
    assert found.kernels[0].duration_us == pytest.approx(30.5)


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
        Ncu().read(tmp_path, "", CALLS)
    (tmp_path / FILE).write_text(RECORDED.read_text())
    assert Ncu().read(tmp_path, "", CALLS) == recorded()


def test_the_command_asks_for_the_fixed_metrics_in_base_units(tmp_path: Path) -> None:
    command = Ncu().command("/opt/ncu", tmp_path, ["python", "-m", "x"])
    assert command[0] == "/opt/ncu"
    assert command[-3:] == ["python", "-m", "x"]
    assert f"--log-file={tmp_path / FILE}" in command
    assert {"--csv", "--print-units=base", "--target-processes=all"} <= set(command)
    (metrics,) = (word for word in command if word.startswith("--metrics="))
    assert metrics.removeprefix("--metrics=").split(",") == list(METRICS)
    assert len(METRICS) == len(set(METRICS))

"""A floor that no honest kernel meets, and a share that says how near memory's limit one is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from akg_tui.evaluate.targets import cpu, roofline
from akg_tui.evaluate.targets.roofline import Level

LEVELS = [
    Level("L1", 32 << 10, 200e9),
    Level("L2", 1 << 20, 80e9),
    Level("memory", 1 << 62, 20e9),
]


@pytest.mark.parametrize(
    ("size", "name"),
    [(1, "L1"), (32 << 10, "L1"), (33 << 10, "L2"), (2 << 20, "memory"), (1 << 40, "memory")],
)
def test_the_level_is_the_nearest_that_holds_the_bytes(size: int, name: str) -> None:
    assert roofline.level_for(LEVELS, size).name == name


def test_a_result_below_the_floor_is_refused_with_its_figures() -> None:
    size = 64 << 20
    why = roofline.refusal(LEVELS, must_move=size, seconds=1e-6, threads=1)
    assert why is not None
    assert why.startswith("impossible: 67108864 bytes in 1 µs a call")
    honest = size / LEVELS[-1].bandwidth
    assert roofline.refusal(LEVELS, must_move=size, seconds=honest, threads=1) is None
    # Even a machine that is twice as fast as when it was measured is believed.
    assert roofline.refusal(LEVELS, must_move=size, seconds=honest / 2, threads=1) is None


def test_more_threads_lower_the_floor_in_proportion() -> None:
    one = roofline.floor_s(LEVELS, must_move=1 << 24, threads=1)
    assert roofline.floor_s(LEVELS, must_move=1 << 24, threads=4) == pytest.approx(one / 4)
    assert roofline.floor_s(LEVELS, must_move=0, threads=1) == 0.0


def test_the_share_is_moved_bytes_over_time_over_bandwidth() -> None:
    found = roofline.share(LEVELS, read=12 << 20, written=8 << 20, seconds=0.002, threads=1)
    assert (found.level, found.moved_bytes) == ("memory", 20 << 20)
    assert found.share == pytest.approx((20 << 20) / 0.002 / 20e9)


@pytest.mark.parametrize(
    ("read", "written", "threads", "bounds"),
    [
        (10 << 20, 10 << 20, 1, True),
        (10 << 20, 10 << 20, 4, False),  # the rate of memory is one core's
        (10 << 10, 10 << 10, 4, True),
        (10 << 20, 1 << 20, 1, False),  # reads alone are faster than a copy
    ],
)
def test_the_rate_of_a_copy_bounds_what_writes_as_a_copy_does(
    read: int, written: int, threads: int, bounds: bool
) -> None:
    found = roofline.share(LEVELS, read=read, written=written, seconds=0.002, threads=threads)
    assert found.bounds is bounds


def test_this_machine_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = roofline.machine_levels({"L1": 64 << 10}, "this one", tmp_path)
    assert [level.name for level in first] == ["L1", "memory"]
    assert all(1e8 < level.bandwidth < 1e13 for level in first)

    def again(sizes: object) -> list[Level]:
        raise AssertionError("measured twice")

    monkeypatch.setattr(roofline, "measured_levels", again)
    assert roofline.machine_levels({"L1": 64 << 10}, "this one", tmp_path) == first
    with pytest.raises(AssertionError, match="measured twice"):
        roofline.machine_levels({"L1": 64 << 10}, "another one", tmp_path)


@pytest.mark.parametrize(
    "kept", [b"", b"{", b"[]", msgspec.json.encode([Level("L1", 1, 1e30)]), b"[{}]"]
)
def test_a_file_that_makes_no_sense_is_measured_anew(
    kept: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofline, "measured_levels", lambda sizes: LEVELS)
    roofline.machine_levels({}, "m", tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(kept)
    assert roofline.machine_levels({}, "m", tmp_path) == LEVELS
    assert msgspec.json.decode(file.read_bytes(), type=list[Level]) == LEVELS


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofline, "measured_levels", lambda sizes: LEVELS)
    (tmp_path / "file").write_text("no folder")
    assert roofline.machine_levels({}, "m", tmp_path / "file") == LEVELS


def test_the_fingerprint_names_what_a_reader_must_know() -> None:
    known = cpu.ADAPTER.fingerprint("2.13", 3)
    assert {"cpu", "cpus", "kernel", "python", "compiler", "load", "torch", "threads"} <= set(known)
    assert (known["torch"], known["threads"]) == ("2.13", "3")
    assert all(value for value in known.values())
    # The load changes by the minute: what is kept for a machine may not depend on it.
    assert known["load"] not in cpu.machine_key().split("; ")

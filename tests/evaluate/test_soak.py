"""A short form of `python -m benchmarks soak`: many evaluations leave nothing behind."""

from __future__ import annotations

from pathlib import Path

from benchmarks.soak import figures, soak


async def test_forty_evaluations_leave_no_process_memory_or_descriptor_behind(
    tmp_path: Path,
) -> None:
    shared = {path.name for path in Path("/dev/shm").iterdir() if path.name.startswith("akg-s")}
    trace = await soak(40, tmp_path)
    found = figures(trace)
    assert found["held"], found
    assert found["evaluations"] == 40
    assert sum(count for ended, count in found["outcomes"].items() if "right" in ended) >= 8
    after = {path.name for path in Path("/dev/shm").iterdir() if path.name.startswith("akg-s")}
    assert after == shared

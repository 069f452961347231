"""A short form of `python -m benchmarks soak`: many evaluations leave nothing behind.

Thirty are the fewest in which each kind of end comes in each of its forms.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.judge.soak import figures, soak


async def test_thirty_evaluations_leave_no_process_memory_or_descriptor_behind(
    tmp_path: Path,
) -> None:
    shared = {path.name for path in Path("/dev/shm").iterdir() if path.name.startswith("akg-s")}
    trace = await soak(30, tmp_path)
    found = figures(trace)
    assert found["unexpected"] == []
    assert found["held"], {kind: value for kind, value in found.items() if kind != "outcomes"}
    assert found["evaluations"] == 30
    assert sum(count for ended, count in found["outcomes"].items() if "right" in ended) >= 6
    after = {path.name for path in Path("/dev/shm").iterdir() if path.name.startswith("akg-s")}
    assert after == shared

"""Who descends from whom, read from `/proc`.

Only reads. The zygote uses it to find what its children left behind, the judge to see
whether a compiler is at work.
"""

from __future__ import annotations

from pathlib import Path


def parents() -> dict[int, int]:
    """Return the parent of every process that can be seen, by process id."""
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text("utf-8", "replace")
        except OSError:  # it ended while we looked
            continue
        # The name in brackets may hold spaces and brackets of its own.
        fields = text.rpartition(")")[2].split()
        found[int(entry.name)] = int(fields[1])
    return found


def children_of(pid: int) -> list[int]:
    """Return the direct children of `pid`, zombies among them."""
    return [child for child, parent in parents().items() if parent == pid]


def is_stopped(pid: int) -> bool:
    """Say whether every thread of `pid` is stopped or gone."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return True
    for thread in threads:
        try:
            text = (thread / "stat").read_text("utf-8", "replace")
        except OSError:
            continue
        if text.rpartition(")")[2].split()[0] not in "TtZX":
            return False
    return True

"""A picture of a timeline in plain text, like a profiler's: a row for each pipe.

Pure. One column stands for an equal part of the time; its sign tells how much of it the pipe works.
"""

from __future__ import annotations

from collections.abc import Sequence

from akg_tui.evaluate.evidence.ascend.pipe_model import LaunchEstimate, Row, Timeline

SHADES = " ░▒▓█"
ASCII_SHADES = " .+*#"
LEAST_COLUMNS = 8


def shares(row: Row, start: float, end: float, columns: int) -> list[float]:
    """Return for each column the share of its time in which the pipe works."""
    width = (end - start) / columns
    covered = [0.0] * columns
    if width <= 0:
        return covered
    for interval in row.intervals:
        first, last = (interval.start - start) / width, (interval.end - start) / width
        for at in range(max(0, int(first)), min(columns, int(last) + 1)):
            covered[at] += max(0.0, min(last, at + 1) - max(first, at))
    return [min(1.0, each) for each in covered]


def shade(share: float, shades: str = SHADES) -> str:
    """Return the sign of a share of time; any work at all is not blank."""
    top = len(shades) - 1
    return shades[0] if share <= 0 else shades[max(1, min(top, round(share * top)))]


def row_name(row: Row, timeline: Timeline) -> str:
    """Return a pipe's name, with that of its core where there are two kinds."""
    mixed = len({each.core for each in timeline.rows}) > 1
    return f"{row.core} {row.pipe}" if mixed else row.pipe


def picture(estimate: LaunchEstimate, columns: int, *, ascii_only: bool = False) -> list[str]:
    """Return the rows of an estimate's timeline, at most `columns` wide, under its scale.

    A row ends with the busy share of its pipe, of the programs' whole time.
    """
    timeline = estimate.timeline
    if timeline is None or not timeline.rows:
        return []
    names = [row_name(row, timeline) for row in timeline.rows]
    gutter = max(len(name) for name in names) + 1
    room = max(LEAST_COLUMNS, columns - gutter - len("|| 100%"))
    shades = ASCII_SHADES if ascii_only else SHADES
    told = [scale(timeline, gutter, room)]
    for name, row in zip(names, timeline.rows, strict=True):
        drawn = "".join(
            shade(share, shades) for share in shares(row, timeline.start, timeline.end, room)
        )
        busy = estimate.busy.get(name)
        share_text = "" if busy is None else f" {min(busy, 1.0):4.0%}"
        told.append(f"{name:<{gutter}}|{drawn}|{share_text}".rstrip())
    return [line[:columns] for line in told]


def scale(timeline: Timeline, gutter: int, room: int) -> str:
    """Return the line above the rows: what is shown, from when to when."""
    first, last = f"{timeline.start:.2f} us", f"{timeline.end:.2f} us"
    what = "one program" if timeline.whole else "iterations of one program"
    middle = room + 2 - len(first) - len(last)
    if middle < len(what) + 2:
        what = ""
    return " " * gutter + first + what.center(max(1, middle)) + last


def by_share(estimate: LaunchEstimate) -> Sequence[tuple[str, float]]:
    """Return the pipes with their busy shares, the busiest first."""
    return sorted(estimate.busy.items(), key=lambda each: (-each[1], each[0]))

"""Settled plan items folded by direction: what was tried, how often, and what came of it.

Pure. A direction is the knobs an item turns, or the words it begins with.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from akg_tui.core.machine import ItemState
from akg_tui.core.plain import one_line
from akg_tui.core.setting import read_setting
from akg_tui.core.state import Item

WORDS = 4  # of prose name a direction
WIDTH = 48
_HEAD = (
    "| direction | items | kept | discarded | failed | other | best ratio | last |",
    "|---|---|---|---|---|---|---|---|",
)
_COUNTED = (ItemState.KEPT, ItemState.DISCARDED, ItemState.FAILED)


@lru_cache(maxsize=8192)  # rendered anew after every event
def direction_of(text: str) -> str:
    """The knobs that `text` sets (what stands in brackets is only kept), or its first words."""
    turned = sorted(read_setting(text.partition("(with ")[0]))
    words = turned or text.lower().split()[:WORDS]
    return one_line(" ".join(words), WIDTH).replace("|", "¦")


def _row(name: str, items: Sequence[Item]) -> str:
    counts = [sum(item.state is state for item in items) for state in _COUNTED]
    ratios = [item.ratio.ratio for item in items if item.ratio is not None]
    best = f"{max(ratios):.3f}" if ratios else "-"
    cells = (len(items), *counts, len(items) - sum(counts), best, items[-1].id)
    return f"| {name} | " + " | ".join(map(str, cells)) + " |"


def folded_rows(items: Sequence[Item], room: int) -> list[str]:
    """A Markdown table of at most `room` characters, the directions with most items first.

    What has no room is told in a last row, so that the numbers of items add up.
    """
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(direction_of(item.text), []).append(item)
    ordered = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    rows = list(_HEAD)
    room -= sum(len(line) + 1 for line in rows) + 2 * WIDTH  # the last row's
    for index, (name, members) in enumerate(ordered):
        row = _row(name, members)
        if room - len(row) - 1 < 0:
            rest = [item for _, later in ordered[index:] for item in later]
            rest.sort(key=lambda item: item.round or 0)
            rows.append(_row(f"{len(ordered) - index} other directions", rest))
            break
        room -= len(row) + 1
        rows.append(row)
    return rows

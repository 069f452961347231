"""All settings that were measured, one short line each, for a searcher that must not repeat one.

Made when PLAN.md no longer shows them all. Lines of JSON under a heading: first the
knobs' names, then one line a setting with its values and, last, its speed over the seed
(null: it failed, or a person took it back). A line of names begins a new list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from akg_tui.core.machine import ItemState
from akg_tui.core.plan_view import split_settled
from akg_tui.core.setting import Value, read_setting
from akg_tui.core.state import Item, RunState

HEADING = "# Tried settings"

_TRIED = (ItemState.KEPT, ItemState.DISCARDED, ItemState.FAILED)


class Tried(Struct, frozen=True):
    """A measured setting. `over_seed` is its speed over the seed's; None: failed or undone."""

    setting: dict[str, Value]
    over_seed: float | None


def render_tried(state: RunState) -> str:
    """The list, or "" while PLAN.md shows every setting itself."""
    folded, _ = split_settled(state)
    # Rows of PLAN.md compare with the best of their time, which an undo takes back.
    if not any(read_setting(item.text) for item in (*folded, *_undone(state))):
        return ""
    lines = [HEADING]
    names: list[str] = []
    for item in state.items:
        setting = read_setting(item.text) if item.state in _TRIED else {}
        if not setting or item.attempt is None:
            continue
        ordered = sorted(setting)
        if ordered != names:
            names = ordered
            lines.append(json.dumps({"knobs": names}, separators=(",", ":")))
        attempt = state.attempts[item.attempt]
        failed = item.state is ItemState.FAILED or attempt.over_seed is None or item.undone
        speed = None if failed or attempt.over_seed is None else float(f"{attempt.over_seed:.5g}")
        row = [*(setting[name] for name in names), speed]
        lines.append(json.dumps(row, separators=(",", ":"), ensure_ascii=True))
    return "\n".join(lines)


def _undone(state: RunState) -> list[Item]:
    return [item for item in state.items if item.undone]


def read_tried(lines: Iterable[str]) -> list[Tried] | None:
    """The settings in the lines after the heading; None when a line is not of such a list."""
    names: list[str] = []
    found: list[Tried] = []
    for line in lines:
        try:
            plain = json.loads(line)
            if isinstance(plain, dict):
                names = msgspec.convert(plain, _Names).knobs
                continue
            *values, speed = msgspec.convert(plain, list[Value | None])
            tried = {"setting": dict(zip(names, values, strict=True)), "over_seed": speed}
            found.append(msgspec.convert(tried, Tried))
        except ValueError:  # includes msgspec's errors
            return None
    return found


class _Names(Struct, frozen=True, forbid_unknown_fields=True):
    knobs: list[str]

"""PLAN.md as a pure function of the state: what an agent re-reads and a person can diff.

Only conclusions that can be used again: direction, verdict, ratio with its interval,
a one-line reason, the commit. Deterministic to the byte, and never longer than a part of
a context window: settled history beyond its room folds into a table by direction, and
all of it stays in the journal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from akg_tui.core.directions import folded_rows
from akg_tui.core.machine import ItemState
from akg_tui.core.measurement import Interval
from akg_tui.core.plain import one_line
from akg_tui.core.state import Item, RunState

REASON_WIDTH = 120
ITEM_WIDTH = 400

# Room in characters. Together with the front matter and a diagnosis they stay below
# 24,000: 6,000 tokens at four characters a token.
OPEN_ROOM = 6_000
SETTLED_ROOM = 8_000
FOLDED_ROOM = 3_000
MAX_ADVICE = 20  # lines of a diagnosis, of each kind

PINNED = "!"  # the mark of an item that only a person drops

_OPEN = (ItemState.ACTIVE, ItemState.PENDING)
_CHECK = "check: "


def cell(text: str, width: int = REASON_WIDTH) -> str:
    """`text` as one cell of a Markdown table: one line, no bar."""
    return one_line(text, width).replace("|", "¦")


def _ratio(interval: Interval | None) -> str:
    return str(interval) if interval else "-"


def _row(item: Item) -> str:
    cells = (
        item.id,
        item.word,
        _ratio(item.ratio),
        cell(item.text, ITEM_WIDTH),
        cell(item.reason) or "-",
        item.commit[:7] or "-",
    )
    return "| " + " | ".join(cells) + " |"


def split_settled(state: RunState) -> tuple[list[Item], list[Item]]:
    """The settled items as (folded away, shown in full), each oldest first.

    The newest are shown, as many as have room. Of that room the kept ones take the first
    half, because they say what worked.
    """
    settled = [item for item in state.items if item.state not in _OPEN]
    shown: set[str] = set()
    room = SETTLED_ROOM
    kept = [item for item in settled if item.state is ItemState.KEPT]
    for items, floor in ((kept, SETTLED_ROOM // 2), (settled, 0)):
        for item in reversed(items):
            if item.id in shown:
                continue
            length = len(_row(item)) + 1
            if room - length < floor:
                break
            room -= length
            shown.add(item.id)
    folded = [item for item in settled if item.id not in shown]
    return folded, [item for item in settled if item.id in shown]


def _front_matter(state: RunState) -> list[str]:
    best = state.best
    return [
        f"run: {state.run_id}",
        f"op: {state.task.op}",
        f"target: {state.task.target.backend}",
        f"dsl: {state.task.target.dsl}",
        f"phase: {state.phase}",
        f"rounds: {state.settled}/{state.task.policy.max_rounds}",
        f"items: {len(state.items)}",
        f"best_attempt: {best.attempt if best else '-'}",
        f"best_commit: {best.commit if best else '-'}",
        f"best_over_seed: {best.over_seed:.3f}" if best else "best_over_seed: -",
        f"fail_streak: {state.fail_streak}",
    ]


def open_items(state: RunState) -> list[Item]:
    """The active item, if there is one, and the pending ones in their order."""
    active = [] if state.active is None else [state.item(state.active)]
    return active + list(state.pending)


def item_words(state: RunState) -> dict[str, tuple[str, str]]:
    """Text and rationale of each open item as PLAN.md shows them, cut to their room."""
    items = open_items(state)
    share = OPEN_ROOM // max(1, len(items)) - 20  # for the mark, the id and the brackets
    width = min(ITEM_WIDTH, max(20, share * 3 // 4))
    shown: dict[str, tuple[str, str]] = {}
    for item in items:
        text = cell(item.text, width)
        left = min(REASON_WIDTH, share - len(text))
        shown[item.id] = text, cell(item.rationale, left) if left >= 20 else ""
    return shown


def _open_items(state: RunState) -> list[str]:
    items = open_items(state)
    if not items:
        return ["No open item."]
    words = item_words(state)
    lines: list[str] = []
    for item in items:
        mark = ">" if item.state is ItemState.ACTIVE else PINNED if item.pinned else " "
        text, rationale = words[item.id]
        why = f" ({rationale})" if rationale else ""
        lines.append(f"- [{mark}] {item.id}: {text}{why}")
    return lines


def _conclusions(state: RunState) -> list[str]:
    folded, shown = split_settled(state)
    lines: list[str] = []
    if shown:
        lines += ["", "# Conclusions", "", "| id | state | ratio | item | reason | commit |"]
        lines += ["|---|---|---|---|---|---|", *map(_row, shown)]
    if folded:
        lines += ["", f"# {len(folded)} more conclusions, by direction", ""]
        lines += folded_rows(folded, FOLDED_ROOM)
    return lines


def _advice(word: str, texts: Sequence[str]) -> list[str]:
    return [f"- {word}: {cell(text)}" for text in texts[:MAX_ADVICE]]


def render_plan(state: RunState) -> str:
    """The whole of PLAN.md. Its `check` is of everything else in it: see `is_as_rendered`."""
    body = ["---", "", "# Plan", "", *_open_items(state), *_conclusions(state)]
    if state.diagnosis:
        body += ["", "# Diagnosis", "", cell(state.diagnosis.cause, 400)]
        body += _advice("avoid", state.diagnosis.avoid)
        body += _advice("try", state.diagnosis.directions)
    head = "\n".join(["---", *_front_matter(state)]) + "\n"
    tail = "\n".join(body) + "\n"
    return f"{head}{_CHECK}{_digest(head + tail)}\n{tail}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_as_rendered(text: str) -> bool:
    """Whether `text` is what `render_plan` made of some state, and nobody wrote in it since."""
    head, found, rest = text.partition(f"\n{_CHECK}")
    check, line_end, tail = rest.partition("\n")
    return bool(found and line_end) and check == _digest(f"{head}\n{tail}")

"""PLAN.md as a pure function of the state, for the agent to read again and a person to diff.

PLAN.md lists open items, and measured directions with verdict and ratio.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from akg_tui.core.kernel.knobs import read_setting
from akg_tui.core.phases import SETTLED, ItemState
from akg_tui.core.sanitize import clean, one_line
from akg_tui.core.state import Item, RunState
from akg_tui.core.summary import Ratios, best_of
from akg_tui.core.verdict import percent

REASON_WIDTH = 120
ITEM_WIDTH = 400

# Room in characters. The sum, with the front matter and a diagnosis, is below 24,000
# characters: 6,000 tokens at four characters a token.
OPEN_ROOM = 6_000
SETTLED_ROOM = 8_000
FOLDED_ROOM = 3_000
MAX_ADVICE = 20  # lines of each kind (avoid, try) in a diagnosis

PROVISIONAL = "provisional: the product of the kept ratios"
PINNED = "!"  # marks an item that only a person can drop
WAITING = "~"  # marks an item that waits for another measurement

_OPEN = (ItemState.ACTIVE, ItemState.PENDING)
_CHECK = "check: "


def cell(text: str, width: int | None = REASON_WIDTH) -> str:
    """Return `text` as one cell of a Markdown table: one line, bars replaced; None: not cut."""
    return one_line(text, width).replace("|", "¦")


def measured_before(state: RunState, item: Item) -> str:
    """Return what was measured of an open item before the incumbent changed, or ""."""
    if item.state not in _OPEN or item.ratio is None or state.waiting(item):
        return ""
    return f"measured against an earlier best kernel, not proved: {percent(item.ratio)}"


def _row(state: RunState, item: Item, *, whole: bool = False) -> str:
    before = measured_before(state, item)
    word: str = item.state.value if before else item.word
    if attempt := state.waiting(item):
        word = SETTLED.get(attempt.verdict, attempt.verdict).value
    cells = (
        item.id,
        word,
        str(item.ratio or "-"),
        cell(item.text, None if whole else ITEM_WIDTH),
        cell(before or item.reason, None if whole else REASON_WIDTH) or "-",
        item.commit[:7] or "-",
    )
    return "| " + " | ".join(cells) + " |"


def split_settled(state: RunState) -> tuple[list[Item], list[Item]]:
    """Return the measured and closed items as two lists (folded, shown), each oldest first.

    The newest items that fit in `SETTLED_ROOM` are shown. Kept items take up to half of the room
    first, because they record the changes that worked.
    """
    settled = [i for i in state.items if i.state not in _OPEN or i.attempt is not None]
    shown: set[str] = set()
    room = SETTLED_ROOM
    kept = [item for item in settled if item.state is ItemState.KEPT]
    for items, floor in ((kept, SETTLED_ROOM // 2), (settled, 0)):
        for item in reversed(items):
            if item.id in shown:
                continue
            length = len(_row(state, item)) + 1
            if room - length < floor:
                break
            room -= length
            shown.add(item.id)
    folded = [item for item in settled if item.id not in shown]
    return folded, [item for item in settled if item.id in shown]


def _front_matter(state: RunState) -> list[str]:
    best, ratios = state.best, best_of(state)
    return [
        f"run: {state.run_id}",
        f"op: {state.task.op}",
        f"target: {state.task.target.backend}",
        f"dsl: {state.task.target.dsl}",
        f"phase: {state.phase}",
        f"rounds: {state.rounds}/{state.task.policy.max_rounds}",
        f"items: {len(state.items)}",
        f"best_attempt: {best.attempt if best else '-'}",
        f"best_commit: {best.commit if best else '-'}",
        f"best_over_seed: {_over_seed(ratios)}",
        f"fail_streak: {state.fail_streak}",
    ]


def _over_seed(best: Ratios | None) -> str:
    """Return the speed of the best kernel over the seed; an estimate is named as such."""
    if best is None:
        return "-"
    told = f" ({PROVISIONAL})" if best.provisional else ""
    return f"{best.over_seed.ratio:.3f}{told}"


def open_items(state: RunState) -> list[Item]:
    """Return the active item, if there is one, and the pending items in their order."""
    active = [] if state.active is None else [state.item(state.active)]
    return active + list(state.pending)


def item_words(state: RunState) -> dict[str, tuple[str, str]]:
    """Return text and rationale of each open item by id, shortened as in PLAN.md."""
    items = open_items(state)
    share = OPEN_ROOM // max(1, len(items)) - 20  # for the mark, the id and the brackets
    width = min(ITEM_WIDTH, max(20, share * 3 // 4))
    shown: dict[str, tuple[str, str]] = {}
    for item in items:
        text = cell(item.text, width)
        left = min(REASON_WIDTH, share - len(text))
        shown[item.id] = text, cell(item.rationale, left) if left >= 20 else ""
    return shown


def _open_items(state: RunState, *, whole: bool) -> list[str]:
    items = open_items(state)
    if not items:
        return ["No open item."]
    words = item_words(state)
    if whole:
        words = {i.id: (cell(i.text, None), cell(i.rationale, None)) for i in items}
    lines: list[str] = []
    for item in items:
        mark = WAITING if state.waiting(item) else PINNED if item.pinned else " "
        mark = ">" if item.state is ItemState.ACTIVE else mark
        text, rationale = words[item.id]
        why = f" ({rationale})" if rationale else ""
        lines.append(f"- [{mark}] {item.id}: {text}{why}")
    return lines


def _conclusions(state: RunState, *, whole: bool) -> list[str]:
    folded, shown = split_settled(state)
    if whole:
        settled = {item.id for item in (*folded, *shown)}
        folded, shown = [], [item for item in state.items if item.id in settled]
    lines: list[str] = []
    if shown:
        lines += ["", "# Conclusions", "", "| id | state | ratio | item | reason | commit |"]
        lines += ["|---|---|---|---|---|---|"]
        lines += [_row(state, item, whole=whole) for item in shown]
    if folded:
        lines += ["", f"# {len(folded)} more conclusions, by direction", ""]
        lines += folded_rows(folded, FOLDED_ROOM)
    return lines


def _advice(word: str, texts: Sequence[str], *, whole: bool) -> list[str]:
    width, most = (None, None) if whole else (REASON_WIDTH, MAX_ADVICE)
    return [f"- {word}: {cell(text, width)}" for text in texts[:most]]


def render_plan(state: RunState, *, whole: bool = False) -> str:
    """Return the text of PLAN.md. Its `check` line is a digest of all other lines.

    `whole`: for a person, with no text cut and no conclusion folded.
    """
    opened, settled = _open_items(state, whole=whole), _conclusions(state, whole=whole)
    body = ["---", "", "# Plan", "", *opened, *settled]
    if found := state.diagnosis:
        body += ["", "# Diagnosis", "", cell(found.cause, None if whole else ITEM_WIDTH)]
        body += _advice("avoid", found.avoid, whole=whole)
        body += _advice("try", found.directions, whole=whole)
    head = "\n".join(map(clean, ["---", *_front_matter(state)])) + "\n"
    tail = "\n".join(map(clean, body)) + "\n"
    return f"{head}{_CHECK}{_digest(head + tail)}\n{tail}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_as_rendered(text: str) -> bool:
    """Return whether `text` is an unchanged output of `render_plan`, by its `check` line."""
    head, found, rest = text.partition(f"\n{_CHECK}")
    check, line_end, tail = rest.partition("\n")
    return bool(found and line_end) and check == _digest(f"{head}\n{tail}")


WORDS = 4  # words of prose in the name of a direction
WIDTH = 48
_HEAD = (
    "| direction | items | kept | discarded | failed | other | best ratio | last |",
    "|---|---|---|---|---|---|---|---|",
)
_COUNTED = ((ItemState.KEPT, ItemState.SHORTLISTED), (ItemState.DISCARDED,), (ItemState.FAILED,))
"""The states of the columns kept, discarded and failed."""


@lru_cache(maxsize=8192)  # because PLAN.md is rendered again after every event
def direction_of(text: str) -> str:
    """Return the knobs that `text` changes (without its "(with …)" part), or its first words."""
    turned = sorted(read_setting(text.partition("(with ")[0]))
    words = turned or text.lower().split()[:WORDS]
    return one_line(" ".join(words), WIDTH).replace("|", "¦")


def _direction_row(name: str, items: Sequence[Item]) -> str:
    counts = [sum(item.state in states for item in items) for states in _COUNTED]
    ratios = [item.ratio.ratio for item in items if item.ratio is not None]
    best = f"{max(ratios):.3f}" if ratios else "-"
    cells = (len(items), *counts, len(items) - sum(counts), best, items[-1].id)
    return f"| {name} | " + " | ".join(map(str, cells)) + " |"


def folded_rows(items: Sequence[Item], room: int) -> list[str]:
    """Return a Markdown table of at most `room` characters, directions with most items first.

    A last row sums up the directions without room, so that the numbers of items add up.
    """
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(direction_of(item.text), []).append(item)
    ordered = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    rows = list(_HEAD)
    room -= sum(len(line) + 1 for line in rows) + 2 * WIDTH  # reserved for the last row
    for index, (name, members) in enumerate(ordered):
        row = _direction_row(name, members)
        if room - len(row) - 1 < 0:
            rest = [item for _, later in ordered[index:] for item in later]
            rest.sort(key=lambda item: item.round or 0)
            rows.append(_direction_row(f"{len(ordered) - index} other directions", rest))
            break
        room -= len(row) + 1
        rows.append(row)
    return rows

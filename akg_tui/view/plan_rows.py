"""The plan as rows: one or two rows per item, with its measurement.

Pure. A row is built when it is drawn; an unfolded item shows all evidence for and against it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from akg_tui.core.measurement import digits
from akg_tui.core.phases import ItemState, Phase
from akg_tui.core.sanitize import one_line, split_clean
from akg_tui.core.state import Attempt, Item, RunState
from akg_tui.core.summary import ratios_of
from akg_tui.view import formatting
from akg_tui.view.attempt_rows import case_rows, error_rows, metric_rows
from akg_tui.view.glyphs import ITEM, PIN, UNPROVED
from akg_tui.view.language import retold, tr
from akg_tui.view.lazy_rows import OnDemand
from akg_tui.view.spans import (
    INDENT,
    Line,
    cells,
    cut_middle,
    excerpts,
    fit,
    hang,
    line,
    spread,
    width,
)

# Smallest number of columns at which a row shows full words and the reason.
ROOMY = 64
MAX_DETAIL = 12
LEAST_REASON = 8  # columns; in fewer the text of the item would lose its end to a reason of no use
ANY_ROOM = 1_000_000


class PlanRows(OnDemand[Line]):
    """The rows of a plan. Rows of unfolded items are stored, all others are built when drawn."""

    def __init__(
        self, items: Sequence[Item], each: int, room: int, unfolded: Mapping[int, list[Line]]
    ) -> None:
        self._items, self._each, self._room = items, each, room
        self._digits = _digits_of_id(items)
        self._unfolded = unfolded
        # The first row of each item, then the number of rows.
        self._starts: Sequence[int] = range(0, each * len(items) + 1, each)
        if unfolded:
            sizes = (len(unfolded.get(n, ())) or each for n in range(len(items)))
            self._starts = [0, *accumulate(sizes)]

    def span(self, place: int) -> range:
        """Return the rows of an item."""
        return range(self._starts[place], self._starts[place + 1])

    def __len__(self) -> int:
        return self._starts[-1]

    def _made(self, index: int) -> Line:
        place = bisect_right(self._starts, index) - 1
        row = index - self._starts[place]
        if place in self._unfolded:
            return self._unfolded[place][row]
        item = self._items[place]
        if self._each == 2:
            return _two_rows(item, self._digits, self._room)[row]
        return _one_row(item, self._digits, self._room)


@dataclass(frozen=True)
class PlanView:
    """The rows to draw, the row range of each item by its id, and the row of the current work."""

    rows: Sequence[Line]
    spans: Mapping[str, range]
    at: int


def plan_view(state: RunState, room: int, page: int, unfolded: Collection[str] = ()) -> PlanView:
    """Return the plan as one row per item: glyph, id, text, ratio and state.

    Where one row would cut or miss something and `page` rows suffice, an item has two: its text,
    then its result with the reason. `at` is the row of the active item, else of the first pending
    one.
    """
    if not state.items:
        return PlanView([fit(line((text, "muted")), room) for text in _no_plan(state)], {}, 0)
    items: Sequence[Item] = state.items
    pending = state.pending if state.queue or not state.active else ()
    if state.queue:
        # Pending items in the order of the queue, which may differ from their order in `items`.
        coming = iter(pending)
        items = [next(coming) if i.state is ItemState.PENDING else i for i in items]
    found = {
        place: evidence(state, item, _digits_of_id(items), room)
        for place, item in enumerate(items if unfolded else ())
        if item.id in unfolded
    }
    long = _digits_of_id(items)
    double = 2 * len(items) <= page and not all(
        _is_whole_in_one_row(item, long, room) for item in items
    )
    rows = PlanRows(items, 2 if double else 1, room, found)
    here = state.active or (pending[0].id if pending else "")
    spans = {item.id: rows.span(place) for place, item in enumerate(items)}
    return PlanView(rows, spans, spans[here].start if here in spans else len(rows) - 1)


def _digits_of_id(items: Sequence[Item]) -> int:
    """Return the columns of the longest id, that of the newest item: ``p`` and the item count."""
    return len(f"p{len(items)}")


def plan_subtitle(state: RunState) -> str:
    pending = len(state.pending)
    return tr("{number} to come", number=pending) if pending else ""


def _no_plan(state: RunState) -> tuple[str, ...]:
    if Phase.PLAN not in state.workflow.rows:
        return tr("no plan:"), tr("the agent writes the kernel")
    if state.phase is Phase.DONE:
        return tr("no plan:"), tr("the run ended before it")
    if state.best is None and state.phase in (Phase.INIT, Phase.BASELINE):
        return tr("no plan yet:"), tr("the baseline comes first")
    if state.best is None:
        return tr("no plan yet:"), tr("a correct kernel comes first")
    return tr("no plan yet:"), tr("the agent is to write one")


def _signs(item: Item) -> tuple[str, str, str, str]:
    """Return the glyph, the word, the short word and the role of an item's state."""
    return UNPROVED if item.inconclusive else ITEM[item.state]


_WITH = re.compile(r" \(with .*\)$")
_PAIR = re.compile(r'(\w+)=("[^"]*"|\S+)')
_LEAST_VALUE = 6


def label(text: str, room: int) -> str:
    """Return the text of an item for `room` columns so that it shows what the item changes.

    A setting that is too long is told without the values that stay, then without the names of
    values in words, then without the middle of the longest value.
    """
    if cells(text) <= room:
        return text
    text = _WITH.sub("", text)
    pairs = _PAIR.findall(text)
    if cells(text) <= room or not pairs or _PAIR.sub("", text).strip():
        return text
    told = [v.strip('"') if v.startswith('"') else f"{name}={v}" for name, v in pairs]
    over = cells(", ".join(told)) - room
    longest = max(told, key=cells)
    if over > 0 and cells(longest) - over >= _LEAST_VALUE:
        told[told.index(longest)] = cut_middle(longest, cells(longest) - over)
    return ", ".join(told)


def _head(item: Item, digits_of_id: int, room: int) -> Line:
    glyph, _, _, role = _signs(item)
    roles = {ItemState.ACTIVE: "item.active", ItemState.PENDING: "text"}
    text_role = roles.get(item.state, "muted")
    pin = f"{PIN} " if item.pinned and item.state is ItemState.PENDING else ""
    return line(
        (f"{glyph} {item.id:<{digits_of_id}} ", role),
        (pin, "note"),
        (label(one_line(item.text), room - digits_of_id - 3 - cells(pin)), text_role),
    )


def _state_words(item: Item) -> tuple[str, str, str]:
    """Return the state of an item as a word, as a short word, and their role."""
    _, word, short, role = _signs(item)
    return (item.word, "UNDO", "note") if item.undone else (word, short, role)


def _verdict(item: Item) -> str:
    return retold(formatting.verdict_reason(item.reason, item.ratio))


def _reason(item: Item) -> str:
    """Return the reason of the verdict, or before a verdict the rationale."""
    return _verdict(item) or retold(item.rationale)


def _bounds(item: Item, room: int) -> str:
    """Return the interval of the ratio, for a row with room for it."""
    found = item.ratio if room >= ROOMY else None
    return f"[{digits(found.low)}, {digits(found.high)}] " if found else ""


def _two_rows(item: Item, digits_of_id: int, room: int) -> list[Line]:
    word, _, role = _state_words(item)
    ratio = f"{formatting.times(item.ratio.ratio)} " if item.ratio else ""
    untried = item.state is ItemState.PENDING and item.attempt is None
    told = "" if untried else f"{word} "
    bounds = _bounds(item, room)
    figures = [(ratio, role), (bounds, "muted"), (told, role)] if bounds else [(ratio + told, role)]
    below = line(" " * (digits_of_id + 3), *figures, (_reason(item), "faint"))
    return [fit(_head(item, digits_of_id, room), room), fit(below, room)]


def _one_row(item: Item, digits_of_id: int, room: int) -> Line:
    left, right = _sides(item, digits_of_id, room)
    return spread(left, right, room) if right else fit(left, room)


def _is_whole_in_one_row(item: Item, digits_of_id: int, room: int) -> bool:
    left, right = _sides(item, digits_of_id, ANY_ROOM)
    return room >= ROOMY and width(left) + 1 + width(right) <= room


def _sides(item: Item, digits_of_id: int, room: int) -> tuple[Line, Line]:
    """Return the text with the reason, uncut, and the result, of one row of an item."""
    word, short, role = _state_words(item)
    ratio = formatting.times(item.ratio.ratio) if item.ratio else ""
    roomy = room >= ROOMY
    right: Line = ()
    if ratio or short or roomy:
        last = f"{word:<9}" if roomy else f"{short:<4}"
        right = line((f"{ratio:>6} ", role), (_bounds(item, room), "muted"), (last, role))
    left = _head(item, digits_of_id, room - (width(right) + 1 if right else 0))
    why = _reason(item)
    if roomy and why and room - width(left) - width(right) > LEAST_REASON:
        left = (*left, (f"  {why}", "faint"))
    return left, right


def evidence(state: RunState, item: Item, digits_of_id: int, room: int) -> list[Line]:
    """Return the evidence for and against an item as rows: text, measurement, verdict."""
    glyph = _signs(item)[0]
    _, _, role = _state_words(item)
    word = item.word
    lead = line((f"{glyph} {item.id:<{digits_of_id}} ", role))
    rows = hang(one_line(item.text), room, lead, "strong")
    pad = " " * INDENT

    def add(label: str, text: str, ink: str = "text") -> None:
        if text:
            rows.extend(hang(text, room, line((f"{pad}{label} ", "faint")), ink))

    add(tr("why"), retold(item.rationale))
    if item.state is not ItemState.PENDING or item.attempt is not None:
        told = tr("{word} in round {number}", word=word, number=item.round) if item.round else word
        add(tr("state"), told, role)
    if item.state is ItemState.PENDING and item.attempt is not None:
        waits = state.waiting(item) is not None
        again = tr("the harness measures the same kernel again when its turn comes")
        anew = tr("the best kernel changed since: the agent makes a new one")
        add(tr("then"), again if waits else anew)
    attempt = None if item.attempt is None else state.attempts[item.attempt]
    if item.ratio:
        add(tr("measured"), formatting.sure(item.ratio), role)
    if attempt is not None:
        for label, text in _figures(state, attempt):
            add(label, text)
    add(tr("verdict"), _verdict(item), role)
    if attempt is not None:
        found, inner = attempt.measurement, room - 2 * INDENT
        told_by = (*case_rows(found, inner), *metric_rows(found, inner), *error_rows(found, inner))
        rows += [((pad * 2, "text"), *each) for each in told_by]
        lines = [each for each in split_clean(attempt.measurement.detail) if each.strip()]
        for each in excerpts([retold(each) for each in lines[:MAX_DETAIL]], room - 2 * INDENT):
            rows += hang(each, room, line((pad * 2, "text")), "faint")
        told = tr("{number}, commit {commit}", number=attempt.number, commit=attempt.commit[:10])
        add(tr("attempt"), told, "muted")
    return [fit(row, room) for row in rows]


def _figures(state: RunState, attempt: Attempt) -> list[tuple[str, str]]:
    found = attempt.measurement
    told: list[tuple[str, str]] = []
    if times := formatting.call_times(found):
        pairs = f", {formatting.count(found.clusters, 'pair')}" if found.clusters else ""
        told.append((tr("time"), f"{times}{pairs}"))
    if found.deviation is not None:
        spread = tr("pairs differ by {spread}", spread=f"{found.deviation * 100:.1f} %")
        told.append((tr("noise"), spread))
    told += [(tr("noise"), retold(each)) for each in found.noise]
    told += [(tr("note"), retold(each)) for each in found.notes]
    if found.max_error is not None and found.tolerance is not None:
        told.append((tr("error"), formatting.error_of(found.max_error, found.tolerance)))
    if over := ratios_of(state, attempt):
        told.append((tr("overall"), formatting.overall(over)))
    return told

"""The plan as rows: an item in one or two, and its evidence where it is unfolded. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from akg_tui.core.machine import ItemState, Phase
from akg_tui.core.measurement import digits
from akg_tui.core.plain import one_line, split_clean
from akg_tui.core.state import Attempt, Item, RunState
from akg_tui.tui import words
from akg_tui.tui.glyphs import ITEM, PIN
from akg_tui.tui.language import tr
from akg_tui.tui.predicted import predicted
from akg_tui.tui.spans import INDENT, Line, fit, hang, line, spread

# From this many columns on, a row has room for words in full and for the reason.
ROOMY = 64
MAX_DETAIL = 12


@dataclass(frozen=True)
class PlanView:
    """`rows` to draw, which of them are of which item, and the row that work is at."""

    rows: list[Line]
    spans: dict[str, range]
    at: int


def plan_view(state: RunState, room: int, page: int, unfolded: Collection[str] = ()) -> PlanView:
    """Glyph, id, text, ratio and the word for its state: one row an item.

    Where `page` rows have room for it, an item has two: its text, and below it what became
    of it and why. Work is at the active item, else at the first to come.
    """
    if not state.items:
        return PlanView([fit(line((text, "muted")), room) for text in _no_plan(state)], {}, 0)
    digits_of_id = max(len(item.id) for item in state.items)
    double = room < ROOMY and 2 * len(state.items) <= page
    rows: list[Line] = []
    spans: dict[str, range] = {}
    at: int | None = None
    coming = iter(state.pending)
    for each in state.items:
        # The pending ones in the order in which they will be worked on.
        item = next(coming) if each.state is ItemState.PENDING else each
        begin = len(rows)
        if item.id == state.active or (at is None and item.state is ItemState.PENDING):
            at = begin
        if item.id in unfolded:
            rows += evidence(state, item, digits_of_id, room)
        elif double:
            rows += _two_rows(item, digits_of_id, room)
        else:
            rows.append(_one_row(item, digits_of_id, room))
        spans[item.id] = range(begin, len(rows))
    return PlanView(rows, spans, len(rows) - 1 if at is None else at)


def plan_subtitle(state: RunState) -> str:
    pending = len(state.pending)
    return tr("{number} to come", number=pending) if pending else ""


def _no_plan(state: RunState) -> tuple[str, ...]:
    if state.phase in (Phase.INIT, Phase.BASELINE):
        return tr("no plan yet:"), tr("the baseline comes first")
    return tr("no plan yet:"), tr("the agent is to write one")


def _head(item: Item, digits_of_id: int) -> Line:
    glyph, _, _, role = ITEM[item.state]
    roles = {ItemState.ACTIVE: "item.active", ItemState.PENDING: "text"}
    text_role = roles.get(item.state, "muted")
    return line(
        (f"{glyph} {item.id:<{digits_of_id}} ", role),
        (f"{PIN} " if item.pinned and item.state is ItemState.PENDING else "", "note"),
        (one_line(item.text), text_role),
    )


def _words(item: Item) -> tuple[str, str, str]:
    """Its state in a word, in a short one, and their role."""
    _, _, short, role = ITEM[item.state]
    return (item.word, "UNDO", "note") if item.undone else (item.word, short, role)


def _promise(item: Item) -> str:
    promised = predicted(item.text, item.rationale)
    return "" if promised is None else f"~{words.times(promised)}"


def _two_rows(item: Item, digits_of_id: int, room: int) -> list[Line]:
    word, _, role = _words(item)
    ratio = f"{words.times(item.ratio.ratio)} " if item.ratio else ""
    told = "" if item.state is ItemState.PENDING else f"{ratio}{word} "
    promise = "" if item.ratio else _promise(item)
    why = one_line(item.reason or item.rationale)
    below = line(
        " " * (digits_of_id + 3),
        (told, role),
        (f"{promise} " if promise else "", "figure"),
        (why, "faint"),
    )
    return [fit(_head(item, digits_of_id), room), fit(below, room)]


def _one_row(item: Item, digits_of_id: int, room: int) -> Line:
    word, short, role = _words(item)
    ratio = words.times(item.ratio.ratio) if item.ratio else _promise(item)
    roomy = room >= ROOMY
    left = _head(item, digits_of_id)
    why = one_line(item.reason or item.rationale)
    if roomy and why:
        left = (*left, (f"  {why}", "faint"))
    if not ratio and not short and not roomy:
        return fit(left, room)
    interval = item.ratio
    bounds = f"[{digits(interval.low)}, {digits(interval.high)}] " if interval and roomy else ""
    right = line(
        (f"{ratio:>6} ", role), (bounds, "muted"), (f"{word:<9}" if roomy else f"{short:<4}", role)
    )
    return spread(left, right, room)


def evidence(state: RunState, item: Item, digits_of_id: int, room: int) -> list[Line]:
    """All that speaks for and against an item: its words, its measurement, its verdict."""
    glyph = ITEM[item.state][0]
    word, _, role = _words(item)
    lead = line((f"{glyph} {item.id:<{digits_of_id}} ", role))
    rows = hang(one_line(item.text), room, lead, "strong")
    pad = " " * INDENT

    def add(label: str, text: str, ink: str = "text") -> None:
        if text:
            rows.extend(hang(text, room, line((f"{pad}{label} ", "faint")), ink))

    add(tr("why"), one_line(item.rationale))
    if promised := _promise(item):
        add(tr("promised"), promised, "figure")
    if item.state is not ItemState.PENDING:
        told = tr("{word} in round {number}", word=word, number=item.round) if item.round else word
        add(tr("state"), told, role)
    attempt = next((a for a in state.attempts if a.item == item.id), None)
    if item.ratio:
        add(tr("measured"), words.sure(item.ratio), role)
    if attempt is not None:
        for label, text in _figures(attempt):
            add(label, text)
    add(tr("verdict"), one_line(item.reason), role)
    if attempt is not None:
        lines = [each for each in split_clean(attempt.measurement.detail) if each.strip()]
        for each in lines[:MAX_DETAIL]:
            rows += hang(each, room, line((pad * 2, "text")), "faint")
        told = tr("{number}, commit {commit}", number=attempt.number, commit=attempt.commit[:10])
        add(tr("attempt"), told, "muted")
    return [fit(row, room) for row in rows]


def _figures(attempt: Attempt) -> list[tuple[str, str]]:
    found = attempt.measurement
    told: list[tuple[str, str]] = []
    if found.candidate_ms is not None and found.baseline_ms is not None:
        before, after = map(words.milliseconds, (found.baseline_ms, found.candidate_ms))
        pairs = f", {words.count(found.clusters, 'pair')}" if found.clusters else ""
        times = f"{before} → {tr('{time} a call', time=after)}"
        told.append((tr("time"), f"{times}{pairs}"))
    if found.max_error is not None and found.tolerance is not None:
        told.append((tr("error"), words.error_of(found.max_error, found.tolerance)))
    if attempt.over_seed is not None:
        told.append((tr("overall"), f"{words.times(attempt.over_seed)} {tr('the seed')}"))
    return told

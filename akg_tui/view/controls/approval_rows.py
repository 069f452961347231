"""The rows of the approval card, and of the dialog of gates and approval rules.

Pure: builds lines from a card or a state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from akg_tui.core.phases import Gate
from akg_tui.core.sanitize import Said
from akg_tui.core.state import Rule, RunState
from akg_tui.view.controls import approvals
from akg_tui.view.controls.approvals import Request
from akg_tui.view.controls.command_registry import chord_of, key_of, way_to
from akg_tui.view.formatting import count
from akg_tui.view.glyphs import DONE, IDLE
from akg_tui.view.language import tr, tr_in
from akg_tui.view.spans import BLANK, Line, cells, cut, first_rows, fit, hang, join, line, spread
from akg_tui.view.spans import width as columns

MOST_TITLE_ROWS, MOST_CHOICE_ROWS = 3, 4


@dataclass(frozen=True)
class Card:
    """The content of the card. `place` is the request's place in a queue of `many`, from 1.
    `again` is the answer that was called once and is given by a second call.
    """

    ask: Request | None
    armed: bool
    place: int = 1
    many: int = 1
    marked: int = 0
    again: str = ""


def _offered(ask: Request, again: str = "") -> list[tuple[str, str]]:
    """Return the commands that apply now, each with its word, the answers first."""
    words = {again: tr("once more: reject")}
    pairs = [(f"ask.{each.does}", words.get(each.does, each.word)) for each in ask.answers]
    if ask.choices:
        pairs.append(("ask.choice", tr("next")))
    if ask.kind == "question":
        pairs.append(("ask.write", tr("write") if ask.choices else tr("write an answer")))
    if ask.diff or ask.detail:
        pairs.append(("ask.see", tr("see the diff") if ask.diff else tr("read it")))
    return pairs


def offered_by(ask: Request, key: str) -> str:
    """Return the id of the command that the card offers on this key; "" if it offers none."""
    return next((command for command, _ in _offered(ask) if way_to(command) == key), "")


def offers(view: Card, ask: Request) -> list[tuple[str, str]]:
    """Return the keys that apply now, each with its word, the answers first."""
    return [(way_to(command), word) for command, word in _offered(ask, view.again)]


def chord_way(ask: Request) -> str:
    """Return the chords of the answers, for a terminal without alt: ``^g, then y n a``; "" unless
    all commands have chords that begin with one key.
    """
    ways = [chord_of(command) for command, _ in _offered(ask)]
    begin = {way.partition(" ")[0] for way in ways}
    if len(begin) != 1 or not all(ways):
        return ""
    return tr("or {key}, then {keys}", key=begin.pop(),
              keys=" ".join(way.partition(" ")[2] for way in ways))  # fmt: skip


def card_rows(view: Card, width: int, height: int) -> Sequence[Line]:
    """Return the rows of the card, at most `height`; below three, one row with all.

    The keys are always there, and what does not fit is marked as cut.
    """
    ask = view.ask
    if ask is None:
        return ()
    if height < 3:
        return [_one_row(ask, view, width)]
    for shorter in _ever_shorter(ask):
        told = _told_rows(shorter, view.marked, width)
        keys = _key_rows(view.armed, offers(view, shorter), chord_way(shorter), width)
        if len(told) + len(keys) <= height:
            break
    else:  # the choice that an answer would send stays in sight
        told = _told_rows(replace(shorter, choices=()), 0, width)
        keys = [*_choices(ask, view.marked, width, at_once=1), *keys][: height - 1]
        told = first_rows(told, height - len(keys), width)
    return [fit(row, width) for row in (*told, *keys)]


def _ever_shorter(ask: Request) -> Iterator[Request]:
    """Yield the request, then without the parts that can be missed, the least needed first.

    What "always" approves goes with its answer: nobody may give one without having read it.
    """
    yield ask
    ask = replace(ask, always="", answers=tuple(a for a in ask.answers if a.does != "always"))
    yield ask
    yield (ask := replace(ask, cost=""))
    yield replace(ask, about="")


def _told_rows(ask: Request, marked: int, width: int) -> list[Line]:
    head = line((f"{ask.title} ", "ask"), (ask.about, "text"))
    rows = [head] if columns(head) <= width else _title(ask, width)
    for n, effect in enumerate(ask.effects):
        rows += hang(effect, width, (), "text" if n else "strong")
    rows += _always(ask, width)
    rows += _choices(ask, marked, width)
    return [*rows, line((ask.cost, "muted"))] if ask.cost else rows


def _title(ask: Request, width: int) -> list[Line]:
    rows = first_rows(hang(ask.title, width, (), "ask"), MOST_TITLE_ROWS, width)
    return [*rows, line((ask.about, "text"))] if ask.about else rows


def _always(ask: Request, width: int) -> list[Line]:
    """Return what "always" approves, never cut: the rule covers only what this text states."""
    if not ask.always:
        return []
    lead = line((f"{tr('always')}: ", "text"))
    ends = tr("{key} ends the rule", key=way_to("run.gates"))
    return hang(f"{ask.always}; {ends}", width, lead, "text")


def _key_rows(armed: bool, keys: Sequence[tuple[str, str]], chords: str, width: int) -> list[Line]:
    """Return the keys on as few rows as possible; where there is room, the chords of the
    answers, and a note that typing never answers.
    """
    never = tr("typing never answers this")
    rows: list[Line] = []
    left = list(keys)
    while left:
        here = 1
        while here < len(left) and columns(_keys(True, left[: here + 1], "   ")) <= width:
            here += 1
        rows.append(_keys(True, left[:here], "   "))
        left = left[here:]
    if not armed:  # equally many rows, so that no row moves when the keys are armed
        rows = [_keys(False, (), ""), *(BLANK for _ in rows[1:])]
    last = rows.pop() if rows else BLANK
    both = f"{chords}   {never}" if chords else never
    for told in (both, chords, never):
        if told and columns(last) + cells(told) + 2 <= width:
            return [*rows, spread(last, line((told, "faint")), width)]
    return [*rows, last]


def _choices(ask: Request, marked: int, width: int, at_once: int = MOST_CHOICE_ROWS) -> list[Line]:
    """Return the choices around the marked one, at most `at_once`."""
    first = max(0, min(marked - (at_once > 1), len(ask.choices) - at_once))
    rows: list[Line] = []
    for number in range(first, min(len(ask.choices), first + at_once)):
        here = number == marked
        sign = "▸ " if here else "  "
        count = f"{number + 1}/{len(ask.choices)} "
        text = cut(ask.choices[number], max(4, width - len(count) - 2))
        rows.append(line((sign + count, "accent"), (text, "strong" if here else "text")))
    return rows


def _one_row(ask: Request, view: Card, width: int) -> Line:
    keys = _keys(view.armed, offers(view, ask)[:2], " ")
    title = line((f"{ask.title} ", "ask"))
    if columns(title) + columns(keys) > width:
        # The keys are more important than the number of the attempt.
        title = line((f"{ask.answers[0].word.upper() if ask.answers else tr('ASKED')}? ", "ask"))
        return fit((*title, *keys), width)
    return spread((*title, (ask.effects[0], "text")), keys, width)


def _keys(armed: bool, keys: Sequence[tuple[str, str]], gap: str) -> Line:
    if not armed:
        return line((tr("read first: the keys count in a moment"), "muted"))
    return join([line((key, "key"), (f" {word}", "text")) for key, word in keys], (gap, "text"))


ABOUT: dict[Gate, str] = {
    Gate.PLAN: Said("a new plan waits before its first item is worked on"),
    Gate.EDIT: Said("new code waits before it first runs"),
    Gate.KEEP: Said("a candidate waits before it becomes the best"),
    Gate.ASK: Said("the agent's questions come to you, not to their default"),
    Gate.SCRIPT: Said("a script of the agent waits before it runs"),
}
MOST_RULES = 4  # rules shown at once


def gate_rows(state: RunState, room: int) -> tuple[Line, ...]:
    """Return a row for each gate, with its key, and a row about the mode key."""
    rows: list[Line] = []
    on, off = tr_in("gate", "on"), tr_in("gate", "off")
    wide = max(cells(on), cells(off))
    for gate, about in ABOUT.items():
        set_ = gate in state.gates
        word = on if set_ else off
        glyph, role = (DONE, "verdict.keep") if set_ else (IDLE, "muted")
        sign = (f"{glyph} {word}{' ' * (wide - cells(word))}", role)
        name = (f"  {gate.value:<7}", "strong")
        rows.append(fit(line((f"{gate.value[0]} ", "key"), sign, name, tr(about)), room))
    mode = key_of("run.mode")
    sets = line((tr("a mode sets them all: "), "muted"), (mode, "key"), "  ") if mode else ()
    return (*rows, BLANK, (*sets, ("esc", "key")))


def rule_rows(state: RunState, at_row: int, room: int) -> tuple[Line, ...]:
    """Return the rules in force around the marked one, each with its request and use count."""
    rules = state.rules_in_force
    ended = len(state.rules) - len(rules)
    rows: list[Line] = []
    if rules:
        first = max(0, min(at_row - 1, len(rules) - MOST_RULES))
        shown = rules[first : first + MOST_RULES]
        head = tr("in your place: {rules}", rules=count(len(rules), "rule"))
        if len(shown) < len(rules):
            part = tr("{first} to {last} here", first=first + 1, last=first + len(shown))
            head = f"{head} ({part})"
        ends = (f" {tr('ends')}", "muted")
        rows.append(line((f"{head}  ", "muted"), ("↑ ↓", "key"), " ", ("x", "key"), ends))
        for at, rule in enumerate(shown, first):
            rows += _rule(rule, at == at_row, room)
    if ended:
        rows.append(
            line((tr("{rules} ended: the report lists all", rules=count(ended, "rule")), "muted"))
        )
    return (BLANK, *rows) if rows else ()


def _rule(rule: Rule, picked: bool, room: int) -> list[Line]:
    lead = line(("▸ " if picked else "  ", "accent"), (f"{rule.number} ", "strong"))
    told = {"scope": approvals.scope(rule.scope), "request": rule.gate, "times": rule.used}
    said = tr("{scope} (request {request}, used {times}×)", **told)
    return hang(said, room, lead, "strong" if picked else "text")

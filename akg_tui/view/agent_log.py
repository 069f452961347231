"""The agent log: a bounded list of entries that fold, wrapped for one width at a time.

Reads each record once; a log that is far behind skips to the newest records and counts the
skipped ones. Stores references to the newest events, never copies of their text. No I/O.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from akg_tui.core import events as ev
from akg_tui.core.sanitize import Said, clean, one_line, split_clean, trimmed
from akg_tui.core.state import RunState
from akg_tui.view import formatting
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.event_words import EventWords, words_of
from akg_tui.view.glyphs import FOLDED, OPEN, TOOL
from akg_tui.view.language import retold, tr, tr_in, translated
from akg_tui.view.spans import (
    BLANK,
    INDENT,
    Line,
    Span,
    excerpts,
    fit,
    hang,
    hang_spans,
    line,
    plain,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_ENTRIES = 2_000
SLICE = 250  # entries wrapped by one call, so that wrapping never blocks the screen
AT_ONCE = 60  # entries wrapped by a call that must not block: a screen has fewer rows
BRIEF_LINES = 6  # rows of a folded reply; a reply of at most as many lines does not fold
MAX_OUTPUT_LINES = 200
MAX_OPEN = 1_000  # unanswered tool calls stored; an answer to an older call lacks its call

MAX_STREAM_ROWS = 200
MAX_TEXT_LINES = 60

_FOLDING = frozenset({ev.ToolCalled, ev.ToolAnswered, ev.KernelEdited, ev.ModelReplied})

MOST_MARKDOWN = 4_000
"""The characters of a longer block of a reply are shown as they are."""

Paragraph = tuple[Line, str | Line, str]
"""The spans before the first row, the text, and the role of the text, unless its spans have one."""
Paragraphs = list[Paragraph]


def tell(event: ev.AnyEvent) -> Paragraphs:
    """Return the paragraphs of one event; none for an event that the log does not show."""
    words = words_of(event, "log")
    if words is None:
        return []
    if type(event) is ev.PhaseEntered:
        return [((("── ", "phase.rule"), (translated(words.text), words.role)), "", "text")]
    if not words.details:
        return [_paragraph(words)]
    return [_paragraph(words), *[_paragraph(each, "  ") for each in words.details]]


def _paragraph(words: EventWords, indent: str = "") -> Paragraph:
    lead = tuple([(f"{translated(text)} ", role) for text, role in words.lead])
    if indent and not lead:
        lead = ((indent, "text"),)
    return lead, clean(translated(words.text)), words.role


def paragraphs(text: str, role: str, *, most: int = MAX_TEXT_LINES) -> Paragraphs:
    """Return the lines of a text as paragraphs; lines beyond `most` are only counted."""
    lines = _some_lines(trimmed(text), most)
    return [((), each, role if n < most else "faint") for n, each in enumerate(lines)]


def reply(text: str) -> Paragraphs:
    """Return a model's reply, its Markdown as styles; lines beyond `MAX_TEXT_LINES` are counted.

    Only headings, lists, quotes, code and strong text have a style: any other mark may be a part of
    what is said, such as the ``*`` of a product, and stays. A block is read once.
    """
    lines = _some_lines(trimmed(text), MAX_TEXT_LINES)
    rest = [((), each, "faint") for each in lines[MAX_TEXT_LINES:]]
    found: Paragraphs = []
    for block in _blocks(lines[:MAX_TEXT_LINES]):
        found += [((), "", "text"), *_styled(block)] if found else _styled(block)
    return [*found, *rest]


_FENCE = re.compile(r" {0,3}(```|~~~)")
_MARKED = re.compile(r"[*_`#]|^ *(?:[-+>]|\d+[.)]) ", re.M)


def _blocks(lines: Iterable[str]) -> Iterator[str]:
    """Yield the parts between blank lines, those inside of fenced code not counted."""
    block: list[str] = []
    fenced = False
    for each in lines:
        fenced ^= bool(_FENCE.match(each))
        if each.strip() or fenced:
            block.append(each)
        elif block:
            yield "\n".join(block)
            block = []
    if block:
        yield "\n".join(block)


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # What would hide characters is off: links keep their address, escapes and entities stay.
    rules = ("html_block", "html_inline", "link", "image", "autolink", "entity", "escape", "code",
             "lheading", "reference")  # fmt: skip
    return MarkdownIt("commonmark", {"html": False}).disable(list(rules))


@lru_cache(maxsize=512)  # a reply that streams is read again as it grows
def _styled(block: str) -> Paragraphs:
    """Return one block of clean text as paragraphs."""
    as_it_is: Paragraphs = [((), each, "log.model") for each in block.split("\n")]
    if len(block) > MOST_MARKDOWN or not _MARKED.search(block):
        return as_it_is
    found: Paragraphs = []
    before = " " * (len(block) - len(block.lstrip(" ")))  # what goes on after an item's blank line
    markers: list[str] = []  # of the lists around, the innermost last; blanks once it was shown
    role = "log.model"
    for token in _markdown().parse(block):
        match token.type:
            case "bullet_list_open" | "ordered_list_open" | "blockquote_open":
                markers.append("│ " if token.markup == ">" else "")
            case "bullet_list_close" | "ordered_list_close" | "blockquote_close":
                markers.pop()
            case "list_item_open":
                markers[-1] = f"{token.info}{token.markup} " if token.info else "• "
            case "heading_open":
                role = "strong"
            case "heading_close":
                role = "log.model"
            case "hr":
                found.append(((), "───", "faint"))
            case "fence":
                lead = line(f"{before}{''.join(markers)}  ")
                found += [(lead, each, "text") for each in token.content.splitlines()]
            case "inline":
                for spans in _inline(token.children or [], role):
                    found.append((line((f"{before}{''.join(markers)}", "accent")), spans, role))
                    markers = [" " * len(m) if m != "│ " else m for m in markers]
            case _:
                pass
    return found or as_it_is


def _inline(children: Sequence[Token], role: str) -> list[Line]:
    """Return the lines of a paragraph with their roles."""
    lines: list[list[Span]] = [[]]
    strong = 0
    for child in children:
        if child.type in ("softbreak", "hardbreak"):
            lines.append([])
        elif child.type == "code_inline":
            lines[-1].append((child.content, "syn.type"))
        elif child.type == "strong_open" and not plain(tuple(lines[-1][-1:]))[-1:].isalnum():
            strong += 1
        elif child.type == "strong_close" and strong:
            strong -= 1
        elif text := child.content or child.markup:
            lines[-1].append((text, "strong" if strong else role))
    return [tuple(each) for each in lines]


def wrapped(entry: Sequence[Paragraph], room: int) -> list[Line]:
    """Wrap an entry into rows. A paragraph without text becomes one row with its lead."""
    if len(entry) == 1 and entry[0][1]:
        lead, text, role = entry[0]
        return _hung(text, room, lead, role)
    rows: list[Line] = []
    texts = [text if isinstance(text, str) else "" for _, text, _ in entry]
    for (lead, spans, role), text in zip(entry, excerpts(texts, room - INDENT), strict=True):
        if spans:
            rows += _hung(text or spans, room, lead, role)
        else:
            rows.append(fit(lead, room) if lead else BLANK)
    return rows


def _hung(text: str | Line, room: int, lead: Line, role: str) -> list[Line]:
    if isinstance(text, str):
        return hang(text, room, lead, role)
    return hang_spans(text, room, lead)


def tail(state: RunState, stream: str, room: int) -> list[Line]:
    """Return the rows below the last entry: the streamed reply and unanswered tool calls."""
    entry: Paragraphs = []
    if stream.strip():
        entry += reply(stream[-8_000:])
    for _, tool in state.open_calls:
        entry.append((((f"{TOOL} ", "log.tool"),), f"{one_line(tool)} …", "log.tool"))
    return wrapped(entry, room)[-MAX_STREAM_ROWS:]


def source(name: str) -> Span:
    """Return the span that names an entry's subagent; its text is empty for the main agent."""
    return (f"{one_line(name)} " if name else "", "accent")


def call_words(event: ev.ToolCalled) -> str:
    size = ""
    ops, items = event.arguments.get("ops"), event.arguments.get("items")
    if event.tool == "edit_kernel" and isinstance(ops, list):
        size = f" {formatting.count(len(ops), 'op')}"
    elif event.tool == "submit_plan" and isinstance(items, list):
        size = f" {formatting.count(len(items), 'item')}"
    return f"{one_line(event.tool)}{size}"


class Entry(msgspec.Struct):
    """One entry of the log. `more` builds its unfolded form; None if the entry does not fold.

    `brief` may be a function, which is called when the entry is first drawn.
    """

    brief: Paragraphs | Callable[[], Paragraphs]
    more: Callable[[], Paragraphs] | None = None
    unfolded: bool = False
    turn: bool = False  # a reply of the model, to which the keys `[` and `]` jump

    def rows(self, room: int) -> list[Line]:
        if callable(self.brief):
            self.brief = self.brief()
        if self.more is None:
            return wrapped(self.brief, room)
        (lead, text, role), *rest = self.more() if self.unfolded else self.brief
        sign = (f"{OPEN} ", "accent") if self.unfolded else (f"{FOLDED} ", role)
        return wrapped([((sign, *lead), text, role), *rest], room)


class AgentLog:
    """The log of one run, wrapped at `room` columns. A `read` takes at most the `newest` records.

    Entries are numbered from 0 and keep their numbers. The `unwrapped` oldest entries have no
    rows and are not in `numbers` until `catch_up` wraps them. A subclass that has more of a tool
    call than the journal holds overrides `whole`.
    """

    output_lines = MAX_OUTPUT_LINES

    def __init__(self, room: int = 40, newest: int = MAX_ENTRIES, *, at_once: int = SLICE) -> None:
        self._room = room
        self._newest = newest
        self._at_once = at_once
        self._clear()

    def _clear(self) -> None:
        self._entries: list[Entry] = []
        self._rows: list[Line] = []
        self._starts: list[int] = []  # the first row of each entry
        self._first = 0  # the number of the oldest stored entry
        self.unwrapped = 0  # the number of oldest stored entries without rows
        self._seen = 0
        self._calls: dict[str, ev.ToolCalled] = {}
        self._edit = ""
        self.skipped = 0
        self.dropped_rows = 0  # rows removed at the top, less those that `catch_up` restored

    @property
    def rows(self) -> Sequence[Line]:
        return self._rows

    @property
    def seen(self) -> int:
        """The number of records read."""
        return self._seen

    @property
    def numbers(self) -> range:
        """The numbers of the stored entries that have rows."""
        return range(self._first + self.unwrapped, self._first + len(self._entries))

    def read(self, records: Sequence[ev.Record], *, whole: bool = True) -> bool:
        """Read the new records; return True when a row was added or dropped.

        Without `whole`, new entries beyond `at_once` are left for `catch_up`.
        """
        if len(records) < self._seen:
            self._clear()  # fewer records than before: an earlier event is shown
        before = len(self._rows), self.skipped, self.dropped_rows
        start = max(self._seen, len(records) - self._newest)
        self.skipped += start - self._seen
        self._seen = len(records)
        fresh = [
            entry for record in records[start:] if (entry := self._entry(record.event)) is not None
        ]
        self._entries += fresh
        if not whole and len(fresh) > self._at_once:
            self._set_aside(len(self._entries) - self._at_once)
        else:
            for entry in fresh:
                self._starts.append(len(self._rows))
                self._rows += entry.rows(self._room)
        if len(self._entries) > MAX_ENTRIES + SLICE:
            self._drop(len(self._entries) - MAX_ENTRIES)
        return (len(self._rows), self.skipped, self.dropped_rows) != before

    def _set_aside(self, count: int) -> None:
        """Mark the oldest `count` entries as unwrapped, and wrap all later entries again."""
        self.dropped_rows += len(self._rows)
        self.unwrapped = count
        self._rows, self._starts = self._wrapped(self._entries[count:])

    def _wrapped(self, entries: Sequence[Entry]) -> tuple[list[Line], list[int]]:
        """Return the rows of the entries, and the index of the first row of each entry."""
        parts = [entry.rows(self._room) for entry in entries]
        starts = [0, *accumulate(map(len, parts))][:-1]
        return [row for rows in parts for row in rows], starts

    def catch_up(self) -> None:
        """Wrap the newest `SLICE` unwrapped entries and insert their rows above the others."""
        begin = max(0, self.unwrapped - SLICE)
        rows, starts = self._wrapped(self._entries[begin : self.unwrapped])
        self._rows[:0] = rows
        self._starts = [*starts, *(start + len(rows) for start in self._starts)]
        self.unwrapped = begin
        self.dropped_rows -= len(rows)

    def _drop(self, count: int) -> None:
        wrapped_too = max(0, count - self.unwrapped)
        self.unwrapped -= count - wrapped_too
        rows = self._starts[wrapped_too]
        self._starts = self._starts[wrapped_too:]
        self.skipped += count
        self.dropped_rows += rows
        self._first += count
        del self._entries[:count], self._rows[:rows]
        self._starts = [start - rows for start in self._starts]

    def resize(self, room: int, since: int | None = None) -> bool:
        """Wrap for another width; return False when `room` is already in use.

        Entries before the number `since` are left for `catch_up`; where `since` is None, all
        but the newest `AT_ONCE`.
        """
        if room == self._room:
            return False
        self._room = room
        newest = max(0, len(self._entries) - AT_ONCE)
        self._set_aside(newest if since is None else max(0, min(newest, since - self._first)))
        return True

    def at(self, row: int) -> int | None:
        """Return the number of the entry at a row; None outside the rows."""
        if not 0 <= row < len(self._rows):
            return None
        return self.numbers.start + bisect_right(self._starts, row) - 1

    def span(self, number: int) -> range:
        """Return the rows of an entry; an empty range for an entry without rows."""
        if number not in self.numbers:
            return range(0)
        index = number - self.numbers.start
        after = self._starts[index + 1] if index + 1 < len(self._starts) else len(self._rows)
        return range(self._starts[index], after)

    def folds(self, number: int) -> bool:
        """Return whether an entry can be folded and unfolded."""
        return number in self.numbers and self._entries[number - self._first].more is not None

    def fold(self, number: int) -> None:
        """Unfold a folded entry, or fold an unfolded one."""
        index = number - self._first
        entry = self._entries[index]
        entry.unfolded = not entry.unfolded
        old = self.span(number)
        rows = entry.rows(self._room)
        self._rows[old.start : old.stop] = rows
        grown = len(rows) - len(old)
        after = number - self.numbers.start + 1
        self._starts[after:] = [start + grown for start in self._starts[after:]]

    def turn(self, number: int, step: int) -> int | None:
        """Return the next model reply after an entry, or the previous one where `step` is -1."""
        index = number - self._first + step
        while self.unwrapped <= index < len(self._entries):
            if self._entries[index].turn:
                return self._first + index
            index += step
        return None

    def _entry(self, event: ev.AnyEvent) -> Entry | None:
        if type(event) not in _FOLDING:  # several times faster than `isinstance` per event
            told = tell(event)
            return Entry(told) if told else None
        if isinstance(event, ev.ToolCalled):
            self._calls[event.call] = event
            if len(self._calls) > MAX_OPEN:
                del self._calls[next(iter(self._calls))]
            return None
        if isinstance(event, ev.KernelEdited):
            note = f" {one_line(event.note)}" if event.note else ""
            self._edit = f" +{event.added} -{event.removed}{note}"
            return None
        if isinstance(event, ev.ToolAnswered):
            return self._answered(event)
        return _reply(event) if isinstance(event, ev.ModelReplied) else None

    def _answered(self, event: ev.ToolAnswered) -> Entry:
        call = self._calls.pop(event.call, None)
        told = self.call_told(call) if call else one_line(event.tool)
        edit, self._edit = ("", self._edit) if event.source else (self._edit, "")
        who: Line = (source(event.source),) if event.source else ()
        more = partial(self._in_full, call, event)
        if event.status == "success":
            # A question is put, and its answer is an event of its own.
            how = tr_in("question", "asked") if event.tool == "ask_user" else tr("ok")
            good = f"{told}{edit} {how}{self.size_told(event)}"
            return Entry([(who, good, "log.tool")], more)
        why = retold(split_clean(event.error_information.strip())[0])
        brief: Paragraphs = [
            (who, tr("{call} refused", call=told), "log.error"),
            ((("  ", "text"),), why, "log.error"),
        ]
        return Entry(brief, more)

    def call_told(self, call: ev.ToolCalled) -> str:
        """Return a call in a few words."""
        return call_words(call)

    def size_told(self, answer: ev.ToolAnswered) -> str:
        """Return the size of a successful answer as text; empty unless a subclass adds it."""
        return ""

    def _in_full(self, call: ev.ToolCalled | None, answer: ev.ToolAnswered) -> Paragraphs:
        return _call_in_full(*self.whole(call, answer), self.output_lines)

    def whole(
        self, call: ev.ToolCalled | None, answer: ev.ToolAnswered
    ) -> tuple[ev.ToolCalled | None, ev.ToolAnswered]:
        """Return the most complete call and answer available; called at each unfolding."""
        return call, answer

    def again(self) -> None:
        """Wrap all entries again after the text of an unfolded entry changed."""
        room, self._room = self._room, 0
        self.resize(room)


def _reply(event: ev.ModelReplied) -> Entry | None:
    text = translated(Said(event.text.strip()))
    if not text:
        return None
    lines = text.count("\n") + 1
    if lines <= BRIEF_LINES:
        return Entry(lambda: _by(event.source, reply(text)), turn=True)
    head = "\n".join(text.split("\n", BRIEF_LINES - 1)[: BRIEF_LINES - 1])
    hidden = formatting.count(lines - (BRIEF_LINES - 1), "more line")
    unfold = tr("({lines}: {key} unfolds)", lines=hidden, key=way_to("pane.open"))
    return Entry(
        lambda: _by(event.source, [*reply(head), ((), unfold, "faint")]),
        lambda: _by(event.source, reply(text)),
        turn=True,
    )


def _by(name: str, told: Paragraphs) -> Paragraphs:
    """Return `told` with the subagent's name before it; unchanged for the main agent."""
    if not name:
        return told
    (lead, text, role), *rest = told
    return [((source(name), *lead), text, role), *rest]


def _call_in_full(call: ev.ToolCalled | None, answer: ev.ToolAnswered, most: int) -> Paragraphs:
    """Return a tool call, its arguments and its answer, each text cut to `most` lines."""
    entry: Paragraphs = [((), f"{one_line(answer.tool)} {answer.status}", "log.tool")]
    indent: Line = (("  ", "text"),)
    for name, value in (call.arguments if call else {}).items():
        text = value if isinstance(value, str) else _json(value)
        first, *rest = _some_lines(text, most)
        entry.append(((*indent, (f"{one_line(name)} ", "muted")), first, "text"))
        entry += [(indent, each, "text") for each in rest]
    for text, role in ((answer.error_information, "log.error"), (answer.output, "muted")):
        if text.strip():
            entry.append((indent, tr("answer"), "faint"))
            entry += [(indent, each, role) for each in _some_lines(trimmed(text), most)]
    return entry


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _some_lines(text: str, most: int) -> list[str]:
    lines = split_clean(text)
    hidden = len(lines) - most
    if hidden <= 0:
        return lines
    more = tr("({lines}: in the journal)", lines=formatting.count(hidden, "more line"))
    return [*lines[:most], more]


def skipped_line(count: int, room: int) -> Line:
    note = tr("({lines}: in the journal)", lines=formatting.count(count, "earlier event"))
    return fit(((note, "faint"),), room)

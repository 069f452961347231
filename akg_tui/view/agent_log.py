"""The agent log: a bounded list of entries that fold, wrapped for one width at a time.

Reads each record once; a log that is far behind skips to the newest records and counts the
skipped ones. Stores references to the newest events, never copies of their text. No I/O.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate

import msgspec

from akg_tui.core import events as ev
from akg_tui.core.sanitize import Said, clean, one_line, split_clean, trimmed
from akg_tui.core.state import RunState
from akg_tui.view import formatting
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.event_words import EventWords, words_of
from akg_tui.view.glyphs import FOLDED, OPEN, TOOL
from akg_tui.view.language import retold, tr, tr_in, translated
from akg_tui.view.spans import BLANK, INDENT, Line, Span, excerpts, fit, hang

MAX_ENTRIES = 500  # newest entries that are kept: they are wrapped anew within 10 ms
AT_ONCE = 100  # entries that are dropped together
BRIEF_LINES = 6  # rows of a folded reply; a reply of at most as many lines does not fold
MAX_OUTPUT_LINES = 200
MAX_OPEN = 1_000  # unanswered tool calls stored; an answer to an older call lacks its call

MAX_STREAM_ROWS = 200
MAX_TEXT_LINES = 60

_FOLDING = frozenset({ev.ToolCalled, ev.ToolAnswered, ev.KernelEdited, ev.ModelReplied})

Paragraph = tuple[Line, str, str]
"""The spans before the first row, the text, and the role of the text."""
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


def wrapped(entry: Sequence[Paragraph], room: int) -> list[Line]:
    """Wrap an entry into rows. A paragraph without text becomes one row with its lead."""
    if len(entry) == 1 and entry[0][1]:
        lead, text, role = entry[0]
        return hang(text, room, lead, role)
    rows: list[Line] = []
    texts = [text for _, text, _ in entry]
    for (lead, _, role), text in zip(entry, excerpts(texts, room - INDENT), strict=True):
        if text:
            rows += hang(text, room, lead, role)
        else:
            rows.append(fit(lead, room) if lead else BLANK)
    return rows


def tail(state: RunState, stream: str, room: int) -> list[Line]:
    """Return the rows below the last entry: the streamed reply and unanswered tool calls."""
    entry: Paragraphs = []
    if stream.strip():
        entry += paragraphs(stream[-8_000:], "log.model")
    for _, tool in state.open_calls:
        entry.append((((f"{TOOL} ", "log.tool"),), f"{one_line(tool)} …", "log.tool"))
    return wrapped(entry, room)[-MAX_STREAM_ROWS:]


def source(name: str) -> Span:
    """Return the span that names an entry's subagent; its text is empty for the main agent."""
    return (f"{one_line(name)} " if name else "", "accent")


class Entry(msgspec.Struct):
    """One entry of the log. `more` builds its unfolded form; None if the entry does not fold."""

    brief: Paragraphs
    more: Callable[[], Paragraphs] | None = None
    unfolded: bool = False
    turn: bool = False  # a reply of the model, to which the keys `[` and `]` jump

    def rows(self, room: int) -> list[Line]:
        if self.more is None:
            return wrapped(self.brief, room)
        (lead, text, role), *rest = self.more() if self.unfolded else self.brief
        sign = (f"{OPEN} ", "accent") if self.unfolded else (f"{FOLDED} ", role)
        return wrapped([((sign, *lead), text, role), *rest], room)


class AgentLog:
    """The log of one run, wrapped at `room` columns. Reads at most `MAX_ENTRIES` records at once.

    Entries are numbered from 0 and keep their numbers.
    """

    def __init__(self, room: int = 40) -> None:
        self._room = room
        self._clear()

    def _clear(self) -> None:
        self._entries: list[Entry] = []
        self._rows: list[Line] = []
        self._starts: list[int] = []  # the first row of each entry
        self._first = 0  # the number of the oldest stored entry
        self._seen = 0
        self._calls: dict[str, ev.ToolCalled] = {}
        self._edit = ""
        self.skipped = 0
        self.dropped_rows = 0  # rows removed at the top

    @property
    def rows(self) -> Sequence[Line]:
        return self._rows

    @property
    def seen(self) -> int:
        """The number of records read."""
        return self._seen

    @property
    def numbers(self) -> range:
        """The numbers of the stored entries."""
        return range(self._first, self._first + len(self._entries))

    def read(self, records: Sequence[ev.Record]) -> None:
        """Read the new records."""
        if len(records) < self._seen:
            self._clear()  # fewer records than before: an earlier event is shown
        start = max(self._seen, len(records) - MAX_ENTRIES)
        self.skipped += start - self._seen
        self._seen = len(records)
        for record in records[start:]:
            if (entry := self._entry(record.event)) is not None:
                self._entries.append(entry)
                self._starts.append(len(self._rows))
                self._rows += entry.rows(self._room)
        if len(self._entries) > MAX_ENTRIES + AT_ONCE:
            self._drop(len(self._entries) - MAX_ENTRIES)

    def _drop(self, count: int) -> None:
        rows = self._starts[count]
        self._starts = [start - rows for start in self._starts[count:]]
        self.skipped += count
        self.dropped_rows += rows
        self._first += count
        del self._entries[:count], self._rows[:rows]

    def resize(self, room: int) -> bool:
        """Wrap for another width; return False when `room` is already in use."""
        if room == self._room:
            return False
        self._room = room
        parts = [entry.rows(room) for entry in self._entries]
        self._starts = [0, *accumulate(map(len, parts))][:-1]
        self._rows = [row for rows in parts for row in rows]
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
        while 0 <= index < len(self._entries):
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
        more = partial(self.in_full, call, event)
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
        return one_line(call.tool)

    def size_told(self, answer: ev.ToolAnswered) -> str:
        """Return the size of a successful answer as text; empty unless a subclass adds it."""
        return ""

    def in_full(self, call: ev.ToolCalled | None, answer: ev.ToolAnswered) -> Paragraphs:
        """Return a call, its arguments and its answer, each text cut to `MAX_OUTPUT_LINES`."""
        entry: Paragraphs = [((), f"{one_line(answer.tool)} {answer.status}", "log.tool")]
        indent: Line = (("  ", "text"),)
        for name, value in (call.arguments if call else {}).items():
            text = value if isinstance(value, str) else _json(value)
            first, *rest = _some_lines(text, MAX_OUTPUT_LINES)
            entry.append(((*indent, (f"{one_line(name)} ", "muted")), first, "text"))
            entry += [(indent, each, "text") for each in rest]
        for text, role in ((answer.error_information, "log.error"), (answer.output, "muted")):
            if text.strip():
                entry.append((indent, tr("answer"), "faint"))
                lines = _some_lines(trimmed(text), MAX_OUTPUT_LINES)
                entry += [(indent, each, role) for each in lines]
        return entry


def _reply(event: ev.ModelReplied) -> Entry | None:
    text = translated(Said(event.text.strip()))
    if not text:
        return None
    lines = text.count("\n") + 1
    if lines <= BRIEF_LINES:
        return Entry(_by(event.source, paragraphs(text, "log.model")), turn=True)
    head = "\n".join(text.split("\n", BRIEF_LINES - 1)[: BRIEF_LINES - 1])
    hidden = formatting.count(lines - (BRIEF_LINES - 1), "more line")
    unfold = tr("({lines}: {key} unfolds)", lines=hidden, key=way_to("pane.open"))
    return Entry(
        _by(event.source, [*paragraphs(head, "log.model"), ((), unfold, "faint")]),
        lambda: _by(event.source, paragraphs(text, "log.model")),
        turn=True,
    )


def _by(name: str, told: Paragraphs) -> Paragraphs:
    """Return `told` with the subagent's name before it; unchanged for the main agent."""
    if not name:
        return told
    (lead, text, role), *rest = told
    return [((source(name), *lead), text, role), *rest]


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

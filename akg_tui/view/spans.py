"""A line of the screen as a value: pieces of text, each with a colour role.

Pure. Measures, cuts, wraps and joins lines by terminal columns; a theme colours the roles later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from rich.cells import cell_len, chop_cells

Span = tuple[str, str]
"""Text and its role. Roles are joined with ``|``; a later role overrides an earlier one."""

Line = tuple[Span, ...]

ELLIPSIS = "…"
INDENT = 2
BLANK: Line = ()

_cells = lru_cache(maxsize=4096)(cell_len)


def cells(text: str) -> int:
    """Return the number of columns that `text` takes."""
    return len(text) if text.isascii() else _cells(text)


def width(line: Line) -> int:
    total = 0
    for text, _ in line:  # `sum` of a generator takes twice as long
        total += cells(text)
    return total


def line(*parts: Span | str) -> Line:
    """Return a line of parts; a bare string has the role ``text``. Empty parts are left out."""
    spans = ((part, "text") if isinstance(part, str) else part for part in parts)
    return tuple(span for span in spans if span[0])


def plain(spans: Line) -> str:
    """Return the text of a line without roles."""
    return "".join(text for text, _ in spans)


def cut(text: str, room: int) -> str:
    """Return `text` in at most `room` columns; a cut text ends with an ellipsis."""
    if cells(text) <= room:
        return text
    if room <= 1:
        return ELLIPSIS[:room]
    return chop_cells(text, room - 1)[0] + ELLIPSIS


def cut_middle(text: str, room: int) -> str:
    """Return `text` in at most `room` columns; an ellipsis replaces the middle of a long text."""
    if cells(text) <= room or room < 3:
        return cut(text, room)
    head = chop_cells(text, (room - 1) // 3)[0]
    at = len(head)
    while cells(head) + 1 + cells(text[at:]) > room:
        at += 1
    return head + ELLIPSIS + text[at:]


def fit(spans: Line, room: int) -> Line:
    """Return the line in at most `room` columns; a cut line ends with an ellipsis."""
    if width(spans) <= room:
        return spans
    fitted: list[Span] = []
    for text, role in spans:
        taken = cells(text)
        # More text follows, or this span is too long: one column is left for the ellipsis.
        if taken >= room:
            fitted.append((cut(f"{text} ", room), role))
            return tuple(fitted)
        fitted.append((text, role))
        room -= taken
    return tuple(fitted)


def first_rows(rows: list[Line], count: int, room: int) -> list[Line]:
    """Return the first `count` rows; if others are left out, the last one ends with an ellipsis."""
    if len(rows) <= count:
        return rows
    last = rows[count - 1]
    return [*rows[: count - 1], fit((*last, (f" {ELLIPSIS}", last[-1][1])), room)]


def spread(left: Line, right: Line, room: int) -> Line:
    """Return `left` and `right` at the two ends of `room` columns; `left` is cut to fit."""
    used = width(right)
    if used + 1 > room:
        return fit(left, room)
    left = fit(left, room - used - 1)
    return (*left, (" " * (room - used - width(left)), "text"), *right)


def join(parts: Iterable[Line], separator: Span) -> Line:
    """Join the non-empty parts into one line with `separator` between them."""
    joined: list[Span] = []
    for part in parts:
        if part:
            joined += [separator, *part] if joined else part
    return tuple(joined)


def wrap(text: str, room: int, *, first: int | None = None) -> list[str]:
    """Wrap one line of text to `room` columns, at blanks where possible.

    `first` is the room on the first line, if different. Only the first line keeps an indent.
    Room below 1 counts as 1.
    """
    room = max(1, room)
    here = room if first is None else max(1, first)
    if cells(text) <= here:
        return [text]
    if text.isascii() and text[0] != " ":
        return _wrap_ascii(text, room, here)
    return _wrap_words(text, room, here)


def _wrap_ascii(text: str, room: int, here: int) -> list[str]:
    """Wrap as `_wrap_words` does, but by slices, several times faster. Each character must be
    one column wide, and the text must begin with a word.
    """
    lines: list[str] = []
    at, end = 0, len(text)
    while end - at > here:
        blank = text.rfind(" ", at, at + here + 1)
        if blank < 0:
            lines.append(text[at : at + here])
            at += here
        else:
            lines.append(text[at:blank])
            at = blank + 1
            while at < end and text[at] == " ":
                at += 1
        here = room
    lines.append(text[at:])
    return lines


# Chinese breaks between any two characters, except before a closing and after an opening mark.
_CHINESE = "\u3000-\u30ff\u3400-\u9fff\uff00-\uffef"
_CLOSING, _OPENING = "，。：；！？、）】》”…", "（【《“"
_UNIT = re.compile(f"[{_OPENING}]*(?:[^{_CHINESE}]+|[{_CHINESE}])[{_CLOSING}]*")


def _units(word: str) -> list[str]:
    """Return the pieces of a word between which a line may break."""
    return [word] if word.isascii() else _UNIT.findall(word)


def _wrap_words(text: str, room: int, here: int) -> list[str]:
    lines: list[str] = []
    current = ""
    for number, word in enumerate(text.split(" ")):
        for place, unit in enumerate(_units(word)):
            blank = " " if not place and number and (current or not lines) else ""
            candidate = f"{current}{blank}{unit}"
            if cells(candidate) <= here:
                current = candidate
                continue
            if current.strip():
                lines.append(current)
                here = room
            current = unit
            while cells(current) > here:
                piece = chop_cells(current, here)[0] or current[:1]
                lines.append(piece)
                current = current[len(piece) :]
                here = room
    lines.append(current)
    return lines


_CARET = re.compile(r"[\s|]*[\^~][\s|\^~]*")


def excerpts(lines: Sequence[str], room: int) -> list[str]:
    """Return the lines; a line of source with a caret below it is cut with it, never wrapped.

    Both lose the same columns, so that the caret stays in sight and below its place.
    """
    shown = list(lines)
    for number in range(1, len(shown)):
        source, caret = lines[number - 1], lines[number]
        if (cells(source) <= room and cells(caret) <= room) or not _CARET.fullmatch(caret):
            continue
        start = max(0, min(len(caret) - len(caret.lstrip(" |")) - room // 2, len(source) - room))
        for at, text, mark in ((number - 1, source, ELLIPSIS), (number, caret, " ")):
            shown[at] = cut(mark + text[start + 1 :] if start else text, room)
    return shown


def hang(text: str, room: int, lead: Line, role: str, *, indent: int = INDENT) -> list[Line]:
    """Wrap `text` after `lead`; later lines are indented by at most `indent` columns."""
    taken = width(lead) if lead else 0
    if cells(text) + taken <= room:
        return [(*lead, (text, role)) if text else lead]
    indent = min(taken, indent)
    head, *rest = wrap(text, room - indent, first=room - taken)
    top = (*lead, (head, role)) if head else lead
    return [top, *(((" " * indent, "text"), (row, role)) for row in rest)]

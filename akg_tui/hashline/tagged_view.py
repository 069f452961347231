"""The tagged view: a document as text in which every line begins with its anchor.

Pure rendering. After ``|`` the content is exactly that of the file, including tabs and control
characters: code that prints a view on a terminal must sanitize it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from akg_tui.hashline.document import Document
from akg_tui.hashline.splice import EditResult
from akg_tui.hashline.tags import Tagger


class BadRange(ValueError):
    """The requested lines do not exist."""


def render(document: Document, tagger: Tagger, *, first: int = 1, last: int | None = None) -> str:
    """Return the view for a model: a header, then ``42sr|text`` for each line.

    - `first, last`: numbers of the first and last line to show, both included. A `last` beyond the
      end of the file means its last line.

    Raises `BadRange` if no line is between `first` and `last`. The view of an empty file is its
    header.
    """
    count = len(document.lines)
    numbers = rendered(document, first, last)
    header = f"@{header_name(document)} sha={document.sha256[:8]} {_count(count)}"
    if len(numbers) != count:
        header += f", {first} to {numbers.stop - 1} shown"
    return "\n".join([header, *_rows(document, tagger, numbers)])


def rendered(document: Document, first: int, last: int | None) -> range:
    """Return the numbers of the lines that `render` shows. Raises `BadRange` as `render` does."""
    count = len(document.lines)
    end = count if last is None else min(last, count)
    if first < 1 or (end < first and (count or first > 1)):
        asked = f"{first} to {'the end' if last is None else last}"
        raise BadRange(f"{document.path} has {_count(count)}; there is none from {asked}")
    return range(first, end + 1)


def render_around(document: Document, tagger: Tagger, numbers: Iterable[int]) -> str:
    """Return the tagged lines within two of `numbers`, with ``...`` for omitted lines."""
    return "\n".join(_parted(document, tagger, around(document, numbers)))


def render_lines(document: Document, tagger: Tagger, numbers: Sequence[int]) -> str:
    """Return the header and the tagged lines `numbers`, with ``...`` for omitted lines."""
    header = f"@{header_name(document)} sha={document.sha256[:8]} {_count(len(document.lines))}"
    return "\n".join([header, *_parted(document, tagger, numbers)])


def _parted(document: Document, tagger: Tagger, shown: Sequence[int]) -> list[str]:
    rows: list[str] = []
    for previous, number in zip([None, *shown], shown, strict=False):
        if previous is not None and number != previous + 1:
            rows.append("...")
        rows += _rows(document, tagger, (number,))
    return rows


def around(document: Document, numbers: Iterable[int]) -> list[int]:
    """Return the numbers of the lines within two of `numbers`, in order."""
    near = {number + step for number in numbers for step in range(-2, 3)}
    return sorted(number for number in near if 1 <= number <= len(document.lines))


def render_result(result: EditResult, tagger: Tagger) -> str:
    """Return the answer to an accepted edit: the tags of the new lines.

    The writer of the edit knows their text, and the tags of other lines still lead to them.
    """
    document = result.document
    tags = " ".join(f"{n}{tagger.tag(n, document.lines[n - 1])}" for n in result_lines(result))
    header = (
        f"OK {header_name(document)} sha={document.sha256[:8]} {_count(len(document.lines))}, "
        f"+{result.added} -{result.removed}"
    )
    return f"{header}; now {tags}" if tags else header


def result_lines(result: EditResult) -> list[int]:
    """Return the numbers of the new lines, which `render_result` names."""
    return [
        number
        for hunk in result.hunks
        for number in range(hunk.new_start, hunk.new_start + len(hunk.added))
    ]


def header_name(document: Document) -> str:
    """Return path and revision on one line, with unprintable characters escaped."""
    path = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in document.path)
    return f"{path} r{document.revision}"


def _rows(document: Document, tagger: Tagger, numbers: Iterable[int]) -> list[str]:
    lines, tag = document.lines, tagger.tag
    return [
        f"{number}{tag(number, text)}|{text}" for number in numbers for text in (lines[number - 1],)
    ]


def _count(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines} lines"

"""Documents and edit batches for property tests, and the oracle they are checked against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from akg_tui.hashline import (
    Document,
    EditRejected,
    EditRequest,
    EditResult,
    EditSession,
    Tagger,
    parse_ops,
)

TAGGER = Tagger(b"a fixed key for tests")

# Few different lines, so that textual twins are the rule, and a few odd ones.
TWINS = st.sampled_from(
    ["", "}", "    x = 1", "    x = 1 ", "\tx = 1", "x = 1", "# \x0c\x85\u2028"]
)
LINES = st.one_of(
    TWINS,
    st.text(
        st.characters(blacklist_categories=("Cs",), blacklist_characters="\n\r\ufeff"),
        max_size=12,
    ),
)
NEWLINES = st.sampled_from(["\n", "\r\n"])


@st.composite
def documents(draw: st.DrawFn, min_lines: int = 0, max_lines: int = 12) -> Document:
    """Any mix of line endings, with or without byte order mark and final newline."""
    lines = draw(st.lists(LINES, min_size=min_lines, max_size=max_lines))
    endings = [draw(NEWLINES) for _ in lines]
    if lines and lines[-1] and draw(st.booleans()):
        endings[-1] = ""
    bom = draw(st.sampled_from(["", "\ufeff"]))
    text = bom + "".join(line + ending for line, ending in zip(lines, endings, strict=True))
    return Document.from_text(text, path="kernel.txt", revision=draw(st.integers(0, 9)))


@dataclass(frozen=True)
class Batch:
    """Disjoint operations in JSON form, and the lines an oracle says they lead to."""

    ops: list[dict[str, Any]]
    expected: list[str]


def anchor(document: Document, number: int) -> str:
    return f"{number}{TAGGER.tag(number, document.lines[number - 1])}"


@st.composite
def batches(draw: st.DrawFn, document: Document) -> Batch:
    """Operations with no line in common and no two inserts in one gap.

    The expected lines come from one walk over the old file that asks of each gap what goes
    in and of each line whether it stays, which shares no step with the splice under test.
    """
    count = len(document.lines)
    payloads = st.lists(LINES, min_size=1, max_size=3)
    ops: list[dict[str, Any]] = []
    into_gap: dict[int, list[str]] = {}
    instead: dict[int, list[str]] = {}
    gone: set[int] = set()
    number = 1
    while number <= count:
        kind = draw(st.sampled_from(["keep", "keep", "replace", "delete"]))
        if kind == "keep":
            number += 1
            continue
        stop = min(count, number + draw(st.integers(0, 3)))
        op: dict[str, Any] = {"op": kind, "from": anchor(document, number)}
        if stop > number or draw(st.booleans()):
            op["to"] = anchor(document, stop)
        if kind == "replace":
            op["lines"] = instead[number] = draw(payloads)
        gone |= set(range(number, stop + 1))
        ops.append(op)
        number = stop + 1
    inside = {n for op in ops if "to" in op for n in _interior_gaps(op)}
    for gap in range(count + 1):
        if gap in inside or draw(st.integers(0, 3)) != 0:
            continue
        into_gap[gap] = draw(payloads)
        ops.append(_insert(draw, document, gap, into_gap[gap]))
    expected: list[str] = []
    for gap in range(count + 1):
        expected += into_gap.get(gap, [])
        line = gap + 1
        expected += instead.get(line, [])
        if line <= count and line not in gone:
            expected.append(document.lines[gap])
    return Batch(ops, expected)


def _interior_gaps(op: dict[str, Any]) -> range:
    return range(int(op["from"][:-2]), int(op["to"][:-2]))


def _insert(draw: st.DrawFn, document: Document, gap: int, lines: list[str]) -> dict[str, Any]:
    count = len(document.lines)
    ways: list[dict[str, Any]] = []
    if gap > 0:
        ways.append({"after": anchor(document, gap)})
    if gap < count:
        ways.append({"before": anchor(document, gap + 1)})
    if gap == 0:
        ways.append({"at": "head"})
    if gap == count:
        ways.append({"at": "tail"})
    return {"op": "insert", **draw(st.sampled_from(ways)), "lines": lines}


def session_of(served: Document) -> EditSession:
    """A reader who has seen the whole of `served`."""
    session = EditSession(served, TAGGER)
    session.view()
    return session


def edit(
    document: Document,
    raw: list[dict[str, Any]],
    *,
    served: Document | None = None,
    allow_dup: bool = True,
) -> EditResult:
    """The edit of a reader who saw `served`, made to the file that now is `document`.

    Rows that repeat their neighbour are the rule in these documents, so they are allowed.
    """
    request = EditRequest(parse_ops(raw), allow_dup=allow_dup)
    return session_of(served or document).check(request, current=document).result


def rejection(
    document: Document,
    raw: list[dict[str, Any]],
    *,
    served: Document | None = None,
    allow_dup: bool = True,
) -> EditRejected:
    """The rejection an edit must meet; the test fails if it is accepted."""
    before = document.data
    with pytest.raises(EditRejected) as caught:
        edit(document, raw, served=served, allow_dup=allow_dup)
    assert document.data == before
    assert str(caught.value).startswith("REJECTED, nothing was written")
    return caught.value


def kernel(text: str, *, path: str = "kernel.txt") -> Document:
    return Document.from_text(text, path=path)

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from akg_tui.hashline import Document, EditRejected, Tagger, apply, parse_ops
from akg_tui.hashline.tags import ALPHABET

from .strategies import LINES, NEWLINES, anchor, documents, edit, kernel, rejection


def _with_line(document: Document, number: int, line: str, ending: str) -> Document:
    lines, endings = list(document.lines), list(document.endings)
    lines[number - 1], endings[number - 1] = line, ending
    mark = "\ufeff" if document.has_bom else ""
    text = mark + "".join(a + b for a, b in zip(lines, endings, strict=True))
    return Document.from_text(text, path=document.path, revision=document.revision + 1)


@given(st.data())
def test_a_change_of_any_line_in_the_range_makes_the_edit_stale(data: st.DataObject) -> None:
    """Interior lines, indent, trailing blanks and line endings count as much as the ends."""
    served = data.draw(documents(min_lines=1))
    count = len(served.lines)
    start = data.draw(st.integers(1, count))
    stop = data.draw(st.integers(start, count))
    number = data.draw(st.integers(start, stop))
    old = (served.lines[number - 1], served.endings[number - 1])
    new = (data.draw(LINES), data.draw(NEWLINES))
    assume(new != old and not (number == 1 and new[0].startswith("\ufeff")))
    current = _with_line(served, number, *new)
    assume(len(current.lines) == count)
    op: dict[str, Any] = {
        "op": "replace",
        "from": anchor(served, start),
        "to": anchor(served, stop),
        "lines": ["a new line"],
    }
    (problem,) = rejection(current, [op], served=served).problems
    assert problem.reason == "changed"


@given(st.data())
def test_a_change_elsewhere_in_place_does_not_make_an_edit_stale(data: st.DataObject) -> None:
    served = data.draw(documents(min_lines=2))
    count = len(served.lines)
    number = data.draw(st.integers(1, count))
    other = data.draw(st.integers(1, count))
    assume(number != other)
    ending = served.endings[other - 1] or "\n"
    current = _with_line(served, other, "changed here", ending)
    op = {"op": "replace", "from": anchor(served, number), "lines": ["a new line"]}
    result = edit(current, [op], served=served)
    expected = list(current.lines)
    expected[number - 1] = "a new line"
    assert list(result.document.lines) == expected


@given(st.data())
def test_below_a_shift_every_edit_is_stale_even_onto_a_twin(data: st.DataObject) -> None:
    """Lines pasted above put textual twins at the old numbers; tags and text both agree."""
    served = data.draw(documents(min_lines=1))
    count = len(served.lines)
    at = data.draw(st.integers(0, count - 1))
    pasted = [served.lines[at]] * data.draw(st.integers(1, 3))
    lines = [*served.lines[:at], *pasted, *served.lines[at:]]
    current = kernel("".join(f"{line}\n" for line in lines))
    served = kernel("".join(f"{line}\n" for line in served.lines))
    same = 0
    while same < count and served.lines[same] == current.lines[same]:
        same += 1
    assume(same < count)
    number = data.draw(st.integers(same + 1, count))
    op = {"op": "replace", "from": anchor(served, number), "lines": ["a new line"]}
    (problem,) = rejection(current, [op], served=served).problems
    assert problem.reason == "changed"


def test_between_two_changes_a_line_counts_as_unchanged_only_beside_a_unique_one() -> None:
    """A paste above and a cut below leave the count as it was and twins at old numbers."""
    op = {"op": "delete", "from": anchor(kernel("a\n}\n}\n}\nb\n"), 3)}
    served, current = kernel("a\n}\n}\n}\nb\n"), kernel("A\n}\n}\n}\nB\n")
    assert rejection(current, [op], served=served).problems[0].reason == "changed"
    served, current = kernel("a\n}\n}\nonly\nb\n"), kernel("A\n}\n}\nonly\nB\n")
    assert edit(current, [op], served=served).document.lines == ("A", "}", "only", "B")
    twice = kernel("A\n}\n}\nonly\nonly\n")
    assert rejection(twice, [op], served=served).problems[0].reason == "changed"
    served, current = kernel("a\n}\n}\nonly\nonly\n"), kernel("A\n}\n}\nonly\nB\n")
    assert rejection(current, [op], served=served).problems[0].reason == "changed"


@given(st.data())
def test_a_stale_edit_is_caught_even_if_every_tag_is_the_same(data: st.DataObject) -> None:
    class OneTag(Tagger):
        def tag(self, line_number: int, text: str) -> str:
            return ALPHABET[0]

    served = data.draw(documents(min_lines=1))
    number = data.draw(st.integers(1, len(served.lines)))
    line = data.draw(LINES)
    assume(line != served.lines[number - 1] and not line.startswith("\ufeff"))
    current = _with_line(served, number, line, "\n")
    assume(len(current.lines) == len(served.lines))
    raw = [{"op": "delete", "from": f"{number}{ALPHABET[0]}"}]
    with pytest.raises(EditRejected) as caught:
        apply(current, OneTag(b"k"), parse_ops(raw), served=served)
    assert caught.value.problems[0].reason == "changed"


def test_an_insert_needs_both_neighbours_as_they_were() -> None:
    served = kernel("1\n2\n3\n4\n")
    for changed, stale in ((1, False), (2, True), (3, True), (4, False)):
        current = _with_line(served, changed, "new", "\n")
        for place in ({"after": anchor(served, 2)}, {"before": anchor(served, 3)}):
            op = {"op": "insert", **place, "lines": ["x"]}
            if stale:
                (problem,) = rejection(current, [op], served=served).problems
                assert problem.reason == "changed"
            else:
                assert edit(current, [op], served=served).document.lines[2] == "x"


def test_an_insert_at_the_tail_is_stale_once_the_file_has_grown() -> None:
    served, current = kernel("1\n2\n"), kernel("1\n2\n3\n")
    op = {"op": "insert", "at": "tail", "lines": ["x"]}
    assert rejection(current, [op], served=served).problems[0].reason == "changed"
    head = {"op": "insert", "at": "head", "lines": ["x"]}
    assert edit(current, [head], served=served).document.lines == ("x", "1", "2", "3")


def test_a_rejection_says_first_that_nothing_was_written_then_why_then_what_is() -> None:
    served = kernel("".join(f"line {i}\n" for i in range(1, 13)))
    current = _with_line(served, 5, "line five", "\n")
    ops = [
        {"op": "replace", "from": anchor(served, 4), "to": anchor(served, 6), "lines": ["x"]},
        {"op": "delete", "from": f"9{anchor(served, 10)[2:]}"},
        {"op": "delete", "from": "40aa"},
        {"op": "delete", "from": "1jj"},
    ]
    error = rejection(current, ops, served=served)
    rows = str(error).split("\n")
    assert rows[0] == "REJECTED, nothing was written: kernel.cpp r1 stands as it was."
    slip = anchor(served, 10)
    assert rows[1:5] == [
        f"- ops[0] from={anchor(served, 4)} to={anchor(served, 6)}: changed: "
        "line 5 is no longer what r0 showed you",
        f"- ops[1].from 9{slip[2:]}: slip: that tag belongs to another line; did you mean {slip}?",
        "- ops[2].from 40aa: out of range: the file has 12 lines",
        "- ops[3].from 1jj: never shown: r0 as you saw it has no such tag at or near line 1; "
        "copy it from the lines below or read the file again",
    ]
    assert rows[5] == "Lines as they are now in r1:"
    shown = [f"{anchor(current, n)}|{current.lines[n - 1]}" for n in range(1, 13)]
    assert rows[6:] == shown
    assert [p.reason for p in error.problems] == ["changed", "slip", "out of range", "never shown"]


def test_the_anchors_of_a_rejection_work_in_a_retry() -> None:
    served = kernel("a\nb\nc\n")
    current = _with_line(served, 2, "B", "\n")
    op = {"op": "replace", "from": anchor(served, 2), "lines": ["beta"]}
    error = rejection(current, [op], served=served)
    row = next(row for row in str(error).split("\n") if row.endswith("|B"))
    retry = {**op, "from": row.split("|")[0]}
    assert edit(current, [retry], served=current).document.lines == ("a", "beta", "c")


def test_a_line_that_moved_is_pointed_out_and_not_followed() -> None:
    served = kernel("alpha\nbeta\ngamma\n")
    current = kernel("new\nalpha\nbeta\ngamma\n")
    op = {"op": "delete", "from": anchor(served, 2)}
    error = rejection(current, [op], served=served)
    assert "the text of line 2 stands at line 3 of r0" in error.problems[0].detail
    assert f"{anchor(current, 3)}|beta" in str(error)


def test_a_range_reaching_past_the_end_of_a_shorter_file_is_stale() -> None:
    served, current = kernel("1\n2\n3\n"), kernel("1\n")
    op = {"op": "delete", "from": anchor(served, 1), "to": anchor(served, 3)}
    assert rejection(current, [op], served=served).problems[0].reason == "changed"
    op = {"op": "delete", "from": anchor(served, 3)}
    assert rejection(kernel(""), [op], served=served).problems[0].reason == "changed"

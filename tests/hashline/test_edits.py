from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from akg_tui.hashline import Document, EditRejected
from akg_tui.hashline.splice import EditResult

from .strategies import Batch, anchor, batches, documents, edit, kernel, rejection


def _attempt(document: Document, ops: list[dict[str, Any]]) -> EditResult | None:
    """None for an edit that is refused because it changes nothing, and for no other reason."""
    try:
        return edit(document, ops)
    except EditRejected as error:
        assert {problem.reason for problem in error.problems} == {"no-op"}  # noqa: PT017
        return None


@given(st.data())
def test_an_edit_gives_what_an_oracle_says(data: st.DataObject) -> None:
    document = data.draw(documents())
    batch: Batch = data.draw(batches(document))
    assume(batch.ops)
    result = _attempt(document, batch.ops)
    if result is None:
        assert list(document.lines) == batch.expected
        return
    assert list(result.document.lines) == batch.expected
    assert result.document.revision == document.revision + 1
    assert result.document.has_bom == document.has_bom


@given(st.data())
def test_a_file_keeps_or_keeps_lacking_its_final_newline(data: st.DataObject) -> None:
    document = data.draw(documents(min_lines=1))
    batch: Batch = data.draw(batches(document))
    assume(batch.ops and batch.expected and batch.expected[-1])
    result = _attempt(document, batch.ops)
    assume(result is not None)
    assert result is not None
    assert result.document.ends_with_newline == document.ends_with_newline


@given(st.data())
def test_hunks_turn_the_old_lines_into_the_new_and_cover_no_more(data: st.DataObject) -> None:
    document = data.draw(documents())
    batch: Batch = data.draw(batches(document))
    assume(batch.ops)
    result = _attempt(document, batch.ops)
    assume(result is not None)
    assert result is not None
    lines = list(document.lines)
    for hunk in reversed(result.hunks):
        at = hunk.old_start - 1
        assert tuple(lines[at : at + len(hunk.removed)]) == hunk.removed
        lines[at : at + len(hunk.removed)] = hunk.added
        assert hunk.removed[:1] != hunk.added[:1]
        assert hunk.removed[-1:] != hunk.added[-1:]
        start = hunk.new_start - 1
        assert result.document.lines[start : start + len(hunk.added)] == hunk.added
    assert tuple(lines) == result.document.lines
    assert result.added == sum(len(hunk.added) for hunk in result.hunks)
    assert result.removed == sum(len(hunk.removed) for hunk in result.hunks)


@given(st.data())
def test_lines_outside_the_hunks_keep_every_byte(data: st.DataObject) -> None:
    document = data.draw(documents().filter(lambda each: each.ends_with_newline))
    batch: Batch = data.draw(batches(document))
    assume(batch.ops)
    result = _attempt(document, batch.ops)
    assume(result is not None)
    assert result is not None
    old, new = _rows(document), _rows(result.document)
    for hunk in reversed(result.hunks):
        del old[hunk.old_start - 1 : hunk.old_start - 1 + len(hunk.removed)]
        del new[hunk.new_start - 1 : hunk.new_start - 1 + len(hunk.added)]
    assert new == old


def _rows(document: Document) -> list[str]:
    return [line + end for line, end in zip(document.lines, document.endings, strict=True)]


@given(st.data())
def test_the_order_of_disjoint_operations_does_not_matter(data: st.DataObject) -> None:
    document = data.draw(documents())
    batch: Batch = data.draw(batches(document))
    assume(len(batch.ops) > 1)
    shuffled = data.draw(st.permutations(batch.ops))
    assert _attempt(document, shuffled) == _attempt(document, batch.ops)


@given(st.data())
def test_ranges_that_share_a_line_are_refused(data: st.DataObject) -> None:
    document = data.draw(documents(min_lines=1))
    number = data.draw(st.integers(1, len(document.lines)))
    ops = []
    for _ in range(2):
        start = data.draw(st.integers(1, number))
        stop = data.draw(st.integers(number, len(document.lines)))
        op = {"op": "delete", "from": anchor(document, start), "to": anchor(document, stop)}
        if data.draw(st.booleans()):
            op |= {"op": "replace", "lines": ["new"]}
        ops.append(op)
    assert "overlap" in {problem.reason for problem in rejection(document, ops).problems}


@given(st.data())
def test_an_insert_inside_a_replaced_range_is_refused(data: st.DataObject) -> None:
    document = data.draw(documents(min_lines=2))
    gap = data.draw(st.integers(1, len(document.lines) - 1))
    start = data.draw(st.integers(1, gap))
    stop = data.draw(st.integers(gap + 1, len(document.lines)))
    insert = data.draw(
        st.sampled_from([{"after": anchor(document, gap)}, {"before": anchor(document, gap + 1)}])
    )
    ops = [
        {"op": "insert", **insert, "lines": ["new"]},
        {"op": "delete", "from": anchor(document, start), "to": anchor(document, stop)},
    ]
    for order in (ops, ops[::-1]):
        (problem,) = rejection(document, order).problems
        assert problem.reason == "overlap"


def test_inserts_at_one_place_keep_their_order_and_a_range_beside_them_its_place() -> None:
    document = kernel("1\n2\n3\n")
    ops: list[dict[str, Any]] = [
        {"op": "insert", "after": anchor(document, 2), "lines": ["first"]},
        {"op": "insert", "before": anchor(document, 3), "lines": ["second"]},
        {"op": "replace", "from": anchor(document, 2), "lines": ["two", "and more"]},
        {"op": "insert", "before": anchor(document, 2), "lines": ["above"]},
        {"op": "delete", "from": anchor(document, 3)},
    ]
    expected = ("1", "above", "two", "and more", "first", "second")
    assert edit(document, ops).document.lines == expected


def test_the_same_insert_twice_is_refused() -> None:
    document = kernel("1\n2\n")
    ops = [
        {"op": "insert", "after": anchor(document, 1), "lines": ["x"]},
        {"op": "insert", "before": anchor(document, 2), "lines": ["x"]},
    ]
    (problem,) = rejection(document, ops).problems
    assert (problem.reason, problem.where) == ("duplicate", "ops[1]")


def test_every_range_inside_another_is_reported() -> None:
    document = kernel("".join(f"{n}\n" for n in range(1, 9)))
    ops = [
        {"op": "delete", "from": anchor(document, 1), "to": anchor(document, 8)},
        {"op": "delete", "from": anchor(document, 2)},
        {"op": "delete", "from": anchor(document, 5)},
    ]
    where = [(p.reason, p.where) for p in rejection(document, ops).problems]
    assert where == [("overlap", "ops[1]"), ("overlap", "ops[2]")]


def test_one_bad_operation_stops_the_good_ones() -> None:
    document = kernel("1\n2\n3\n")
    ops = [
        {"op": "delete", "from": anchor(document, 1)},
        {"op": "delete", "from": "99aa"},
    ]
    assert [p.reason for p in rejection(document, ops).problems] == ["out of range"]


@pytest.mark.parametrize("payload", ["12sr|x", "+x", "- x", "# Note:", "\tx", "x  ", "a|b", "\x00"])
def test_payload_goes_in_exactly_as_given(payload: str) -> None:
    document = kernel("1\n2\n")
    result = edit(document, [{"op": "replace", "from": anchor(document, 1), "lines": [payload]}])
    assert result.document.data == f"{payload}\n2\n".encode()


@pytest.mark.parametrize(
    ("before", "op", "after"),
    [
        ("a\r\nb\r\nc\n", {"op": "insert", "at": "tail", "lines": ["d"]}, "a\r\nb\r\nc\nd\r\n"),
        ("\ufeffa\n", {"op": "insert", "at": "head", "lines": ["z"]}, "\ufeffz\na\n"),
        ("a\nb", {"op": "insert", "at": "tail", "lines": ["c"]}, "a\nb\nc"),
        ("a\r\nb", {"op": "insert", "at": "tail", "lines": ["c"]}, "a\r\nb\r\nc"),
        ("a", {"op": "insert", "at": "tail", "lines": [""]}, "a\n\n"),
        ("a\r", {"op": "insert", "at": "tail", "lines": ["b"]}, "a\r\r\nb"),
        ("", {"op": "insert", "at": "tail", "lines": ["a", "b"]}, "a\nb\n"),
        ("", {"op": "insert", "at": "head", "lines": [""]}, "\n"),
        ("\ufeff", {"op": "insert", "at": "head", "lines": ["a"]}, "\ufeffa\n"),
    ],
)
def test_line_endings_follow_the_file(before: str, op: dict[str, Any], after: str) -> None:
    assert edit(kernel(before), [op]).document.text == after


@pytest.mark.parametrize(
    ("before", "named", "lines", "after", "counts"),
    [
        # Lines that stay the same inside a replaced range keep their endings.
        ("a\nb\r\nc\r\nd\n", (1, 4), ["a", "B", "c", "d"], "a\nB\nc\r\nd\n", (1, 1)),
        ("}\n}\n}\n", (1, 3), ["}"], "}\n", (0, 2)),
        ("a\nb\nc", (2, 3), [], "a", (0, 2)),
        ("\ufeffa\nb\n", (1, 2), [], "\ufeff", (0, 2)),
    ],
    ids=["in the middle", "twins", "an unfinished end", "every line"],
)
def test_a_range_is_replaced_or_deleted_and_the_rest_stays(
    before: str, named: tuple[int, int], lines: list[str], after: str, counts: tuple[int, int]
) -> None:
    document = kernel(before)
    first, last = (anchor(document, number) for number in named)
    op: dict[str, Any] = {"from": first, "to": last}
    op |= {"op": "replace", "lines": lines} if lines else {"op": "delete"}
    result = edit(document, [op])
    assert result.document.text == after
    assert (result.added, result.removed) == counts


@given(documents(min_lines=1))
def test_an_edit_that_changes_nothing_is_refused(document: Document) -> None:
    op = {
        "op": "replace",
        "from": anchor(document, 1),
        "to": anchor(document, len(document.lines)),
        "lines": list(document.lines),
    }
    assert [p.reason for p in rejection(document, [op]).problems] == ["no-op"]

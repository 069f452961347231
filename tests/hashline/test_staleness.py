"""A change by somebody else: every edit from before it is refused, whatever it aims at."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from akg_tui.hashline import EditRejected, EditRequest, EditSession, Tagger, parse_ops
from akg_tui.hashline.tags import ALPHABET

from .strategies import TAGGER, Batch, anchor, batches, documents, kernel, rejection, session_of


@given(st.data())
def test_after_any_change_from_outside_no_edit_is_applied(data: st.DataObject) -> None:
    served = data.draw(documents())
    current = data.draw(documents())
    assume(served.data != current.data)
    batch: Batch = data.draw(batches(served))
    assume(batch.ops)
    problems = rejection(current, batch.ops, served=served).problems
    assert {problem.reason for problem in problems} == {"drift"}
    assert len(problems) == len(batch.ops)


@given(st.data())
def test_a_stale_edit_is_caught_even_if_every_tag_is_the_same(data: st.DataObject) -> None:
    class OneTag(Tagger):
        def tag(self, line_number: int, text: str) -> str:
            return ALPHABET[0]

    served = data.draw(documents(min_lines=1))
    current = data.draw(documents())
    assume(served.data != current.data)
    number = data.draw(st.integers(1, len(served.lines)))
    raw = [{"op": "delete", "from": f"{number}{ALPHABET[0]}"}]
    session = EditSession(served, OneTag(b"k"))
    session.view()
    with pytest.raises(EditRejected) as caught:
        session.check(EditRequest(parse_ops(raw), served.revision), current=current)
    assert caught.value.problems[0].reason == "drift"


def test_a_rejection_gives_no_change_then_the_reasons_then_the_current_lines() -> None:
    document = kernel("".join(f"line {i}\n" for i in range(1, 13)))
    ops = [
        {"op": "delete", "from": f"9{anchor(document, 10)[2:]}"},
        {"op": "delete", "from": "40aa"},
        {"op": "delete", "from": "1jj"},
    ]
    error = rejection(document, ops)
    rows = str(error).split("\n")
    assert rows[0] == "REJECTED, nothing was written: kernel.txt r0 stands as it was."
    slip = anchor(document, 10)
    assert rows[1:4] == [
        f"- ops[0].from 9{slip[2:]}: slip: that tag belongs to another line; did you mean {slip}?",
        "- ops[1].from 40aa: out of range: the file has 12 lines",
        "- ops[2].from 1jj: never shown: r0 as you saw it has no such tag at or near line 1; "
        "copy it from the lines below or read the file again",
    ]
    assert rows[4] == "Lines as they are now in r0:"
    shown = [f"{anchor(document, n)}|{document.lines[n - 1]}" for n in (1, 2, 3, *range(8, 13))]
    shown.insert(3, "...")
    assert rows[5:] == shown
    assert [p.reason for p in error.problems] == ["slip", "out of range", "never shown"]


def test_the_anchors_of_a_rejection_work_in_a_retry() -> None:
    session = session_of(kernel("a\nb\nc\n"))
    current = kernel("new\na\nb\nc\n")
    op: dict[str, Any] = {"op": "replace", "from": anchor(session.document, 2), "lines": ["B"]}
    with pytest.raises(EditRejected) as caught:
        session.check(EditRequest(parse_ops([op]), 0), current=current)
    row = next(row for row in str(caught.value).split("\n") if row.endswith("|b"))
    retry = parse_ops([{**op, "from": row.split("|")[0]}])
    proposal = session.check(EditRequest(retry, caught.value.revision), current=current)
    assert proposal.result.document.lines == ("new", "a", "B", "c")


def test_the_rejection_of_a_long_moved_range_has_anchors_for_a_retry() -> None:
    body = [f"x[{i}] = {i};" for i in range(40)]
    session = session_of(kernel("\n".join(body)))
    old = session.document
    current = kernel("\n".join(["above", *body]))
    op = {"op": "delete", "from": anchor(old, 5), "to": anchor(old, 30)}
    with pytest.raises(EditRejected, match="stands now at line 6 of r1"):
        session.check(EditRequest(parse_ops([op]), 0), current=current)
    again = {"op": "delete", "from": anchor(current, 6), "to": anchor(current, 31)}
    result = session.check(EditRequest(parse_ops([again]), 1), current=current).result
    assert result.document.lines == ("above", *body[:4], *body[30:])


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ("new\nalpha\nbeta\n", "the text you name stands now at line 3 of r1"),
        ("alpha\nbeta\nnew\n", "the text you name still stands at line 2 of r1"),
        ("beta\nalpha\nbeta\n", "the text you name stands at 2 places of r1"),
        ("alpha\nBETA\n", "the text you name is changed or gone in r1"),
        ("", "the text you name is changed or gone in r1"),
    ],
)
def test_the_rejection_tells_the_new_place_of_the_text_and_does_not_edit_there(
    now: str, said: str
) -> None:
    served = kernel("alpha\nbeta\n")
    op = {"op": "delete", "from": anchor(served, 2)}
    error = rejection(kernel(now), [op], served=served)
    assert said in error.problems[0].detail


def test_anchors_from_before_a_change_from_outside_are_never_valid_again() -> None:
    session = session_of(kernel("a\nb\n"))
    first = session.document
    op = parse_ops([{"op": "delete", "from": anchor(first, 2)}])
    session.observe(kernel("a\nB\n"))
    session.observe(first)
    with pytest.raises(EditRejected) as caught:
        session.check(EditRequest(op, first.revision), current=first)
    assert caught.value.problems[0].reason == "drift"
    assert session.document.revision == 2


def test_the_tags_of_another_session_are_refused() -> None:
    document = kernel("".join(f"x[{i}] = {i};\n" for i in range(40)))
    other = Tagger(b"another key")
    session = session_of(document)
    for number in range(1, 41):
        tag = other.tag(number, document.lines[number - 1])
        if tag != TAGGER.tag(number, document.lines[number - 1]):
            op = parse_ops([{"op": "delete", "from": f"{number}{tag}"}])
            with pytest.raises(EditRejected):
                session.check(EditRequest(op, 0))

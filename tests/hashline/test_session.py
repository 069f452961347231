"""A reader's own edits are followed exactly; what it was not shown it can't change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from akg_tui.hashline import Document, EditRejected, EditRequest, EditSession, Tagger, parse_ops

from .strategies import TAGGER, anchor, documents, kernel, session_of


def make(session: EditSession, *ops: dict[str, Any], rev: int | None = None, **flags: bool) -> str:
    request = EditRequest(parse_ops(list(ops)), rev, **{"allow_dup": True, **flags})
    return session.accept(session.check(request))


def refused(session: EditSession, *ops: dict[str, Any], rev: int | None = None) -> list[str]:
    before = session.document
    with pytest.raises(EditRejected) as caught:
        make(session, *ops, rev=rev)
    assert session.document is before
    return [problem.reason for problem in caught.value.problems]


@dataclass
class Row:
    """A line with an identity of its own: the oracle knows it among equal texts."""

    text: str


def _aim(draw: st.DrawFn, count: int) -> tuple[int, int]:
    start = draw(st.integers(1, count))
    return start, min(count, start + draw(st.integers(0, 3)))


@st.composite
def histories(draw: st.DrawFn) -> tuple[EditSession, list[tuple[Document, list[Row]]]]:
    """A session after some own edits, and every revision with rows that keep their identity."""
    document = draw(documents(min_lines=2, max_lines=10))
    session = session_of(document)
    revisions = [(document, [Row(text) for text in document.lines])]
    for _ in range(draw(st.integers(1, 4))):
        current, rows = revisions[-1]
        if not rows:
            break
        session.view()
        start, stop = _aim(draw, len(rows))
        named = {"from": anchor(current, start), "to": anchor(current, stop)}
        kind = draw(st.sampled_from(["replace", "delete", "insert", "move", "copy"]))
        payload = draw(st.lists(st.sampled_from(["}", "new", "x = 1", ""]), min_size=1, max_size=3))
        taken = rows[start - 1 : stop]
        gap = draw(st.integers(1, len(rows)))
        match kind:
            case "replace":
                op = {"op": kind, **named, "lines": payload}
                after = rows[: start - 1] + [Row(t) for t in payload] + rows[stop:]
            case "delete":
                op = {"op": kind, **named}
                after = rows[: start - 1] + rows[stop:]
            case "insert":
                op = {"op": kind, "after": anchor(current, gap), "lines": payload}
                after = rows[:gap] + [Row(t) for t in payload] + rows[gap:]
            case "copy":
                op = {"op": kind, **named, "after": anchor(current, gap)}
                after = rows[:gap] + [Row(r.text) for r in taken] + rows[gap:]
            case _:
                if start <= gap < stop:
                    continue
                op = {"op": kind, **named, "after": anchor(current, gap)}
                above = [r for r in rows[:gap] if not any(r is t for t in taken)]
                below = [r for r in rows[gap:] if not any(r is t for t in taken)]
                after = above + taken + below
        try:
            make(session, op, rev=current.revision)
        except EditRejected as error:
            assert {p.reason for p in error.problems} <= {"no-op", "unwritable"}  # noqa: PT017
            continue
        assert list(session.document.lines) == [row.text for row in after]
        revisions.append((session.document, after))
    return session, revisions


def _index(rows: list[Row], row: Row) -> int | None:
    return next((i for i, other in enumerate(rows) if other is row), None)


@given(st.data())
def test_after_own_edits_a_range_is_changed_exactly_if_its_lines_survive_together(
    data: st.DataObject,
) -> None:
    """The oracle follows objects, not numbers; it shares nothing with the line maps."""
    session, revisions = data.draw(histories())
    served, old = data.draw(st.sampled_from(revisions))
    _, now = revisions[-1]
    assume(old)
    start, stop = data.draw(st.composite(_aim)(len(old)))
    op = {
        "op": "replace",
        "from": anchor(served, start),
        "to": anchor(served, stop),
        "lines": ["the new line"],
    }
    places = [_index(now, row) for row in old[start - 1 : stop]]
    first = places[0]
    if first is not None and places == list(range(first, first + len(places))):
        make(session, op, rev=served.revision)
        expected = [*now[:first], Row("the new line"), *now[first + len(places) :]]
        assert list(session.document.lines) == [row.text for row in expected]
    else:
        assert refused(session, op, rev=served.revision) == ["changed"]


@given(st.data())
def test_after_own_edits_an_insert_is_made_exactly_if_its_neighbours_still_meet(
    data: st.DataObject,
) -> None:
    session, revisions = data.draw(histories())
    served, old = data.draw(st.sampled_from(revisions))
    _, now = revisions[-1]
    assume(old)
    gap = data.draw(st.integers(1, len(old)))
    op = {"op": "insert", "after": anchor(served, gap), "lines": ["the new line"]}
    above = _index(now, old[gap - 1])
    below = _index(now, old[gap]) if gap < len(old) else len(now)
    if above is not None and below == above + 1:
        make(session, op, rev=served.revision)
        texts = [row.text for row in now]
        assert list(session.document.lines) == [*texts[:below], "the new line", *texts[below:]]
    else:
        assert refused(session, op, rev=served.revision) == ["changed"]


def test_a_line_that_an_edit_wrote_again_was_shown() -> None:
    document = kernel("a\nb\nc\n")
    session = session_of(document)
    named = {"from": anchor(document, 1), "to": anchor(document, 2)}
    make(session, {"op": "replace", **named, "lines": ["new", "b"]}, rev=0)
    op = {"op": "insert", "after": anchor(session.document, 2), "lines": ["more"]}
    make(session, op, rev=1)
    assert session.document.lines == ("new", "b", "more", "c")


@given(st.data())
def test_a_batch_gives_what_its_operations_give_one_by_one(data: st.DataObject) -> None:
    """All of them name the first revision; the record of own edits keeps them apart."""
    document = data.draw(documents(min_lines=4).filter(lambda d: d.ends_with_newline))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(document.lines)), min_size=2, max_size=4)))
    ops = [
        {"op": "replace", "from": anchor(document, n), "lines": [f"new {n}", "and more"]}
        for n in cuts
    ]
    together, singly = session_of(document), session_of(document)
    make(together, *ops, rev=document.revision)
    for op in data.draw(st.permutations(ops)):
        make(singly, op, rev=document.revision)
    assert singly.document.lines == together.document.lines


@given(st.data())
def test_an_edit_can_be_undone_and_its_lines_are_still_new_ones(data: st.DataObject) -> None:
    text = data.draw(st.lists(st.sampled_from(["}", "x = 1", "", "y"]), min_size=1, max_size=8))
    document = kernel("".join(f"{line}\n" for line in text))
    session = session_of(document)
    start, stop = data.draw(st.composite(_aim)(len(text)))
    named = {"from": anchor(document, start), "to": anchor(document, stop)}
    make(session, {"op": "replace", **named, "lines": ["new"]}, rev=0)
    back = {
        "op": "replace",
        "from": anchor(session.document, start),
        "lines": text[start - 1 : stop],
    }
    make(session, back, rev=1)
    assert session.document.data == document.data
    assert session.document.revision == 2
    assert refused(session, {"op": "delete", **named}, rev=0) == ["changed"]


def test_without_a_revision_an_edit_must_mean_the_same_in_all_that_were_shown() -> None:
    class OneTag(Tagger):
        def tag(self, line_number: int, text: str) -> str:
            return "aa"

    session = EditSession(kernel("a\nb\nc\n"), OneTag(b"k"))
    session.view()
    make(session, {"op": "insert", "before": "1aa", "lines": ["new"]})
    delete = {"op": "delete", "from": "2aa"}
    assert refused(session, delete) == ["ambiguous"]
    make(session, delete, rev=0)
    assert session.document.lines == ("new", "a", "c")


def test_the_refusal_of_an_edit_that_fits_no_revision_refers_to_the_newest() -> None:
    session = session_of(kernel("a\nb\n"))
    delete = {"op": "delete", "from": anchor(session.document, 2)}
    session.observe(kernel("a\nb\nc\n"))
    session.view()
    session.observe(kernel("a\nB\nc\n"))
    assert refused(session, delete) == ["drift"]
    with pytest.raises(EditRejected, match="somebody else changed the file since r1"):
        make(session, delete)


def test_without_a_revision_old_anchors_are_followed_through_own_edits() -> None:
    session = session_of(kernel("a\nb\nc\n"))
    old = session.document
    make(session, {"op": "insert", "at": "head", "lines": ["x", "y"]})
    make(session, {"op": "replace", "from": anchor(old, 3), "lines": ["C"]})
    assert session.document.lines == ("x", "y", "a", "b", "C")
    assert refused(session, {"op": "delete", "from": anchor(old, 3)}) == ["changed"]


def test_only_lines_that_were_shown_can_be_edited() -> None:
    document = kernel("".join(f"line {n}\n" for n in range(1, 21)))
    session = EditSession(document, TAGGER)
    one = {"op": "delete", "from": anchor(document, 3)}
    assert refused(session, one) == ["never shown"]
    assert refused(session, one, rev=0) == ["unknown revision"]
    session.view(first=1, last=10)
    beyond = {"op": "delete", "from": anchor(document, 15)}
    assert refused(session, beyond, rev=0) == ["never shown"]
    make(session, one, rev=0)


def test_a_range_around_lines_that_were_not_shown_is_refused() -> None:
    session = EditSession(kernel("".join(f"line {n}\n" for n in range(1, 11))), TAGGER)
    session.view(last=3)
    session.view(first=7)
    ends = {"from": anchor(session.document, 3), "to": anchor(session.document, 7)}
    assert refused(session, {"op": "delete", **ends}, rev=0) == ["never shown"]


def test_a_revision_that_never_was_is_refused() -> None:
    session = session_of(kernel("a\nb\n"))
    delete = {"op": "delete", "from": anchor(session.document, 1)}
    for revision in (-1, 1, 7):
        assert refused(session, delete, rev=revision) == ["unknown revision"]


def test_a_checked_proposal_changes_nothing_and_an_outdated_one_is_not_accepted() -> None:
    session = session_of(kernel("a\nb\n"))
    delete = EditRequest(parse_ops([{"op": "delete", "from": anchor(session.document, 1)}]), 0)
    proposal = session.check(delete)
    assert session.document.lines == ("a", "b")
    session.accept(session.check(delete))
    with pytest.raises(ValueError, match="older revision"):
        session.accept(proposal)


def test_a_repeated_boundary_row_is_refused_and_quoted() -> None:
    document = kernel("for i in x:\n    y = 1\n    z = 2\n}\n}\n")
    op = {
        "op": "replace",
        "from": anchor(document, 2),
        "lines": ["    y = 3", "    z = 2"],
    }
    session = session_of(document)
    with pytest.raises(EditRejected, match="repeats line 3, which stands below and stays: z = 2"):
        make(session, op, allow_dup=False)
    make(session, op, allow_dup=True)
    brace = {"op": "insert", "before": anchor(document, 5), "lines": ["}"]}
    make(session, brace, rev=0, allow_dup=False)


def test_a_line_that_ended_the_range_before_may_end_it_again() -> None:
    session = session_of(kernel("x += 1\nx += 1\ny\n"))
    op = {"op": "replace", "from": anchor(session.document, 1), "lines": ["new", "x += 1"]}
    make(session, op, allow_dup=False)
    assert session.document.lines == ("new", "x += 1", "x += 1", "y")


def test_copied_tags_are_stripped_only_if_every_line_has_one_that_was_shown() -> None:
    document = kernel("alpha\n  beta\ngamma\n")
    one, two = anchor(document, 1), anchor(document, 2)
    session = session_of(document)
    op = {"op": "replace", "from": two, "lines": [f"{one}|ALPHA", "", f"{two}|  BETA"]}
    answer = make(session, op)
    assert session.document.lines == ("alpha", "ALPHA", "", "  BETA", "gamma")
    assert "Note: ops[0].lines carried the tags of the view" in answer
    for rows in ([f"{one}|x", "y"], ["1zz|x"], [f"{one}x|y"], [f" {one}|x"]):
        session = session_of(document)
        answer = make(session, {"op": "replace", "from": two, "lines": rows})
        assert session.document.lines[1:-1] == tuple(rows)
        assert "Note" not in answer


def test_a_substitution_needs_its_text_exactly_once() -> None:
    session = session_of(kernel("BLOCK = 64  # of 64\naaa\n"))
    top, low = (anchor(session.document, n) for n in (1, 2))
    assert refused(session, {"op": "sub", "at": top, "find": "64", "with": "1"}) == ["not once"]
    assert refused(session, {"op": "sub", "at": top, "find": "32", "with": "1"}) == ["not once"]
    assert refused(session, {"op": "sub", "at": low, "find": "aa", "with": "1"}) == ["not once"]
    make(session, {"op": "sub", "at": top, "find": "= 64", "with": "= 128"}, rev=0)
    assert session.document.lines[0] == "BLOCK = 128  # of 64"


def test_a_substitution_keeps_the_ending_of_its_line() -> None:
    session = session_of(kernel("a\r\nb\nc"))
    old = session.document
    for number, text in ((1, "a"), (2, "b"), (3, "c")):
        op = {"op": "sub", "at": anchor(old, number), "find": text, "with": text.upper()}
        make(session, op, rev=0)
    assert session.document.text == "A\r\nB\nC"


@pytest.mark.parametrize(
    ("op", "text"),
    [
        ({"op": "move", "from": 1, "to": 2, "after": 3}, "c\r\na\nb\r\nd"),
        ({"op": "move", "from": 3, "before": 1}, "c\r\na\nb\r\nd"),
        ({"op": "move", "from": 4, "before": 1}, "d\r\na\nb\r\nc"),
        ({"op": "copy", "from": 1, "to": 2, "after": 4}, "a\nb\r\nc\r\nd\r\na\nb"),
        ({"op": "copy", "from": 2, "to": 3, "after": 2}, "a\nb\r\nb\r\nc\r\nc\r\nd"),
    ],
)
def test_moved_and_copied_lines_keep_their_endings(op: dict[str, Any], text: str) -> None:
    session = session_of(kernel("a\nb\r\nc\r\nd"))
    named = {k: anchor(session.document, v) if isinstance(v, int) else v for k, v in op.items()}
    make(session, named)
    assert session.document.text == text


def test_moved_lines_are_followed_and_copied_ones_are_not_confused_with_them() -> None:
    session = session_of(kernel("a\nb\nc\nd\n"))
    old = session.document
    make(
        session,
        {"op": "move", "from": anchor(old, 1), "to": anchor(old, 2), "after": anchor(old, 4)},
    )
    make(session, {"op": "copy", "from": anchor(old, 2), "after": anchor(old, 1)}, rev=0)
    assert session.document.lines == ("c", "d", "a", "b", "b")
    make(session, {"op": "replace", "from": anchor(old, 2), "lines": ["B"]}, rev=0)
    assert session.document.lines == ("c", "d", "a", "b", "B")


@pytest.mark.parametrize(
    "ops",
    [
        [{"op": "move", "from": 1, "to": 3, "after": 2}],
        [{"op": "move", "from": 1, "to": 2, "after": 4}, {"op": "delete", "from": 2}],
        [{"op": "copy", "from": 1, "after": 3}, {"op": "delete", "from": 3, "to": 4}],
        [
            {"op": "sub", "at": 2, "find": "b", "with": "x"},
            {"op": "sub", "at": 2, "find": "b", "with": "y"},
        ],
    ],
)
def test_moves_copies_and_substitutions_conflict_like_ranges(ops: list[dict[str, Any]]) -> None:
    session = session_of(kernel("a\nb\nc\nd\n"))
    named = [
        {k: anchor(session.document, v) if isinstance(v, int) else v for k, v in op.items()}
        for op in ops
    ]
    assert refused(session, *named) == ["overlap"]


def test_an_edit_that_would_put_a_byte_order_mark_first_is_refused() -> None:
    session = session_of(kernel("a\n\ufeffb\n"))
    assert refused(session, {"op": "delete", "from": anchor(session.document, 1)}) == ["unwritable"]


def test_the_other_notation_works_from_view_to_edit() -> None:
    session = EditSession(kernel("a\nb\n"), Tagger(b"k", "hex"))
    anchor_of_b = session.view().split("\n")[2].removesuffix("|b")
    assert re.fullmatch("2:[0-9a-f]{2}", anchor_of_b)
    make(session, {"op": "delete", "from": anchor_of_b})
    assert session.document.lines == ("a",)


def test_a_document_is_edited_whole_by_one_call() -> None:
    from akg_tui.hashline import apply

    document = Document.from_text("a\nb\n", path="k.txt", revision=4)
    ops = parse_ops([{"op": "delete", "from": anchor(document, 1)}])
    assert apply(document, TAGGER, ops).document.revision == 5

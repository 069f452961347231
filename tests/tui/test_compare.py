from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, zip_longest

from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.hashline.document import Document
from akg_tui.syntax.highlight import highlight
from akg_tui.view.code_rows import CodeRows, Colours
from akg_tui.view.diff import (
    Kind,
    Row,
    SideBySide,
    changed_words,
    compare,
    find_hunks,
    folded,
    partner,
    size,
    split_lines,
)
from akg_tui.view.spans import plain

from .script import KERNEL

lines = st.lists(st.sampled_from(["a", "b", "c", "}", "", "    x", "y"]), max_size=25)


@given(lines, lines)
def test_the_rows_hold_both_texts_in_order(old: list[str], new: list[str]) -> None:
    rows = compare(old, new)
    assert [r.text for r in rows if r.kind is not Kind.ADDED] == old
    assert [r.text for r in rows if r.kind is not Kind.REMOVED] == new
    assert [r.old for r in rows if r.kind is not Kind.ADDED] == list(range(1, len(old) + 1))
    assert [r.new for r in rows if r.kind is not Kind.REMOVED] == list(range(1, len(new) + 1))
    assert size(compare(old, old)) == (0, 0)


@given(lines, lines)
def test_a_row_is_the_same_by_its_number_and_in_turn(old: list[str], new: list[str]) -> None:
    rows = compare(old, new)
    assert [rows[n] for n in range(len(rows))] == list(rows) == list(rows[:])
    assert all(one.kind is not other.kind for one, other in pairwise(rows.runs))


@given(lines, lines)
def test_hunks_are_where_changed_rows_begin(old: list[str], new: list[str]) -> None:
    rows = compare(old, new)
    changed = [row.kind is not Kind.SAME for row in rows]
    begins = [n for n, one in enumerate(changed) if one and not (n and changed[n - 1])]
    assert begins == [hunk.start for hunk in find_hunks(rows)]
    kinds = [row.kind for row in rows]
    assert size(rows) == (kinds.count(Kind.ADDED), kinds.count(Kind.REMOVED))
    for hunk in find_hunks(rows):
        assert {row.kind for row in rows[hunk.start : hunk.middle]} <= {Kind.REMOVED}
        assert {row.kind for row in rows[hunk.middle : hunk.stop]} <= {Kind.ADDED}
        assert hunk.old == (rows[hunk.start].old if hunk.removed else 0)
        assert hunk.new == (rows[hunk.middle].new if hunk.added else 0)
        for n in range(hunk.start, hunk.stop):
            other = partner(hunk, n)
            assert other is None or partner(hunk, other) == n


@given(lines, lines, st.integers(0, 4))
def test_folding_leaves_out_what_is_far_from_any_change(
    old: list[str], new: list[str], context: int
) -> None:
    rows = compare(old, new)
    changed = [n for n, row in enumerate(rows) if row.kind is not Kind.SAME]
    near = {n for at in changed for n in range(at - context, at + context + 1)}
    shown = folded(rows, context)
    kept = [row for row in shown if row.kind is not Kind.GAP]
    assert kept == [row for n, row in enumerate(rows) if n in near]
    assert len(kept) + sum(row.old for row in shown if row.kind is Kind.GAP) == len(rows)


def test_what_is_alike_is_folded_and_counted() -> None:
    old = [f"line {n}" for n in range(100)]
    rows = folded(compare(old, [*old[:50], *old[51:]]), 3)
    assert [row.kind.value for row in rows] == ["~", " ", " ", " ", "-", " ", " ", " ", "~"]
    assert rows[0] == Row(Kind.GAP, 47, 0)
    assert rows[-1] == Row(Kind.GAP, 46, 0)


def test_the_words_that_changed_are_found() -> None:
    old, new = "acc = tl.dot(a, b, acc)", "acc = tl.dot(a, bT, acc, fast)"
    left, right = changed_words(old, new)
    assert [old[i:j] for i, j in left] == ["b"]
    assert [new[i:j] for i, j in right] == ["bT", ", fast"]
    assert changed_words("x = 1", "for row in rows:") == ((), ())


@given(st.text(st.sampled_from("ab\r\n\x0c\u2028\ufeff"), max_size=30))
def test_lines_are_counted_as_hashline_counts_them(text: str) -> None:
    assert tuple(split_lines(text)) == Document.from_text(text, path="k.py").lines


@given(st.text(st.sampled_from("ab\"'#\\\r\n\x0c\t "), max_size=60))
def test_colour_changes_no_character(text: str) -> None:
    shown = CodeRows(
        compare([], split_lines(text)),
        old=None,
        new=Colours().lex(KernelFiles({"kernel.py": text})),
    )
    bare = CodeRows(compare([], split_lines(text)), old=None, new=None)
    assert [plain(row) for row in shown] == [plain(row) for row in bare]


def test_a_kernel_is_coloured_as_python_and_its_source_string_as_cpp() -> None:
    rows = highlight(KERNEL)
    assert ["".join(text for text, _ in row) for row in rows] == KERNEL.split("\n")
    flat = {(text, role) for row in rows for text, role in row}
    assert ("class", "syn.keyword") in flat
    assert ("int64_t", "syn.type") in flat or ("float", "syn.type") in flat
    assert any(role == "syn.preproc" and "include" in text for text, role in flat)


def test_a_removed_line_shows_its_old_number_and_an_added_one_its_new() -> None:
    rows = CodeRows(compare(["a", "b"], ["a", "c"]), old=None, new=None)
    assert [plain(row)[:4] for row in rows] == ["  1 ", "  2 ", "  2 "]
    assert [plain(row)[5:] for row in rows] == ["  a", "- b", "+ c"]


def beside(rows: Sequence[Row]) -> list[tuple[Row | None, Row | None]]:
    """Pairs as one makes them by hand: row by row."""
    pairs: list[tuple[Row | None, Row | None]] = []
    sides: dict[Kind, list[Row]] = {Kind.REMOVED: [], Kind.ADDED: []}
    for row in (*rows, Row(Kind.GAP, 0, 0)):
        if row.kind in sides:
            sides[row.kind].append(row)
            continue
        pairs += zip_longest(sides[Kind.REMOVED], sides[Kind.ADDED])
        sides = {kind: [] for kind in sides}
        pairs.append((row, row))
    return pairs[:-1]


@given(lines, lines, st.integers(0, 2))
def test_pairs_made_where_they_are_seen_are_those_made_row_by_row(
    old: list[str], new: list[str], context: int
) -> None:
    for compared in (compare(old, new), folded(compare(old, new), context)):
        pairs = SideBySide(compared, find_hunks(compared))
        expected = beside(compared)
        shown = [[None if n is None else compared[n] for n in pair] for pair in pairs]
        assert shown == [list(pair) for pair in expected]
        changed = [one != other or one is None for one, other in expected]
        assert pairs.starts == [
            n for n, each in enumerate(changed) if each and not (n and changed[n - 1])
        ]

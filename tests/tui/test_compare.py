from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from akg_tui.hashline.document import Document
from akg_tui.syntax import highlight
from akg_tui.tui.code import CodeRows, Colours
from akg_tui.tui.compare import Kind, Row, compare, folded, hunks, size, split_lines
from akg_tui.tui.spans import plain

from .script import KERNEL

lines = st.lists(st.sampled_from(["a", "b", "c", "}", "", "    x", "y"]), max_size=25)


@given(lines, lines)
def test_the_rows_hold_both_texts_in_order(old: list[str], new: list[str]) -> None:
    rows = compare(old, new)
    assert [r.text for r in rows if r.kind is not Kind.ADDED] == old
    assert [r.text for r in rows if r.kind is not Kind.REMOVED] == new
    assert [r.old for r in rows if r.kind is not Kind.ADDED] == list(range(1, len(old) + 1))
    assert [r.new for r in rows if r.kind is not Kind.REMOVED] == list(range(1, len(new) + 1))


@given(lines)
def test_a_text_does_not_differ_from_itself(text: list[str]) -> None:
    assert size(compare(text, text)) == (0, 0)


def test_one_changed_line_is_one_hunk() -> None:
    old = [f"line {n}" for n in range(100)]
    new = [*old[:50], "changed", *old[51:]]
    rows = compare(old, new)
    assert size(rows) == (1, 1)
    assert hunks(rows) == (50,)


def test_what_is_alike_is_folded_and_counted() -> None:
    old = [f"line {n}" for n in range(100)]
    rows = folded(compare(old, [*old[:50], *old[51:]]), 3)
    assert [row.kind.value for row in rows] == ["~", " ", " ", " ", "-", " ", " ", " ", "~"]
    assert rows[0] == Row(Kind.GAP, 47, 0)
    assert rows[-1] == Row(Kind.GAP, 46, 0)


@given(st.text(st.sampled_from("ab\r\n\x0c\u2028\ufeff"), max_size=30))
def test_lines_are_counted_as_hashline_counts_them(text: str) -> None:
    assert tuple(split_lines(text)) == Document.from_text(text, path="k.py").lines


@given(st.text(st.sampled_from("ab\"'#\\\r\n\x0c\t "), max_size=60))
def test_colour_changes_no_character(text: str) -> None:
    shown = CodeRows(compare([], split_lines(text)), b"k", old=None, new=Colours().lex(text))
    bare = CodeRows(compare([], split_lines(text)), b"k", old=None, new=None)
    assert [plain(row) for row in shown] == [plain(row) for row in bare]


def test_a_kernel_is_coloured_as_python_and_its_source_string_as_cpp() -> None:
    rows = highlight(KERNEL)
    assert ["".join(text for text, _ in row) for row in rows] == KERNEL.split("\n")
    flat = {(text, role) for row in rows for text, role in row}
    assert ("class", "syn.keyword") in flat
    assert ("int64_t", "syn.type") in flat or ("float", "syn.type") in flat
    assert any(role == "syn.preproc" and "include" in text for text, role in flat)


def test_a_removed_line_shows_its_old_number_and_tag_and_an_added_one_its_new() -> None:
    rows = CodeRows(compare(["a", "b"], ["a", "c"]), b"k", old=None, new=None)
    assert [plain(row)[:4] for row in rows] == ["  1 ", "  2 ", "  2 "]
    assert [plain(row)[7:] for row in rows] == ["  a", "- b", "+ c"]
    assert plain(rows[1])[4:6] != plain(rows[2])[4:6]


def test_rubbish_in_a_kernel_line_is_shown_as_marks() -> None:
    rows = CodeRows(compare([], ["x = '\x1b]0;x\x07[red]'"]), b"k", old=None, new=None)
    assert plain(rows[0]).endswith("x = '␛]0;x␇[red]'")

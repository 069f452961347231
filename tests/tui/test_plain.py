from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.sanitize import clean, one_line, split_clean
from akg_tui.view.spans import cells, cut, fit, hang, line, plain, spread, width, wrap

any_text = st.text(st.characters(codec=None, exclude_categories=[]), max_size=60)
printable = st.text(st.characters(exclude_categories=["C", "Zl", "Zp", "M"]), max_size=60)


@given(any_text)
def test_cleaned_text_holds_nothing_that_acts_on_a_terminal(text: str) -> None:
    shown = clean(text)
    assert "\x1b" not in shown
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in shown)
    assert not any(0x202A <= ord(c) <= 0x202E or 0x2066 <= ord(c) <= 0x2069 for c in shown)
    shown.encode("utf-8")


@given(any_text)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b]0;x\x07", "␛]0;x␇"),
        ("\x9b31m", "<U+009B>31m"),
        ("a\u202eb", "a<U+202E>b"),
        ("a\u200bb", "a<U+200B>b"),
        ("\ud800", "<U+D800>"),
        ("[red]text[/red]", "[red]text[/red]"),
        ("\tx", "    x"),
        ("漢字 ×", "漢字 ×"),
        ("a\r\b", "a␍␈"),
        ("\x7f", "␡"),
    ],
)
def test_what_is_replaced_stays_visible(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_only_a_line_feed_ends_a_line() -> None:
    assert split_clean("a\r\nb\x0cc\u2028d\n") == ["a", "b␌c<U+2028>d", ""]


def test_an_item_text_of_many_lines_becomes_one() -> None:
    assert one_line(" a\n  b\x1b[31m ") == "a b␛[31m"


@given(printable, st.integers(2, 30))
def test_a_cut_text_fits_and_tells_that_it_was_cut(text: str, room: int) -> None:
    short = cut(text, room)
    assert cells(short) <= room
    assert short == text or short.endswith("…")


@given(st.lists(printable, max_size=4), st.integers(2, 40))
def test_a_fitted_line_fits(texts: list[str], room: int) -> None:
    fitted = fit(line(*texts), room)
    assert width(fitted) <= room


@given(printable, st.integers(2, 30), st.integers(2, 30))
def test_wrapping_loses_no_letter_and_overflows_nowhere(text: str, room: int, first: int) -> None:
    rows = wrap(text, room, first=first)
    assert cells(rows[0]) <= first
    assert all(cells(row) <= room for row in rows[1:])
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")


@given(st.text(alphabet=list("字数，：（）… a×"), max_size=60), st.integers(2, 20))
def test_chinese_breaks_anywhere_and_loses_nothing(text: str, room: int) -> None:
    rows = wrap(text, room)
    assert all(cells(row) <= room for row in rows)
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")


def test_no_line_of_chinese_begins_with_what_closes() -> None:
    text = "对声明的旋钮作搜索，不是语言模型：共 600 种（已测 4 种）。接下来 4 项"
    for room in range(6, 60):
        rows = wrap(text, room)
        assert not any(row[0] in "，：）。" or row[-1] == "（" for row in rows)
        assert all(cells(row) > room - 8 for row in rows[:-1]), "no line is left half empty"


def test_what_hangs_after_a_lead_is_indented_by_little() -> None:
    rows = hang("one two three four", 14, line(("candidate ", "muted")), "text")
    assert [plain(row) for row in rows] == ["candidate one", "  two three", "  four"]


def test_both_ends_of_a_row_are_kept_and_the_left_gives_way() -> None:
    assert plain(spread(line("left side"), line("right"), 12)) == "left … right"
    assert plain(spread(line("ab"), line("cd"), 8)) == "ab    cd"

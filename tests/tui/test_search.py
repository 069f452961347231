"""A search finds the same rows as a look at each of them, and costs nearly nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.sanitize import clean
from akg_tui.view.diff import compare, folded
from akg_tui.view.lazy_rows import SearchText

LETTERS = st.text(alphabet="abAB \u0130\u00df\t", max_size=6)
ROWS = st.lists(LETTERS, min_size=1, max_size=9)


def by_looking(rows: list[str], needle: str, start: int, step: int) -> int | None:
    exact = needle != needle.lower()
    for offset in range(len(rows)):
        index = (start + offset * step) % len(rows)
        if needle in (rows[index] if exact else rows[index].lower()):
            return index
    return None


@given(ROWS, LETTERS.filter(bool), st.integers(-3, 12), st.sampled_from([1, -1]))
def test_the_row_found_is_the_one_that_a_look_at_every_row_finds(
    rows: list[str], needle: str, start: int, step: int
) -> None:
    found = SearchText(rows, exact=needle != needle.lower()).seek(needle, start, step)
    assert found == by_looking(rows, needle, start, step)


@given(ROWS, ROWS, st.integers(0, 2))
def test_the_texts_of_a_comparison_are_those_of_its_rows(
    old: list[str], new: list[str], context: int
) -> None:
    for compared in (compare(old, new), folded(compare(old, new), context)):
        assert compared.texts() == [row.text for row in compared]
        assert len(compared.texts()) == len(compared)
        assert all("\n" not in clean(text) for text in compared.texts())

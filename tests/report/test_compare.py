"""The diff of seed and best: every line is itself, and the words add up to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from akg_tui.report.compare import counts, rows

texts = st.lists(
    st.sampled_from(["a = 1", "a = 2", "b(a, 1)", "", "}", "for x in y:"]), max_size=30
)


@given(texts, texts)
def test_every_row_is_a_line_of_its_text(before: list[str], after: list[str]) -> None:
    found = rows("\n".join(before), "\n".join(after))
    for row in found:
        line = "".join(word for word, _ in row.words)
        if row.before is not None:
            assert row.mark in "- "
            assert before[row.before - 1] == line
        if row.after is not None:
            assert row.mark in "+ "
            assert after[row.after - 1] == line
    added, removed = counts(found)
    trailing = (before[-1:] == [""]) - (after[-1:] == [""])  # a line end at the end is no line
    assert added - removed == len(after) - len(before) + trailing


def test_the_words_that_changed_are_marked_and_no_others() -> None:
    _, old, new = rows("LANES = 1  # tune: [1, 4]\n", "LANES = 4  # tune: [1, 4]\n")
    assert [word for word, changed in old.words if changed] == ["1"]
    assert [word for word, changed in new.words if changed] == ["4"]


def test_lines_that_have_nothing_in_common_are_marked_as_a_whole() -> None:
    _, old, new = rows("alpha beta\n", "x = [1]\n")
    assert old.words == (("alpha beta", False),)
    assert new.words == (("x = [1]", False),)

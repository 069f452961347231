"""A search finds the same rows as a look at each of them, and costs nearly nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.phases import Phase
from akg_tui.core.sanitize import clean
from akg_tui.tui.screens import rounds
from akg_tui.tui.screens.rounds import Rounds
from akg_tui.tui.widgets import diff_view
from akg_tui.view import code_rows
from akg_tui.view.diff import Compared, Row, Run, compare, folded, split_lines
from akg_tui.view.lazy_rows import SearchText

from .script import FakeHandle, Try, faster
from .stage import on_stage

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


def long_run() -> FakeHandle:
    """A run on a kernel of 4,000 lines, in which lines 2 and 3 of the candidates differ."""
    kernel = "".join(f"line_{n} = {n}\n" for n in range(1, 4_001))
    changed = kernel.replace("line_2 = 2\n", "line_2 = 0\n")
    other = kernel.replace("line_3 = 3\n", "line_3 = 0\n")
    plan = [Try("two", kernel, changed, faster(0.9)), Try("three", kernel, other, faster(0.9))]
    return FakeHandle(kernel=kernel, plans=[plan]).to_phase(Phase.EVAL, settled=1)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of a comparison were made: [0] so far."""
    count, make = [0], Compared._row

    def counted(compared: Compared, run: Run, offset: int) -> Row:
        count[0] += 1
        return make(compared, run, offset)

    monkeypatch.setattr(Compared, "_row", counted)
    return count


async def test_a_search_and_a_whole_comparison_make_the_rows_in_sight_alone(
    made: list[int],
) -> None:
    async with on_stage(long_run()) as stage:
        await stage.press("2", "slash")
        made[0] = 0
        await stage.press(*"line_39")
        assert "row 40 of " in stage.text()
        await stage.press("9", "9", "x")
        assert "not found: line_3999x" in stage.text()
        await stage.press("backspace", "enter")
        assert "line_3999 = 3999" in stage.text()
        await stage.press("escape", "v")
        assert isinstance(stage.app.screen, Rounds)
        for key in ("z", "n", "left", "z", "z"):
            await stage.press(key)
        assert made[0] < 4_000, "all the keys together cost less than one walk through the kernel"


async def test_a_kernel_is_split_once_for_all_that_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = long_run()
    split: list[str] = []

    def lines(text: str) -> tuple[str, ...]:
        split.append(text)
        return split_lines(text)

    for module in (code_rows, diff_view, rounds):
        monkeypatch.setattr(module, "split_lines", lines, raising=False)
    async with on_stage(handle) as stage:
        await stage.press("5", "2", "i", "at", *"12", "escape", "r", "escape", "v", "z")
    assert len(split) == len(set(split))

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.view.controls import panes
from akg_tui.view.controls.command_registry import key_of
from akg_tui.view.controls.deck_layout import PANES, PRESETS, place, shape_of, tabs
from akg_tui.view.controls.panes import Shape
from akg_tui.view.spans import plain

sizes = st.tuples(st.integers(1, 320), st.integers(1, 120))
large = st.tuples(st.integers(100, 320), st.integers(22, 120))


@given(sizes, st.sampled_from(PANES), st.sampled_from(sorted(PRESETS)), st.booleans())
def test_the_active_pane_is_always_in_sight(
    size: tuple[int, int], active: str, preset: str, zoomed: bool
) -> None:
    shape = shape_of(*size)
    places = place(size, shape, preset, active, zoomed=zoomed, hidden=PANES)
    assert active in places
    if zoomed or shape in (Shape.TINY, Shape.TABS):
        assert set(places) == {active}


@given(
    large,
    st.sampled_from([Shape.THREE, Shape.FIVE]),
    st.sampled_from(PANES),
    st.sampled_from(sorted(PRESETS)),
    st.sets(st.sampled_from(PANES)),
)
def test_the_panes_cover_the_body_and_none_covers_another(
    size: tuple[int, int], shape: Shape, active: str, preset: str, hidden: set[str]
) -> None:
    width, height = size
    places = place(size, shape, preset, active, hidden=hidden)
    assert not (set(places) & hidden) - {active}
    assert sum(p.width * p.height for p in places.values()) == width * height
    spots = list(places.values())
    for n, one in enumerate(spots):
        assert one.width > 2
        assert one.height > 2
        assert one.x + one.width <= width
        assert one.y + one.height <= height
        for other in spots[n + 1 :]:
            apart = one.x + one.width <= other.x or other.x + other.width <= one.x
            assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y


def test_the_shapes_change_at_their_borders() -> None:
    assert shape_of(59, 40) is shape_of(120, 15) is Shape.TINY
    assert shape_of(60, 16) is shape_of(99, 60) is shape_of(120, 29) is Shape.TABS
    assert shape_of(100, 30) is shape_of(159, 60) is Shape.THREE
    assert shape_of(160, 30) is Shape.FIVE


def test_the_deck_has_three_columns_and_then_best_beside_working() -> None:
    three = place((120, 36), Shape.THREE, "deck", "source")
    assert sorted({spot.x for spot in three.values()}) == [0, 34, 84]
    five = place((200, 56), Shape.FIVE, "deck", "source")
    assert five["best"].y == five["source"].y
    assert five["best"].x + five["best"].width == five["source"].x
    assert abs(five["best"].width - five["source"].width) <= 1


@pytest.mark.parametrize("pane", panes.PANES)
def test_a_declared_pane_has_a_key_and_a_tab(pane: panes.PaneDeclaration) -> None:
    assert (key_of(f"pane.{pane.id}") or "").lower() == pane.key
    assert pane.title in plain(tabs(pane.id, 200))

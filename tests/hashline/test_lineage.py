from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from akg_tui.hashline.lineage import LineMap

COUNTS = st.integers(0, 8)


@st.composite
def chains(draw: st.DrawFn) -> list[LineMap]:
    """Maps that fit together; each sends different lines to different places."""
    maps: list[LineMap] = []
    count = draw(COUNTS)
    for _ in range(3):
        later = draw(COUNTS)
        places = draw(st.permutations(range(1, max(count, later) + 1)))[:count]
        kept = [draw(st.booleans()) for _ in places]
        maps.append(
            LineMap(
                tuple(p if k and p <= later else 0 for p, k in zip(places, kept, strict=True)),
                later,
            )
        )
        count = later
    return maps


@given(chains())
def test_composition_of_line_maps_is_associative(maps: list[LineMap]) -> None:
    a, b, c = maps
    assert a.then(b).then(c) == a.then(b.then(c))


@given(chains())
def test_the_unchanged_map_is_the_identity_of_composition(maps: list[LineMap]) -> None:
    a = maps[0]
    assert LineMap.unchanged(len(a.to)).then(a) == a == a.then(LineMap.unchanged(a.count))


def test_lines_that_stand_in_another_order_are_no_run() -> None:
    swapped = LineMap((2, 1, 3), 3)
    assert swapped.run(1, 2) is None
    assert swapped.run(1, 1) == 2
    assert swapped.gap(1) is None
    assert swapped.gap(0) is None
    assert swapped.gap(3) == 3

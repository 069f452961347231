"""A chart that grows looks as if it had been drawn at once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from akg_tui.view.chart import Chart, Plot, Series, draw


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.floats(0.2, 9), st.integers(1, 40)), min_size=1, max_size=60
    ),
    st.sampled_from([(60, 12), (120, 30)]),
)
def test_a_chart_that_grew_is_the_chart_drawn_anew(
    points: list[tuple[int, float, int]], size: tuple[int, int]
) -> None:
    kinds = Series("✓", "verdict.keep"), Series("▪", "verdict.discard"), Series("✗", "verdict.fail")
    steps, chart, x = [(0, 1.0)], Chart(), 0
    for kind, y, far in points:
        x += far
        live = Series("◆", "chart.live")
        live.add(x + 1, y * 1.1, y, y * 1.2)
        if kind == 3:
            steps.append((x, y))
            kinds[0].add(x, y, y * 0.9, y * 1.1)
        else:
            kinds[kind].add(x, None if kind == 2 else y, y * 0.9, y * 1.3)
        shown = (*kinds, live) if kind % 2 else kinds
        plot = Plot(shown, tuple(steps), x + 1, "×", "", (x, y * 0.99, y * 1.01))
        assert chart.draw(plot, *size) == draw(plot, *size)

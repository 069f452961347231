from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from akg_tui.tui.pull_clock import SLOWEST, Pace


def test_a_slow_terminal_slows_the_clock_down_to_four_pulls_a_second() -> None:
    pace = Pace()
    pulls = [pace.tick(0.0, 5) for _ in range(10 * SLOWEST)]
    assert 0 < sum(pulls[SLOWEST:]) <= 9
    assert pace.stride == SLOWEST


def test_the_clock_recovers_when_the_strain_is_over() -> None:
    pace = Pace()
    for _ in range(20):
        pace.tick(0.2, 0)
    for _ in range(100):
        pace.tick(0.0, 0)
    assert pace.stride == 1


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30)), max_size=80))
def test_whatever_happens_a_pull_is_never_further_than_the_slowest_stride(
    ticks: list[tuple[float, int]],
) -> None:
    pace = Pace()
    waited = 0
    for lag, backlog in ticks:
        waited = 0 if pace.tick(lag, backlog) else waited + 1
        assert waited < SLOWEST

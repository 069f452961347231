"""The drawing of the chart: bars, band and line."""

from __future__ import annotations

import pytest

from akg_tui import resources
from akg_tui.core.phases import Verdict
from akg_tui.tui.themes import load
from akg_tui.view.glyphs import VERDICT, ascii_twin
from akg_tui.view.run_chart import LABEL, Plot, Reference, Series, draw
from akg_tui.view.spans import plain

DRAWN = """\
      │                  ╷
 2.00×┤                  ✓━━━━━━
      │                  ┃
      │                  ┃
 1.75×┤                  ┃
      │   ╷        │     ┃
 1.50×┤   ✓━━━━━━━━≃━━━━━┛
      │░░░┃░░░░░░░░│░░░░░░░░░░░░
 eager┤╌╌╌┃╌╌│╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌
      │░░░┃░░▪░░░░░░░░░░░░░░░░░░
      │   ┃  │
 1.00×┤━━━┛
      │         ✗
      └0        3        6"""


def few_attempts() -> Plot:
    """Return a KEEP, a DISCARD, a FAIL, an INCONCLUSIVE and a KEEP."""
    series = {verdict: Series(*VERDICT[verdict]) for verdict in Verdict}
    series[Verdict.KEEP].add(1, 1.5, 1.4, 1.6)
    series[Verdict.DISCARD].add(2, 1.2, 1.05, 1.3)
    series[Verdict.FAIL].add(3, None)
    series[Verdict.INCONCLUSIVE].add(4, 1.5, 1.36, 1.64)
    series[Verdict.KEEP].add(6, 2.0, 1.9, 2.1)
    steps = ((0, 1.0), (1, 1.5), (6, 2.0))
    eager = Reference("eager", 1.3, 1.2, 1.4)
    return Plot(tuple(series.values()), steps, 8, "", references=(eager,))


def drawn(plot: Plot, width: int, height: int) -> list[str]:
    return [plain(row).rstrip() for row in draw(plot, width, height)]


def test_a_chart_has_thin_bars_a_shaded_band_and_a_solid_line() -> None:
    assert "\n".join(drawn(few_attempts(), 32, 14)) == DRAWN


def test_a_band_is_a_shade_and_without_colours_a_texture() -> None:
    (row,) = [row for row in draw(few_attempts(), 32, 14) if "▪" in plain(row)]
    assert {role for text, role in row if set(text) & set("░┃▪")} == {
        "chart.band",
        "chart.band|chart.best",
        "chart.band|verdict.discard",
    }
    for name in ("ember", "paper", "mono"):
        shade = load(resources.themes() / f"{name}.toml").roles["chart.band"]
        assert shade.color == shade.bgcolor is not None
    terminals_own = load(resources.themes() / "ansi16.toml").roles["chart.band"]
    assert terminals_own.bgcolor is None


def test_line_eager_bars_and_verdicts_differ_in_ascii_too() -> None:
    told = [ascii_twin(row) for row in drawn(few_attempts(), 32, 14)]
    assert told[6] == " 1.50x+   v========~=====+"
    assert told[8] == " eager+---|--|------------------"
    assert [told[n][at] for n, at in ((5, 10), (9, 13), (12, 16))] == [",", "#", "x"]


@pytest.mark.parametrize("size", [(50, 9), (110, 30)])
def test_among_more_attempts_than_columns_the_line_stays_whole_and_keeps_its_keeps(
    size: tuple[int, int],
) -> None:
    kept, others = Series(*VERDICT[Verdict.KEEP]), Series(*VERDICT[Verdict.DISCARD])
    steps = [(0, 1.0)]
    for n in range(1, 501):
        best = 1 + n // 100
        if n % 100:
            others.add(n, best * (1.0 if n % 3 else 0.9), best * 0.8, best * 1.1)
        else:
            kept.add(n, best, best * 0.98, best * 1.02)
            steps.append((n, best))
    rows = drawn(Plot((others, kept), tuple(steps), 500, ""), *size)[:-1]
    inside = [row.ljust(size[0])[LABEL + 1 :] for row in rows]
    assert all(set(column) & set("━┛✓") for column in zip(*inside, strict=True))
    assert sum(row.count("✓") for row in inside) == 5
    barred = [set(column) for column in zip(*inside, strict=True) if set(column) & set("│╷╵")]
    assert all("✓" in column for column in barred)


def test_eager_and_compile_in_one_row_are_both_named() -> None:
    two = Reference("eager", 1.5, 1.45, 1.55), Reference("compile", 1.51, 1.46, 1.56)
    rows = drawn(Plot((), ((0, 1.0), (4, 2.0)), 8, "", references=two), 40, 10)
    at = [row[:7] for row in rows].index("compile")
    assert rows[at + 1].startswith(" eager┤╌")

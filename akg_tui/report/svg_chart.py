"""The chart of a run as SVG: every round over the seed, its interval, and the incumbent.

The only module that loads matplotlib, and only when it draws. Colours are CSS variables, so the
page sets them for light, dark and print; shapes carry the same information as colours.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from akg_tui.core.measurement import Interval
from akg_tui.report.contents import Report, Round

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN, HEIGHT_IN = 9.6, 4.3
LARGEST = 1e9  # ratio, on the axis

# Placeholder colours that matplotlib accepts; the page's variables replace them. They are so near
# to black that no other colour of the drawing equals one of them.
_STAND_INS = {
    "keep": "#010001",
    "discard": "#010002",
    "fail": "#010003",
    "inconclusive": "#01000a",
    "line": "#010004",
    "reference": "#010005",
    "ink": "#010006",
    "grid": "#010007",
    "paper": "#010008",
    "final": "#010009",
}
_MARKER = {"KEEP": "o", "DISCARD": "D", "FAIL": "X", "INCONCLUSIVE": "s", "SHORTLIST": "^"}
_CORRECT = ("DISCARD", "INCONCLUSIVE")  # drawn with their time, and not kept


def _height(drawn: Round) -> float:
    return drawn.estimate_over_seed.ratio if drawn.estimate_over_seed else 0.0


def draw(report: Report) -> str:
    """Return the chart as an `<svg>` element. Equal reports produce equal bytes."""

    import matplotlib as mpl
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {
        "svg.hashsalt": report.about.run_id,
        "svg.fonttype": "none",  # text stays text: it can be found, copied and read aloud
        "font.family": "sans-serif",
        "font.size": 10,
        "path.simplify": False,
    }
    with mpl.rc_context(), warnings.catch_warnings():
        # They quote the text of the chart as it is, and say nothing that a reader could mend.
        warnings.simplefilter("ignore")
        mpl.rcdefaults()  # a user's style file must not change a report
        mpl.rcParams.update(settings)
        figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained")
        axes = figure.subplots()
        _furnish(figure, axes, report)
        _rounds(axes, report.rounds)
        _lines(axes, report)
        _limits(axes, report)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    return _themed(drawn.getvalue())


def _furnish(figure: Figure, axes: Axes, report: Report) -> None:
    figure.patch.set_visible(False)
    axes.patch.set_visible(False)
    ink, grid = _STAND_INS["ink"], _STAND_INS["grid"]
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(grid)
    axes.set_yscale("log")
    axes.grid(axis="y", which="major", color=grid, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=ink, color=grid, length=3)
    axes.set_xlabel("round", color=ink)
    axes.set_ylabel("times as fast as the seed", color=ink)


def _rounds(axes: Axes, rounds: Sequence[Round]) -> None:
    for verdict in (*_CORRECT, "KEEP"):
        timed = [r for r in rounds if r.verdict == verdict and r.ratio and _height(r) > 0]
        if timed:
            _timed(axes, verdict, timed)
    # A failed round has no time: it is drawn on the floor of the chart.
    failed = [r for r in rounds if r.verdict == "FAIL" or not (r.ratio and _height(r) > 0)]
    if failed:
        marks = axes.scatter(
            [r.round for r in failed],
            [0.035] * len(failed),
            marker=_MARKER["FAIL"],
            s=42,
            color=_STAND_INS["fail"],
            linewidths=0,
            transform=axes.get_xaxis_transform(),
            zorder=4,
        )
        marks.set_urls([f"#round-{r.round}" for r in failed])


def _timed(axes: Axes, verdict: str, rounds: Sequence[Round]) -> None:
    """Draw marks with the interval of the round's own comparison, the basis of its verdict."""
    colour = _STAND_INS[verdict.lower()]
    x = [r.round for r in rounds]
    y = [_height(r) for r in rounds]
    own = [_own_interval(r) for r in rounds]
    below = [max(0.0, middle - low) for middle, (low, _) in zip(y, own, strict=True)]
    above = [max(0.0, high - middle) for middle, (_, high) in zip(y, own, strict=True)]
    axes.errorbar(x, y, yerr=[below, above], fmt="none", ecolor=colour, elinewidth=1.3, capsize=2.5)
    marks = axes.scatter(
        x,
        y,
        marker=_MARKER[verdict],
        s=52 if verdict == "KEEP" else 30,
        facecolors=colour if verdict == "KEEP" else _STAND_INS["paper"],
        edgecolors=colour,
        linewidths=1.4,
        zorder=5,
    )
    marks.set_urls([f"#round-{r.round}" for r in rounds])


def _own_interval(drawn: Round) -> tuple[float, float]:
    assert drawn.ratio is not None
    at = drawn.incumbent_over_seed
    # A bound at or below zero cannot be drawn on a logarithmic axis.
    return max(drawn.ratio.low * at, _height(drawn) / 1000), drawn.ratio.high * at


def _lines(axes: Axes, report: Report) -> None:
    last = max(report.about.rounds, 1)
    if report.incumbents:
        x = [step.after_round for step in report.incumbents]
        y = [step.over_seed for step in report.incumbents]
        axes.step(
            [*x, last + 0.5], [*y, y[-1]], where="post", color=_STAND_INS["line"], linewidth=2.0,
            zorder=3,
        )  # fmt: skip
    figures, colour = report.figures, _STAND_INS["reference"]
    lines = {"eager": figures.reference_over_seed, "compile": figures.compile_over_seed}
    for name, over in lines.items():
        if over is None:
            continue
        axes.axhline(over.ratio, color=colour, linewidth=1.2, linestyle=(0, (5, 3)), zorder=2)
        axes.axhspan(over.low, over.high, color=colour, alpha=0.10, linewidth=0)
        # At opposite ends, because the lines may lie close together.
        at, side, shift = (0.0, "left", 4) if name == "eager" else (1.0, "right", -4)
        axes.annotate(
            name, (at, over.ratio), xycoords=("axes fraction", "data"), xytext=(shift, 3),
            textcoords="offset points", ha=side, va="bottom", color=colour, fontsize=9,
        )  # fmt: skip
    final = figures.speedup_over_seed
    if final is not None:
        _final(axes, final, last + 0.5)


def _final(axes: Axes, final: Interval, at: float) -> None:
    colour = _STAND_INS["final"]
    error = [[max(0.0, final.ratio - final.low)], [max(0.0, final.high - final.ratio)]]
    axes.errorbar([at], [final.ratio], yerr=error, fmt="none", ecolor=colour, elinewidth=1.8,
                  capsize=3.5)  # fmt: skip
    axes.scatter([at], [final.ratio], marker="*", s=150, color=colour, linewidths=0, zorder=6)


def _limits(axes: Axes, report: Report) -> None:
    """Set integer ticks for rounds, plain multiples (never 10²) for ratios, and a margin."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    rounds = max(report.about.rounds, 1)
    axes.set_xlim(-0.02 * rounds - 0.3, rounds * 1.02 + 0.7)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
    low, high = axes.get_ylim()
    # A journal from elsewhere can have any number.
    low, high = max(min(low, 0.8), 1 / LARGEST), min(max(high, 1.25), LARGEST)
    axes.set_ylim(low / (high / low) ** 0.10, high * (high / low) ** 0.05)
    subs = (1.0, 2.0, 5.0) if high / low < 1000 else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _themed(svg: str) -> str:
    """Return the bare element, without fixed size, with the page's variables as colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'(<svg [^>]*?)width="[^"]*" height="[^"]*" ', r"\1", svg, count=1)
    for name, colour in _STAND_INS.items():
        svg = svg.replace(colour, f"var(--chart-{name})")
    return svg.strip()

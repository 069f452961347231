"""The chart: every attempt as a point by its verdict, the best as a step line."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from akg_tui.tui.widgets.painted import Painted
from akg_tui.view.chart import UNITS, AttemptSeries, Chart, Plot
from akg_tui.view.controls.command_registry import named
from akg_tui.view.glyphs import PROMISED, VERDICT
from akg_tui.view.language import marked, tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line

_NOTHING = Plot((), (), 0, "", "")
_WHAT = {
    "ratio": marked("× over the seed"),
    "ms": marked("time a call"),
    "tokens": marked("× by tokens spent"),
    "roof": marked("% of the memory roofline"),
}


class ChartPane(Painted[Plot], can_focus=True):
    def __init__(self) -> None:
        super().__init__("chart", _NOTHING)
        self.trace = AttemptSeries()
        self._chart = Chart()
        self._title()

    @property
    def unit(self) -> str:
        """What the axes tell: the ratio over the seed, milliseconds, or ratio by tokens."""
        return self.trace.unit

    def _title(self) -> None:
        noise = self.trace.noise
        title = tr("chart: {what}", what=tr(_WHAT[self.unit]))
        if noise is not None:
            title += tr(", noise ±{percent} %", percent=f"{noise * 100:.1f}")
        self.border_title = Content(named("pane.chart", title))
        legend = [f"{glyph} {verdict}" for verdict, (glyph, _) in VERDICT.items()]
        if self.trace.promises:
            legend.append(f"{PROMISED} {tr('promised')}")
        self.border_subtitle = Content("  ".join(legend))

    def cycle(self) -> None:
        """The next unit."""
        self.trace.turn(UNITS[(UNITS.index(self.unit) + 1) % len(UNITS)])
        self.forget()

    def pull(self, look: RunSnapshot) -> None:
        state = look.state
        running = look.progress.ratio if look.progress and state.running else None
        tokens = state.tokens if self.unit == "tokens" else 0
        if self.moved(
            (len(state.attempts), state.phase, state.measured, running, tokens, state.undone)
        ):
            self.trace.read(state)
            self.show(self.trace.plot(state, running))
            self._title()

    def paint(self, view: Plot, width: int, height: int) -> Sequence[Line]:
        return self._chart.draw(view, width, height)

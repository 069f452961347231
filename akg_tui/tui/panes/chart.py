"""The pane of the chart: every attempt as a point by its verdict, the best as a step line."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.events import Click
from textual.message import Message

from akg_tui.core.events import COMPILED
from akg_tui.core.phases import Verdict
from akg_tui.core.sanitize import Said
from akg_tui.core.state import Attempt
from akg_tui.tui.panes.pane import Pane, Shared
from akg_tui.tui.widgets.painted import Painted
from akg_tui.view.glyphs import FRESH, VERDICT
from akg_tui.view.language import tr
from akg_tui.view.run_chart import CASE, AttemptSeries, Plot, draw, x_at
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line

_NOTHING = Plot((), (), 0, "")
_WHAT = {
    "ratio": Said("× over the seed"),
    "tokens": Said("× by tokens spent"),
    CASE: Said("× over the seed, {case}"),
}


_USUAL = (Verdict.KEEP, Verdict.DISCARD, Verdict.FAIL)
"""The verdicts that the legend always has."""


class ChartPane(Painted[Plot], Pane, can_focus=True):
    class Chosen(Message):
        """The point of an attempt was clicked; `twice`: by a double click."""

        def __init__(self, attempt: Attempt, *, twice: bool) -> None:
            super().__init__()
            self.attempt = attempt
            self.twice = twice

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name, _NOTHING)
        self.series = AttemptSeries()
        self._title()

    @property
    def unit(self) -> str:
        """The unit of the axes, one of `UNITS`, or `CASE`: the ratio over the seed in one case."""
        return self.series.unit

    def _title(self, plot: Plot = _NOTHING) -> None:
        noise = self.series.noise
        what = tr(_WHAT[self.unit], case=self.series.case)
        title = tr("chart: {what}", what=what)
        if noise is not None:
            title += tr(", noise ±{percent} %", percent=f"{noise * 100:.1f}")
        self.entitle(title)
        legend = [
            f"{glyph} {verdict}"
            for verdict, (glyph, _) in VERDICT.items()
            if verdict in _USUAL or self.series.has(verdict)
        ]
        if plot.fresh:
            legend.append(f"{FRESH} {tr('afresh')}")
        self.border_subtitle = Content("  ".join(legend))

    def cycle(self) -> str:
        """Show the next unit."""
        self.series.turn()
        self.forget()
        return ""

    def pull(self, snapshot: RunSnapshot) -> None:
        state = snapshot.state
        judged = state.running is not None and state.running.purpose not in COMPILED
        running = snapshot.progress.ratio if snapshot.progress and judged else None
        tokens = state.tokens if self.unit == "tokens" else 0
        if self.moved(
            (
                len(state.attempts),
                state.phase,
                state.measured,
                running,
                tokens,
                state.undone,
                state.baseline,
                state.compiled,
                state.autotuned,
                state.final,
            )
        ):
            self.series.read(state)
            plot = self.series.plot(state, running)
            self.show(plot)
            self._title(plot)

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        x = x_at(offset.x, self.view, self.size.width) if offset else None
        found = self.series.nearest(x) if x is not None and event.button == 1 else None
        if found is not None:
            self.post_message(self.Chosen(found, twice=event.chain == 2))

    def paint(self, view: Plot, width: int, height: int) -> Sequence[Line]:
        return draw(view, width, height)

"""The pane of the chart: every attempt as a point by its verdict, the best as a step line.

Drawn with signs, or as a picture where the terminal has them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.strip import Strip

from akg_tui.core.events import COMPILED
from akg_tui.core.phases import Verdict
from akg_tui.core.state import Attempt
from akg_tui.tui import textual_internals
from akg_tui.tui.panes.pane import Pane
from akg_tui.tui.terminal_pictures import cell_pixels
from akg_tui.tui.themes import Inked
from akg_tui.tui.widgets.painted import Painted, inks_of
from akg_tui.view.glyphs import FRESH, PROMISED, VERDICT
from akg_tui.view.language import marked, tr
from akg_tui.view.run_chart import CASE, LABEL, AttemptSeries, Plot, draw, inside, x_at
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line

PICTURE = 0x400000
"""The first number of a picture, and how many numbers there are."""

_NOTHING = Plot((), (), 0, "", "")
_WHAT = {
    "ratio": marked("× over the seed"),
    "ms": marked("time a call, by the ratio"),
    "tokens": marked("× by tokens spent"),
    "roof": marked("% of the memory roofline"),
    CASE: marked("× over the seed, {case}"),
}


def _usual(arch: str) -> tuple[Verdict, ...]:
    """Return the verdicts that the legend always has."""
    return (Verdict.SHORTLIST if arch else Verdict.KEEP, Verdict.DISCARD, Verdict.FAIL)


class ChartPane(Painted[Plot], Pane, can_focus=True):
    class Chosen(Message):
        """The point of an attempt was clicked; `twice`: by a double click."""

        def __init__(self, attempt: Attempt, *, twice: bool) -> None:
            super().__init__()
            self.attempt = attempt
            self.twice = twice

    def __init__(self) -> None:
        super().__init__("chart", _NOTHING)
        self.series = AttemptSeries()
        self._picture: tuple[int, int] | None = None  # columns and rows of the one on screen
        self._number = PICTURE + os.getpid() % PICTURE  # the terminal may show others' pictures
        self._in_signs = False
        self._title()

    @property
    def unit(self) -> str:
        """The unit of the axes, one of `UNITS`, or `CASE`: the ratio over the seed in one case."""
        return self.series.unit

    def _title(self, plot: Plot = _NOTHING) -> None:
        noise = self.series.noise
        what = tr(_WHAT[self.unit], case=self.series.case)
        if self.series.arch:
            what = tr("µs a call, an estimate for {arch}", arch=self.series.arch)
        title = tr("chart: {what}", what=what)
        if noise is not None:
            title += tr(", noise ±{percent} %", percent=f"{noise * 100:.1f}")
        self.entitle(title)
        legend = [
            f"{glyph} {verdict}"
            for verdict, (glyph, _) in VERDICT.items()
            if verdict in _usual(self.series.arch) or self.series.has(verdict)
        ]
        if self.series.promises:
            legend.append(f"{PROMISED} {tr('promised')}")
        if plot.fresh:
            legend.append(f"{FRESH} {tr('afresh')}")
        self.border_subtitle = Content("  ".join(legend))

    def cycle(self) -> bool:
        """Show the next unit."""
        self.series.turn()
        self.forget()
        return True

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

    def on_mount(self) -> None:
        # A terminal forgets the pictures of a screen that was left.
        self.app.app_resume_signal.subscribe(self, lambda _: self.reword())

    def on_unmount(self) -> None:
        self.delete_picture()

    def delete_picture(self) -> None:
        """Delete the picture; call before the screen is left, which has pictures of its own."""
        if self._picture is not None:
            from akg_tui.view.pictures import kitty

            self._picture = None
            textual_internals.write_to_terminal(self.app, kitty.deleted(self._number))

    def paint(self, view: Plot, width: int, height: int) -> Sequence[Line]:
        lines = draw(view, width, height)
        app, drawn = self.app, inside(view, width, height)
        wanted = isinstance(app, Inked) and app.shows_pictures
        sent = self._send(view, *drawn) if wanted and drawn is not None else None
        if sent is None:
            self.delete_picture()
        self._picture = sent
        return lines

    def _send(self, plot: Plot, columns: int, rows: int) -> tuple[int, int] | None:
        """Send the picture of a plot to the terminal; return the cells that it fills."""
        from akg_tui.view.pictures import kitty
        from akg_tui.view.pictures.chart_picture import GROUND, ROLES, chart_png

        if max(columns, rows) > kitty.MOST:
            return None
        inks, ground = inks_of(self), self.ground
        colours = {role: _rgb(inks.style(role).color) for role in ROLES}
        png = chart_png(
            plot, columns, rows, cell_pixels(), {GROUND: _rgb(ground.bgcolor), **colours}
        )
        codes = kitty.sent(self._number, png, columns, rows)
        textual_internals.write_to_terminal(self.app, codes)
        return columns, rows

    @contextmanager
    def in_signs(self) -> Iterator[None]:
        """Draw with signs inside of the block, for text and pictures that leave the terminal."""
        self._in_signs = True
        self.refresh()
        try:
            yield
        finally:
            self._in_signs = False
            self.refresh()

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if self._picture is None or self._in_signs or self.broken or y >= self._picture[1]:
            return strip
        from akg_tui.view.pictures import kitty

        style = self.ground + Style(color=Color.from_rgb(*self._number.to_bytes(3, "big")))
        cells = [Segment(kitty.cell(y, x), style) for x in range(self._picture[0])]
        return Strip([*strip.crop(0, LABEL + 1), *cells], LABEL + 1 + len(cells))


def _rgb(colour: Color | None) -> tuple[int, int, int]:
    red, green, blue = colour.get_truecolor() if colour is not None else (128, 128, 128)
    return red, green, blue

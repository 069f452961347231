"""The chart of a run as a picture: what `run_chart` draws with signs, in pixels.

The picture fills the cells inside of the axes, on the same scale, so that labels and columns of
both are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from akg_tui.core.phases import Verdict
from akg_tui.view.glyphs import FRESH, LIVE, PROMISED, VERDICT
from akg_tui.view.pictures.bitmap import Bitmap, Colour
from akg_tui.view.run_chart import CROWD, Plot, axis_length, columns_of, scale_of

MOST_PIXELS = 1_200_000
"""Larger pictures are drawn smaller: they would hold up the screen."""

BAND = 4
"""A band has a quarter of the colour of its line."""

GROUND = "ground"
"""The name of the background among the colours."""

ROLES = (
    *("note", "figure", "chart.axis", "chart.best", "chart.error", "chart.live"),
    *(role for _, role in VERDICT.values()),
)
"""The roles whose colours a picture has."""


def chart_png(
    plot: Plot, columns: int, rows: int, cell: tuple[int, int], colours: Mapping[str, Colour]
) -> bytes:
    """Return the PNG of a plot with steps, for so many cells of `cell` pixels.

    `colours` are those of roles, and of `GROUND`.
    """
    wide, high = cell
    while columns * wide * rows * high > MOST_PIXELS and min(wide, high) > 2:
        wide, high = max(2, wide // 2), max(2, high // 2)
    return _Drawing(plot, columns, rows, (wide, high), colours).png()


class _Drawing:
    """One picture, from the background to the points."""

    def __init__(
        self,
        plot: Plot,
        columns: int,
        rows: int,
        cell: tuple[int, int],
        colours: Mapping[str, Colour],
    ) -> None:
        self._plot, self._columns, self._rows = plot, columns, rows
        self._wide, self._high = cell
        self._ground = colours[GROUND]
        self._colours = dict(colours)
        self._palette: dict[Colour, int] = {}
        self._thin = max(1, self._high // 10)
        self._map = Bitmap(columns * self._wide, rows * self._high)
        self._scale = scale_of(plot, self._map.height, self._high)
        self._across = (columns - 1) / axis_length(plot.last_x)

    def png(self) -> bytes:
        self._bands()
        self._steps()
        self._points()
        return self._map.png([*self._palette])

    def _ink(self, role: str, *, part: int = 1) -> int:
        """Return the place of a role's colour in the palette, mixed with the ground for a part."""
        ink = self._colours[role]
        mixed = [
            (each + (part - 1) * under) // part
            for each, under in zip(ink, self._ground, strict=True)
        ]
        colour = (mixed[0], mixed[1], mixed[2])
        return self._palette.setdefault(colour, len(self._palette) + 1)

    def _x(self, x: float) -> int:
        """Return the pixel of a place of the horizontal axis: the middle of its cell."""
        return round((0.5 + x * self._across) * self._wide)

    def _bands(self) -> None:
        last, scale = self._map.width - 1, self._scale
        for each in self._plot.references:
            self._map.box(
                0, scale.at(each.high), last, scale.at(each.low), self._ink("note", part=BAND)
            )
        for each in self._plot.references:
            y, dash = scale.at(each.value), max(2, self._wide)
            for x in range(0, last, 2 * dash):
                self._map.box(x, y, x + dash - 1, y + self._thin - 1, self._ink("note"))

    def _steps(self) -> None:
        steps, thick, ink = self._plot.steps, 2 * self._thin, self._ink("chart.best")
        xs = [x for x, _ in steps]
        ends = [*xs[1:], max(self._plot.last_x, xs[-1])]
        before: int | None = None
        for (x, value), end in zip(steps, ends, strict=True):
            y = self._scale.at(value)
            top, left = y - thick // 2, self._x(x)
            self._map.box(left, top, self._x(end), top + thick - 1, ink)
            if before is not None:
                self._map.box(left, min(y, before), left + thick - 1, max(y, before), ink)
            before = y

    def _points(self) -> None:
        size = max(3, min(self._wide, self._high // 2))
        for each in self._plot.series:
            draw = _SHAPES[each.glyph]
            for _, begin, end in columns_of(each.xs, self._across):
                x = self._x(each.xs[begin])
                low, high = each.lows[begin], each.highs[begin]
                if end - begin == 1 and low < high:
                    self._error_bar(x, self._scale.at(high), self._scale.at(low), size)
                ys = each.ys[begin:end]
                for y in ys if len(ys) <= CROWD else (min(ys), max(ys)):
                    draw(self._map, x, self._scale.at(y), size, self._ink(each.role))
            floor = self._map.height - 1 - self._high // 2
            for _, begin, _ in columns_of(each.floor, self._across):
                draw(self._map, self._x(each.floor[begin]), floor, size, self._ink(each.role))

    def _error_bar(self, x: int, top: int, bottom: int, size: int) -> None:
        ink, thin = self._ink("chart.error"), self._thin
        self._map.box(x, top, x + thin - 1, bottom, ink)
        for y in (top, bottom):
            self._map.box(x - size // 2, y, x + size // 2, y + thin - 1, ink)


def _check(map_: Bitmap, x: int, y: int, size: int, ink: int) -> None:
    thick = max(2, size // 3)
    low = (x - size // 3, y + size * 2 // 3)
    map_.stroke((x - size, y), low, ink, thick)
    map_.stroke(low, (x + size, y - size), ink, thick)


def _square(map_: Bitmap, x: int, y: int, size: int, ink: int) -> None:
    half = size * 2 // 3
    map_.box(x - half, y - half, x + half, y + half, ink)


def _cross(map_: Bitmap, x: int, y: int, size: int, ink: int) -> None:
    thick, half = max(2, size // 3), size * 4 // 5
    map_.stroke((x - half, y - half), (x + half, y + half), ink, thick)
    map_.stroke((x - half, y + half), (x + half, y - half), ink, thick)


def _waves(map_: Bitmap, x: int, y: int, size: int, ink: int) -> None:
    thick = max(2, size // 3)
    for at in (y - thick, y + thick):
        map_.box(x - size, at - thick // 2, x + size, at - thick // 2 + thick - 1, ink)


def _stripes(map_: Bitmap, x: int, y: int, size: int, ink: int) -> None:
    thick = max(2, size // 4)
    for at in (y - 2 * thick, y, y + 2 * thick):
        map_.box(x - size, at - thick // 2, x + size, at - thick // 2 + thick - 1, ink)


def _diamond(map_: Bitmap, x: int, y: int, size: int, ink: int) -> None:
    for step in range(size + 1):
        for side in (-step, step):
            map_.box(x - size + step, y + side, x + size - step, y + side, ink)


def _ring(map_: Bitmap, x: int, y: int, size: int, ink: int) -> None:
    corners = ((x - size, y), (x, y - size), (x + size, y), (x, y + size), (x - size, y))
    for one, other in pairwise(corners):
        map_.stroke(one, other, ink, max(2, size // 4))


def _arrow(map_: Bitmap, x: int, y: int, size: int, ink: int) -> None:
    for step in range(size + 1):
        for side in (-step, step):
            map_.box(x - size // 2, y + side, x + size - step, y + side, ink)


_SHAPES: dict[str, Callable[[Bitmap, int, int, int, int], None]] = {
    VERDICT[Verdict.KEEP][0]: _check,
    VERDICT[Verdict.DISCARD][0]: _square,
    VERDICT[Verdict.FAIL][0]: _cross,
    VERDICT[Verdict.INCONCLUSIVE][0]: _waves,
    VERDICT[Verdict.SHORTLIST][0]: _stripes,
    PROMISED: _ring,
    FRESH: _diamond,
    LIVE: _arrow,
}
"""The shapes of the signs that stand in the chart's legend."""

"""What is seen behind a dialog: the screen below, dimmed.

Textual renders all of it through Rich whenever a cell of it has changed, segment by segment, which
at 200×60 takes most of a frame. Here only what is painted is rendered, each style is dimmed
once, and each strip keeps what it is dimmed to.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region
from textual.strip import Strip

from akg_tui.tui.screens.banded import Banded

if TYPE_CHECKING:
    from textual._compositor import Compositor

T = TypeVar("T")
_NO_STYLE = Style()


class Dimming(Banded[T]):
    """A screen that shows the one below it dimmed, as far as its own background lets it."""

    def render_lines(self, crop: Region) -> list[Strip]:
        below = self._seen_below()
        if below is None:
            return super().render_lines(crop)
        return dimmed(below, self.styles.background, crop)

    def render_line(self, y: int) -> Strip:
        below = self._seen_below()
        if below is None:
            return super().render_line(y)
        return dimmed(below, self.styles.background, Region(0, y, self.size.width, 1))[0]

    def _seen_below(self) -> Compositor | None:
        stack = self.app.screen_stack
        if self.styles.background.a >= 1 or self not in stack[1:]:
            return None
        return stack[stack.index(self) - 1]._compositor


def dimmed(compositor: Compositor, colour: Color, crop: Region) -> list[Strip]:
    """Return the rows of a part of a screen under a colour that lets it shine through."""
    rows = compositor._render_chops(crop, crop.line_range.__contains__)
    strips = []
    for y in crop.line_range:
        if y >= len(rows):  # the one below is not as large yet
            strips.append(Strip.blank(crop.width))
            continue
        cuts = compositor.cuts[y]
        places = [
            place for place, end in enumerate(cuts[1:]) if cuts[place] < crop.right and end > crop.x
        ]
        pieces = [
            (rows[y][cuts[place]] or Strip.blank(cuts[place + 1] - cuts[place])).apply_filter(
                _DIM, colour
            )
            for place in places
        ]
        left = cuts[places[0]] if places else crop.x
        row = Strip.join(pieces).crop(crop.x - left, crop.right - left)
        strips.append(row.adjust_cell_length(crop.width))
    return strips


class _Dim(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, _under(background, ink or _NO_STYLE)) for text, ink, _ in segments]


_DIM = _Dim()


@lru_cache(maxsize=4096)
def _under(colour: Color, style: Style) -> Style:
    plain = style.clear_meta_and_links()
    if colour.a == 0:
        return plain
    ink, paper = plain.color, plain.bgcolor
    return plain + Style.from_color(
        (Color.from_rich_color(ink) + colour).rich_color if ink is not None else None,
        (Color.from_rich_color(paper) + colour).rich_color if paper is not None else None,
    )

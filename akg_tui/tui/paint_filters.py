"""What is done to every painted row at the very end: no colour, or no sign beyond ASCII.

They work on whatever any widget draws, borders and scroll bars included, so that no pane
has to know of them. Each keeps every column where it is.
"""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from akg_tui.tui.ascii_twins import ascii_twin
from akg_tui.tui.themes import contrast

_MARKED = 2.2  # contrast of a ground to the screen's, from which on it is a mark of its own


class AsciiOnly(LineFilter):
    """Sends no character beyond ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else Segment(ascii_twin(segment.text), segment.style)
            for segment in segments
        ]


class NoColour(LineFilter):
    """Sends no colour (https://no-color.org): a ground that stands out becomes reverse video,
    weight, slant and underline stay.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, None if style is None else _colourless(style, background), control)
            for text, style, control in segments
        ]


@lru_cache(maxsize=4096)
def _colourless(style: Style, background: Color) -> Style:
    ground = style.bgcolor
    marked = ground is not None and not ground.is_default and _stands_out(ground, background)
    return Style(
        bold=style.bold,
        italic=style.italic,
        underline=style.underline,
        strike=style.strike,
        # Either makes it reverse; both together would cancel out.
        reverse=bool(style.reverse) != marked or None,
        meta=style.meta or None,
    )


def _stands_out(ground: RichColor, background: Color) -> bool:
    return contrast(ground.get_truecolor(foreground=False).hex, background.hex6) >= _MARKED

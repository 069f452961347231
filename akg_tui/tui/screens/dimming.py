"""What is seen behind a dialog: the screen below, dimmed.

Textual renders it through Rich, segment by segment, which at 200×60 takes most of a frame. Here
each style is dimmed once, and the strips are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rich.segment import Segment
from rich.style import Style
from textual._context import visible_screen_stack
from textual.color import Color
from textual.strip import Strip
from textual.visual import RenderOptions, Visual

from akg_tui.tui.screens.banded import Banded

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.css.styles import RulesMap
    from textual.screen import Screen
    from textual.style import Style as VisualStyle

T = TypeVar("T")
_NO_STYLE = Style()


class Backdrop(Visual):
    """The screen below another, under a colour that lets it shine through."""

    def __init__(self, screen: Screen[Any], colour: Color) -> None:
        self._screen = screen
        self._colour = colour

    def render_strips(
        self, width: int, height: int | None, style: VisualStyle, options: RenderOptions
    ) -> list[Strip]:
        strips = self._screen._compositor.render_strips()
        dim = _dimmer(self._colour)
        dimmed = [
            Strip([Segment(text, dim(ink or _NO_STYLE)) for text, ink, _ in strip])
            for strip in strips[:height]
        ]
        return [strip.adjust_cell_length(width) for strip in dimmed]

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return self._screen.size.height


class Dimming(Banded[T]):
    """A screen that shows the one below it dimmed, as far as its own background lets it."""

    def render(self) -> RenderableType:
        colour = self.styles.background
        below = visible_screen_stack.get([])
        if colour.a >= 1 or not below or below[-1] is self:
            return super().render()
        # Textual draws a visual as it is, though its own signature does not say so.
        return cast("RenderableType", Backdrop(below.pop(), colour))


@lru_cache(maxsize=16)
def _dimmer(colour: Color) -> Callable[[Style], Style]:
    @lru_cache(maxsize=1024)
    def dimmed(style: Style) -> Style:
        plain = style.clear_meta_and_links()
        if colour.a == 0:
            return plain
        ink, paper = plain.color, plain.bgcolor
        return plain + Style.from_color(
            (Color.from_rich_color(ink) + colour).rich_color if ink is not None else None,
            (Color.from_rich_color(paper) + colour).rich_color if paper is not None else None,
        )

    return dimmed

"""A screen that renders what is to be painted, and is painted whole in bands of columns, so that
keys are heard between two of them.

Textual renders every widget for every update, however small; a pane that has been rendered
before is cheap, but not free. And after another size of the terminal, or another theme,
everything is rendered anew: at 200×60 that is a whole frame's work and more. What is painted for
any other reason is painted at once. Bands are of columns as panes stand side by side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from textual._compositor import Compositor
from textual.geometry import Region
from textual.screen import Screen

if TYPE_CHECKING:
    from textual.strip import Strip

T = TypeVar("T")

COLUMNS = 40
"""Of a band: at 80×24 there are two."""

PAUSE_S = 0.001


class Sparing(Compositor):
    """Renders only the widgets that are seen in the part of the screen that is painted."""

    def _get_renders(
        self, crop: Region | None = None
    ) -> Iterable[tuple[Region, Region, list[Strip]]]:
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            # One that is gone may still be where the last layout put it.
            if seen and (crop is None or crop.overlaps(seen)) and widget.is_attached:
                part = Region(seen.x - region.x, seen.y - region.y, seen.width, seen.height)
                yield region, clip, widget.render_lines(part)


class Banded(Screen[T]):
    """Paints the whole of itself in several steps."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._compositor = Sparing()
        self._bands: deque[Region] = deque()

    def _compositor_refresh(self) -> None:
        dirty = self._compositor._dirty_regions
        whole = self._compositor.size.region
        if whole in dirty and self.is_current and not self.app.is_inline:
            dirty.clear()
            self._bands = deque(
                Region(left, 0, min(COLUMNS, whole.width - left), whole.height)
                for left in range(0, whole.width, COLUMNS)
            )
            self._paint_band()
        else:
            super()._compositor_refresh()

    def _paint_band(self) -> None:
        """Paint the next columns; a screen that is covered now is painted whole when it is back."""
        if not self._bands or not self.is_current:
            self._bands.clear()
            return
        self._compositor._dirty_regions.add(self._bands.popleft())
        super()._compositor_refresh()
        if self._bands:
            self.set_timer(PAUSE_S, self._paint_band)

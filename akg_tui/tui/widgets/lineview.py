"""Lines to scroll through: only the rows on screen are ever painted.

Owns scrolling, following the end, and a cache of painted rows. Where its rows come from
is its subclass's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from akg_tui.tui.spans import Line
from akg_tui.tui.widgets.painted import inks_of

CACHED_ROWS = 1024


class LineView(ScrollView, can_focus=True):
    """A list of rows. One that `follows` keeps its end in sight, until somebody scrolls away
    from it; scrolled to the end again, it follows again.
    """

    ALLOW_SELECT = False

    def __init__(self, name: str, *, follows: bool = False) -> None:
        super().__init__(id=name)
        self._rows: Sequence[Line] = ()
        self._strips: LRUCache[int, Strip] = LRUCache(CACHED_ROWS)
        self._moving = False
        self.follows = follows
        self.follow = follows

    @property
    def rows(self) -> Sequence[Line]:
        return self._rows

    @property
    def room(self) -> int:
        """Columns for a row, the scroll bar left out."""
        return max(1, self.scrollable_content_region.width)

    @property
    def page(self) -> int:
        """Rows on screen."""
        return max(1, self.scrollable_content_region.height)

    def put(self, rows: Sequence[Line], *, columns: int = 0, since: int = 0) -> None:
        """Show `rows`; those before `since` are as they were.

        `columns` is the longest row where rows may be longer than the screen, to scroll to.
        """
        self._rows = rows
        if since:
            for index in [key for key in self._strips.keys() if key >= since]:  # noqa: SIM118
                self._strips.discard(index)
        else:
            self._strips.clear()
        size = Size(columns, len(rows))
        if size != self.virtual_size:
            self.virtual_size = size
        self.refresh()
        if self.follow:
            self.to_end()

    def to_end(self) -> None:
        self._move(self.max_scroll_y)

    def reveal(self, row: int) -> None:
        """Scroll so that `row` stands in the upper third, unless it is in sight already."""
        top = self.scroll_offset.y
        if top <= row < top + self.page:
            return
        self._move(max(0, row - self.page // 3))

    def _move(self, y: float) -> None:
        self._moving = True
        self.scroll_to(y=y, animate=False, force=True)
        self._moving = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._moving or round(old_value) == round(new_value):
            return
        at_end = round(new_value) >= self.max_scroll_y
        if self.follows and self.follow != at_end:
            self.set_follow(at_end)

    def set_follow(self, follow: bool) -> None:
        """Follow the end from now on, or stop doing so."""
        self.follow = follow
        if follow:
            self.to_end()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        across, down = self.scroll_offset
        columns = self.size.width
        ground = self.rich_style
        index = y + down
        if index >= len(self._rows):
            return Strip([Segment(" " * columns, ground)], columns)
        strip = self._strips.get(index)
        if strip is None:
            strip = inks_of(self).strip(self._rows[index]).apply_style(ground)
            self._strips[index] = strip
        return strip.crop_extend(across, across + columns, ground + self._tint(index))

    def _tint(self, index: int) -> Style:
        """The ground of a row's last piece goes on to the edge, as a changed line's does."""
        spans = self._rows[index]
        ground = inks_of(self).style(spans[-1][1]).bgcolor if spans else None
        return Style(bgcolor=ground) if ground else Style.null()

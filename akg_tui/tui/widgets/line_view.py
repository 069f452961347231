"""Lines to scroll through: only the rows on screen are ever painted.

Owns scrolling, following the end, the picked rows, the searched words, and a cache of painted
rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.strip import Strip

from akg_tui.tui.textual_internals import LinesView
from akg_tui.tui.widgets.painted import FaultShowing, inks_of
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.language import tr
from akg_tui.view.lazy_rows import SearchText
from akg_tui.view.spans import ELLIPSIS, Line, cells, plain

CACHED_ROWS = 192  # a strip is about thirty objects for the garbage collector
_MATCH = Style(reverse=True)


class Lead(NamedTuple):
    """A way from what is picked to a place in another pane, which that pane understands."""

    pane: str
    place: object


class LineView(LinesView, FaultShowing, can_focus=True):
    """A list of rows. With `follows` the end stays in sight until the person scrolls away; a
    scroll back to the end resumes that.

    With `picks` the arrow keys move a mark; `pick_step` decides which rows belong together.
    """

    ALLOW_SELECT = False
    # A bar that appears must not cover the last column of rows made without it.
    DEFAULT_CSS = """
    LineView {
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
    }
    """
    picks: ClassVar[bool] = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
    ]

    def __init__(self, name: str, *, follows: bool = False) -> None:
        super().__init__(id=name)
        self._rows: Sequence[Line] = ()
        # Not Textual's own cache: its links form a cycle, which only the collector frees.
        self._strips: OrderedDict[int, tuple[Strip, Style]] = OrderedDict()
        self._moving = False
        self._picked = range(0)
        self._needle = ""
        self._gutter = 0
        self._room_in_frame: int | None = None
        self._searched: tuple[bool, SearchText] | None = None  # of these rows, exact or not
        self.follows = follows
        self.follow = follows

    def on_unmount(self) -> None:
        # A closed screen is a cycle that waits for the collector. Freed by it, a large kernel's
        # rows would stop the screen for 20 ms.
        self._rows = ()
        self._strips.clear()
        self._searched = None

    @property
    def rows(self) -> Sequence[Line]:
        return self._rows

    @property
    def room(self) -> int:
        """The columns for a row, without the scroll bar."""
        return max(1, self.scrollable_content_region.width)

    @property
    def page(self) -> int:
        """The number of rows on screen."""
        return max(1, self.scrollable_content_region.height)

    @property
    def top(self) -> int:
        """The index of the first row on screen."""
        return round(self.scroll_offset.y)

    def put(
        self, rows: Sequence[Line], *, columns: int = 0, since: int = 0, gutter: int = 0
    ) -> None:
        """Show `rows`; those before `since` are unchanged.

        `columns` is the length of the longest row if rows may be longer than the screen. The first
        `gutter` columns stay in sight when the rows are scrolled sideways.
        """
        self._rows = rows
        self._gutter = gutter
        self._searched = None
        if since:
            for index in [key for key in self._strips if key >= since]:
                del self._strips[index]
        else:
            self._strips.clear()
        size = Size(columns, len(rows))
        if size != self.virtual_size:
            self.stretch(size)
        self.refresh()
        if self.follow:
            self.to_end()

    def repaint(self) -> None:
        """Paint the same rows again."""
        self._strips.clear()
        self.refresh()

    def to_end(self) -> None:
        self.to_row(self.max_scroll_y)

    def reveal(self, row: int) -> None:
        """Scroll so that `row` is in the upper third, unless it is in sight already."""
        if not self.top <= row < self.top + self.page:
            self.to_row(max(0, row - self.page // 3))

    def to_row(self, row: float) -> None:
        """Scroll so that `row` is the first on screen, as far as there are rows below it."""
        self._moving = True
        self.scroll_to(y=row, animate=False, force=True)
        self._moving = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._moving or round(old_value) == round(new_value):
            return
        at_end = round(new_value) >= self.max_scroll_y
        if self.follows and self.follow != at_end:
            self.set_follow(at_end)

    def set_follow(self, follow: bool) -> None:
        """Follow the end from now on, or stop."""
        self.follow = follow
        if follow:
            self.to_end()

    def pick(self, rows: range) -> None:
        """Mark the rows that a key acts on, and scroll them into sight."""
        self._picked = rows
        self.bring(rows)
        self.refresh()

    def bring(self, rows: range) -> None:
        """Scroll by the least amount that shows these rows."""
        if rows and (rows.start < self.top or len(rows) >= self.page):
            self.to_row(rows.start)
        elif rows and rows.stop > self.top + self.page:
            self.to_row(rows.stop - self.page)

    def pick_step(self, step: int) -> None:
        """Pick the entry `step` after the picked one."""

    def pick_row(self, row: int) -> None:
        """Pick the entry that a row belongs to."""

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        row = self.top + offset.y if offset is not None else len(self._rows)
        if self.picks and row < len(self._rows):
            self.attempt(lambda: self.pick_row(row))

    def action_step(self, step: int) -> None:
        if self.picks:
            self.attempt(lambda: self.pick_step(step))
        else:
            self.scroll_relative(y=step, animate=False)

    def enter(self) -> str | Lead | None:
        """Unfold or fold the picked entry. Return a message, or where it leads; None if no entries
        are picked here.
        """
        return tr("there is nothing to unfold here") if self.picks else None

    def texts(self) -> Iterable[str]:
        """Return the text that a search reads, row by row."""
        return map(plain, self._rows)

    def seek(self, needle: str, start: int, step: int) -> int | None:
        """Return the row that holds `needle`, from `start` in direction `step`, with wrap-around.

        A needle in small letters matches capitals too; a needle with a capital matches exactly.
        """
        exact = needle != needle.lower()
        if self._searched is None or self._searched[0] != exact:
            self._searched = exact, SearchText(self.texts(), exact=exact)
        return self._searched[1].seek(needle, start, step)

    def search(self, needle: str, start: int, step: int = 1) -> int | None:
        """Highlight `needle`, and scroll to the next row that holds it."""
        if needle != self._needle:
            self._needle = needle
            self.repaint()
        found = self.seek(needle, start, step) if needle else None
        if found is not None:
            if self.follows:
                self.set_follow(False)
            self.reveal(found)
        return found

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._room_in_frame = None
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        columns = self.size.width
        ground = self.ground
        if not self.broken:
            try:
                return self._row_strip(y, columns, ground)
            except Exception as error:  # noqa: BLE001 - the pane shows it, the run goes on
                self.broke(error)
        rows = self.fault_lines(columns)
        shown = rows[y] if y < len(rows) else ()
        strip = inks_of(self).strip(shown, ground)
        return strip.crop_extend(0, columns, ground)

    def _row_strip(self, y: int, columns: int, ground: Style) -> Strip:
        across, down = self.scroll_offset
        index = y + down
        if index >= len(self._rows):
            return Strip([Segment(" " * columns, ground)], columns)
        painted = self._strips.get(index)
        if painted is None:
            painted = self._paint_row(self._rows[index], ground)
        self._keep(index, painted)
        strip, edge = painted
        seen = self._in_sight
        more = strip.cell_length > across + seen
        if across and self._gutter < columns:
            code = strip.crop_extend(self._gutter + across, across + columns, edge)
            strip = Strip.join([strip.crop_extend(0, self._gutter, edge), code])
        else:
            strip = strip.crop_extend(across, across + columns, edge)
        if more:
            strip = self._cut(strip, seen, edge)
        if index in self._picked and self.has_focus:
            strip = self._marked(strip)
        return strip

    @property
    def _in_sight(self) -> int:
        """The columns of a row in sight. Textual computes them anew, so they are cached for a frame
        as the ground is.
        """
        if self._room_in_frame is None:
            beside_bar = self.show_vertical_scrollbar
            self._room_in_frame = self.room if beside_bar else self.size.width
        return self._room_in_frame

    def _cut(self, strip: Strip, seen: int, edge: Style) -> Strip:
        """Return the strip with a mark in the last of the columns `seen`: the row goes on."""
        mark = inks_of(self).strip(((ELLIPSIS, "faint"),), edge)
        marked = Strip.join([strip.crop(0, seen - 1), mark])
        return marked.crop_extend(0, strip.cell_length, edge)

    def _keep(self, index: int, painted: tuple[Strip, Style]) -> None:
        self._strips[index] = painted
        self._strips.move_to_end(index)
        if len(self._strips) > CACHED_ROWS:
            self._strips.popitem(last=False)

    def _paint_row(self, spans: Line, ground: Style) -> tuple[Strip, Style]:
        """Return a painted row, and the style that fills the row to the edge: the background of its
        last piece, as in a changed line.
        """
        inks = inks_of(self)
        strip = inks.strip(spans, ground)
        if self._needle:
            strip = lit(strip, self._needle)
        last = inks.style(spans[-1][1]).bgcolor if spans else None
        return strip, ground + Style(bgcolor=last) if last else ground

    def _marked(self, strip: Strip) -> Strip:
        """Return the strip on the background of picked rows."""
        mark = inks_of(self).picked
        spans = [Segment(s.text, s.style + mark if s.style else mark) for s in strip]
        return Strip(spans, strip.cell_length)


def folds_again() -> str:
    """Return the message after an entry was unfolded or folded."""
    return tr("{key} folds it again", key=way_to("pane.open"))


def lit(strip: Strip, needle: str) -> Strip:
    """Return the strip with every occurrence of `needle` reversed."""
    text = strip.text
    looked_at = text.lower() if needle == needle.lower() else text
    if needle not in looked_at or len(looked_at) != len(text):
        return strip
    pieces: list[Strip] = []
    done = at = 0
    while (at := looked_at.find(needle, done)) >= 0:
        begin, end = cells(text[:at]), cells(text[: at + len(needle)])
        pieces.append(strip.crop(cells(text[:done]), begin))
        pieces.append(Strip([Segment(text[at : at + len(needle)], _reversed(strip, begin))]))
        assert end > begin or not needle
        done = at + len(needle)
    pieces.append(strip.crop(cells(text[:done])))
    return Strip.join(pieces)


def _reversed(strip: Strip, column: int) -> Style:
    """Return the style at a column, reversed."""
    for segment in strip.crop(column, column + 1):
        if segment.style:
            return segment.style + _MATCH
    return _MATCH

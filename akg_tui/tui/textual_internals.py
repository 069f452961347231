"""Every use of a private part of Textual, with its reason; written against Textual 8.2.8.

No other module of the workbench names an underscore attribute of Textual, Rich or textual-serve,
or overrides an undocumented method. `tests/tui/test_textual_internals.py` fails with the name of
the part that a new version changed. Independent of runs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from rich.style import Style
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.app import App
from textual.binding import Binding, BindingsMap
from textual.color import Color
from textual.content import Content
from textual.events import Key, Paste, Resize
from textual.geometry import Offset, Region, Size
from textual.message_pump import MessagePump
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import Worker, WorkerError, WorkerFailed, active_worker

if TYPE_CHECKING:
    from aiohttp import web
    from rich.console import RenderableType
    from textual.dom import DOMNode
    from textual.message import Message
    from textual.timer import TimerCallback
    from textual_serve.server import Server

WRITTEN_AGAINST = "8.2.8"

T = TypeVar("T")

MOST_WRITES = 5
"""Writes that may wait for the terminal: two frames. Textual queues 30; one more would block the
loop."""

SLOW_PAUSE_S = 0.03

HELD_DOWN = frozenset({"up", "down", "left", "right", "pageup", "pagedown"})
"""Keys that a person holds down to move on."""

OPENING = "opening"
"""The group of workers that open a screen; keys typed meanwhile go to that screen."""

LONGEST_HOLD_S = 2.0
"""The time for which the effect of a key holds later keys. A widget that does not answer must not
take the keyboard away."""


def merged_bindings(node: DOMNode) -> BindingsMap | None:
    """Return the bindings that the classes of a node declare, before any keymap.

    Textual's own keymap rebinds single keys by id. Chords, and keys that depend on the focus, need
    the whole map.
    """
    return node._merged_bindings


def set_bindings(node: DOMNode, bindings: BindingsMap) -> None:
    """Replace the bindings of a node. Textual has no public setter for an existing node."""
    node._bindings = bindings


def bindings_of(node: DOMNode, key: str) -> Sequence[Binding]:
    """Return the bindings of a key on a node."""
    return node._bindings.key_to_bindings.get(key, ())


def drop_keys(node: DOMNode, *keys: str) -> None:
    """Unbind keys that the base class of a widget binds."""
    for key in keys:
        node._bindings.key_to_bindings.pop(key, None)


def set_border(widget: Widget, title: Content, subtitle: Content) -> None:
    """Set both border texts. An equal text is left alone, because each assignment repaints the
    widget. The public getter returns markup, which does not compare with content.
    """
    if widget._border_title != title:
        widget.border_title = title
    if widget._border_subtitle != subtitle:
        widget.border_subtitle = subtitle


async def served_application(server: Server) -> web.Application:
    """Return the application of textual-serve, to mount in a larger one; `serve` would run it."""
    return await server._make_app()


def backlog(app: App[Any]) -> int:
    """Return how many writes wait for the terminal; 0 for a driver without a queue."""
    writer = getattr(app._driver, "_writer_thread", None)
    queue = getattr(writer, "_queue", None)
    return queue.qsize() if queue is not None else 0


def write_to_terminal(app: App[Any], codes: str) -> None:
    """Write control codes past the screen: Textual has no public way to send OSC 9 and the like."""
    if app._driver is not None:
        app._driver.write(codes)


def measures_terminal_in_signal(app: App[Any]) -> bool:
    """Return whether SIGWINCH triggers measuring; else the terminal reports its size as input."""
    driver = app._driver
    return driver is not None and not getattr(driver, "_in_band_window_resize", False)


def _is_text(key: Key | Paste, widget: Widget | None) -> bool:
    """Return whether a widget has got a key as text."""
    is_text = isinstance(key, Paste) or key.is_printable
    return is_text and key.is_forwarded and isinstance(widget, Input)


def _stays(key: Key | Paste, after: Key | Paste, widget: Widget | None) -> bool:
    """Return whether `after` goes to the widget that has got `key`, whatever `key` does there."""
    if isinstance(key, Key) and isinstance(after, Key) and key.key in HELD_DOWN:
        return key.key == after.key
    return _is_text(key, widget)


class AppInternals(App[T]):
    """An app that takes one key at a time and survives an exception of a worker."""

    NEEDED_WORKERS: ClassVar[frozenset[str]] = frozenset()
    """Names of the workers whose failure ends the app."""
    _opening_task: asyncio.Task[None] | None = None

    def __init__(self) -> None:
        super().__init__()
        self._typed: deque[Key | Paste] = deque()
        self._key_works = False
        self._key_taken_at = 0.0

    async def _dispatch_message(self, message: Message) -> None:
        """Take a key or a paste after the effect of the key before it is complete.

        Textual sends all keys of a burst to the widget that has the focus when they arrive. If the
        first one opens a screen or a line, the others would be commands of what is below. Here
        they wait until the new screen is mounted and has its focus.
        """
        if not isinstance(message, Key | Paste) or message.is_forwarded or not self.screen_stack:
            await super()._dispatch_message(message)
            return
        self._typed.append(message)
        if not self._key_works or monotonic() - self._key_taken_at > LONGEST_HOLD_S:
            await self._take_typed()

    async def _take_typed(self) -> None:
        """Take the key whose turn it is; with the first letter of a text take the rest of it, and
        with an arrow that is held down all of them: painting after each would take too long.
        """
        place = self._typing_place()
        key = self._typed.popleft()
        await super()._dispatch_message(key)
        while self._typed and _stays(key, self._typed[0], place[1]):
            key = self._typed.popleft()
            await super()._dispatch_message(key)
        self._key_works, self._key_taken_at = True, monotonic()
        again = not _is_text(key, place[1])
        await self._follow(self._way_from(place), place, again=again)

    def _typing_place(self) -> tuple[Screen[Any], Widget | None]:
        """Return the screen and the widget that a key would go to now."""
        return self.screen, self.focused

    @staticmethod
    def _way_from(place: tuple[Screen[Any], Widget | None]) -> Iterator[MessagePump]:
        """Return the way of a key from a place up to the app."""
        screen, widget = place
        return iter((widget or screen).ancestors_with_self)

    async def _follow(
        self,
        way: Iterator[MessagePump],
        place: tuple[Screen[Any], Widget | None],
        *,
        again: bool = False,
    ) -> None:
        """Go the way of the key through the queue of each widget, so that all that stood there
        before is done. When done `again`, what the key has posted there is done too; and when done
        from a new screen, that screen is open.
        """
        for pump in way:
            if pump.call_later(self._follow, way, place, again=again):
                return
        if not self.screen_stack:  # the app ends
            return
        now = self._typing_place()
        if again or now != place:
            await self._follow(self._way_from(now), now)
            return
        opening = next((w for w in self.workers if w.group == OPENING and not w.is_finished), None)
        if opening is not None:
            self._opening_task = asyncio.create_task(self._follow_after(opening, now))
            return
        self._key_works = False
        if self._typed:
            await self._take_typed()

    async def _follow_after(
        self, opening: Worker[Any], place: tuple[Screen[Any], Widget | None]
    ) -> None:
        with suppress(WorkerError):  # `_handle_exception` has told it
            await opening.wait()
        await self._follow(iter((self,)), place)

    def get_default_screen(self) -> Screen[Any]:
        return SteadyScreen(id="_default")

    def report_fault(self, error: BaseException) -> None:
        """Show an exception of an action or a worker to the person."""
        raise NotImplementedError

    def _handle_exception(self, error: Exception) -> None:
        # Textual would end the app with the traceback of any worker.
        worker = active_worker.get(None)
        needed = worker is None or worker.name in self.NEEDED_WORKERS
        if isinstance(error, WorkerFailed) and not needed:
            self.report_fault(error.error)
        else:
            super()._handle_exception(error)

    def refresh_css(self, animate: bool = True) -> None:
        if not self.screen_stack:
            # No screen yet: the first screen is parsed with these colours.
            self.stylesheet.set_variables(self.get_css_variables())
            return
        self.run_worker(self._put_on_theme(animate))

    async def _put_on_theme(self, animate: bool) -> None:
        """Do Textual's `refresh_css`; between its parts keys are read and nothing is painted.

        Textual reads all rules on the event loop, and applies them to the screens below a modal
        screen of its own, such as the command palette, twice, and to that screen not at all.
        """
        variables = self.get_css_variables()
        stylesheet = self.stylesheet.copy()
        stylesheet.set_variables(variables)
        await asyncio.to_thread(stylesheet.parse)
        if variables != self.get_css_variables():
            return  # another theme was chosen, and is read too
        if stylesheet.source != self.stylesheet.source:  # a screen was opened that brings rules
            await self._put_on_theme(animate)
            return
        self.stylesheet = stylesheet
        with self.batch_update():
            for screen in list(self.screen_stack):
                await asyncio.sleep(0)
                if self.stylesheet is not stylesheet:
                    return
                stylesheet.update(screen, animate=animate)
            stylesheet.update_nodes([self])
        self.screen.refresh(layout=True)


class LinesView(ScrollView):
    """A scroll view whose content grows without a layout of the screen."""

    def stretch(self, size: Size) -> None:
        """Set another size to scroll in. Only a scroll bar that appears or disappears needs a
        layout of the whole screen, and requests the layout itself.
        """
        self.set_reactive(Widget.virtual_size, size)
        self._scroll_update(size)


def run_newest(
    node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], *, group: str, name: str = ""
) -> Worker[None]:
    """Run `work` in a worker that replaces the one of its `group`.

    The coroutine is made by the worker: one that is replaced before it begins is not made, and
    writes no warning that it was never awaited.
    """
    # Without a description Textual writes down the work: every character of a kernel bound to it.
    # Textual's union of types of work is resolved only with the type of the result.
    newest: Worker[None] = node.run_worker(
        work, name=name, group=group, description=group, exclusive=True
    )
    return newest


@contextmanager
def _screens_below_released() -> Iterator[None]:
    """Restore the variable in which Textual names the screens below the one that it renders.

    Textual leaves it set. A task that has rendered a dialog, such as the app's own after the mouse
    moved over one, and every task begun from there would keep the screen below in memory.
    """
    token = visible_screen_stack.set([])
    try:
        yield
    finally:
        visible_screen_stack.reset(token)


class SparingCompositor(Compositor):
    """Renders only the visible parts of widgets in the painted part of the screen.

    Textual's own compositor also renders hidden widgets, and cuts all rows at the edge of every
    widget. A row that needs no cut then refers to itself in its own cache: one reference cycle for
    each row ever painted, which only garbage collection frees. With it the worst stall of `python
    -m benchmarks workbench` was 130 ms instead of 37 (2026-11-29).
    """

    @_screens_below_released()
    def render_update(
        self,
        full: bool = False,
        screen_stack: list[Screen[Any]] | None = None,
        simplify: bool = False,
    ) -> RenderableType | None:
        return super().render_update(full, screen_stack, simplify)

    @_screens_below_released()
    def get_style_at(self, x: int, y: int) -> Style:
        return super().get_style_at(x, y)

    @_screens_below_released()
    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        return super().get_widget_and_offset_at(x, y)

    def _render_chops(
        self, crop: Region, is_rendered_line: Callable[[int], bool]
    ) -> Sequence[Mapping[int, Strip]]:
        chops: list[dict[int, Strip | None]] = [dict.fromkeys(cuts[:-1]) for cuts in self.cuts]
        for widget, (region, clip) in self.visible_widgets.items():  # the first is in front
            seen = region.intersection(clip)
            # A removed widget may still have a place in the last layout.
            if not seen or not crop.overlaps(seen) or not widget.is_attached:
                continue
            left, right = seen.column_span
            rows, first, end = [], right, left
            for y in seen.line_range:
                if is_rendered_line(y):
                    cuts = [cut for cut in self.cuts[y] if left <= cut <= right]
                    row = chops[y]
                    missing = [
                        (cut, until)
                        for cut, until in pairwise(cuts)
                        if row[cut] is None and until > crop.x and cut < crop.right
                    ]
                    if missing:
                        rows.append((y, row, cuts))
                        first, end = min(first, missing[0][0]), max(end, missing[-1][1])
            if not rows:
                continue
            top, last = rows[0][0], rows[-1][0]
            part = Region(first - region.x, top - region.y, end - first, last - top + 1)
            strips = widget.render_lines(part)
            for y, row, cuts in rows:
                if y - top >= len(strips):  # the widget has not received its new size yet
                    break
                strip = strips[y - top]
                inner = [cut for cut in cuts if first < cut <= end]
                whole = inner == [end] and strip.cell_length == end - first
                pieces = (strip,) if whole else strip.divide([cut - first for cut in inner])
                for cut, piece in zip((first, *inner), pieces, strict=False):
                    if row.get(cut, strip) is None:
                        row[cut] = piece
        return cast("Sequence[Mapping[int, Strip]]", chops)


class SteadyScreen(Screen[T]):
    """A screen that takes no other size than that of the app.

    A screen that Textual lays out for another size posts that size to itself. Two sizes that wait
    in its queue together would be laid out in turn for ever, and nothing would be painted.
    """

    async def _on_resize(self, event: Resize) -> None:
        if event.size != self.app.size:  # the app has posted its present size after this one
            event.stop()
            event.prevent_default()


class PatientScreen(SteadyScreen[T]):
    """A screen that paints nothing while the terminal lags; once the terminal has taken its writes,
    the current state is painted.

    With Textual's own painting the worst stall of `python -m benchmarks workbench` on its slow
    terminal was 643 ms instead of 35 (2026-11-29).
    """

    PAINTS_AFTER_RESIZE: ClassVar[bool] = False
    """Whether a resize paints nothing until the children have taken their new sizes."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._compositor = SparingCompositor()
        self._put_off = False
        self._unpainted = False

    async def _dispatch_message(self, message: Message) -> None:
        """Let the loop turn after each message: a resize is followed by messages of all panes, and
        Textual works off in one turn what has come meanwhile.
        """
        await super()._dispatch_message(message)
        await asyncio.sleep(0)

    def after(self, seconds: float, callback: TimerCallback) -> None:
        """Call `callback` once after `seconds`, however late.

        Textual skips a timer that is overdue when its clock is first read, even without a repeat.
        """
        self.set_timer(seconds, callback)._skip = False

    def _screen_resized(self, size: Size) -> None:
        # Arranged before Textual lays out and paints for this size: else it would do both twice.
        if self.is_mounted:
            self.before_resize()
        self._unpainted = True
        super()._screen_resized(size)
        self._unpainted = False
        if self.PAINTS_AFTER_RESIZE:  # once, after all panes have wrapped their text
            self.refresh()

    def before_resize(self) -> None:
        """Place the children for the new size of the app."""

    def _compositor_refresh(self) -> None:
        if self._unpainted and self.PAINTS_AFTER_RESIZE:
            return
        top = self.app.screen if self.is_current else None
        if not isinstance(top, PatientScreen) or self.app.is_inline:
            super()._compositor_refresh()
            return
        self._dirty_widgets.clear()  # as in Textual: their regions have been handed over
        dirty = self._compositor._dirty_regions
        # The screen may have shrunk, and Textual fails on a region outside.
        inside = {region.intersection(self._compositor.size.region) for region in dirty}
        dirty.clear()
        dirty.update(filter(None, inside))
        if top is not self:
            # Textual's own method would repaint everything below a dialog again and again.
            if dirty:
                top._compositor._dirty_regions |= dirty
                dirty.clear()
                top._compositor_refresh()
        elif self.app._batch_count or backlog(self.app) > MOST_WRITES:
            if not self._put_off:  # a paint now would wait in a queue or be discarded
                self._put_off = True
                self.after(SLOW_PAUSE_S, self._try_again)
        else:
            super()._compositor_refresh()

    def _try_again(self) -> None:
        self._put_off = False
        self._compositor_refresh()


class DimmingScreen(PatientScreen[T]):
    """A screen that shows the screen below it dimmed, as far as its own background permits."""

    def render_lines(self, crop: Region) -> list[Strip]:
        below = self._seen_below()
        if below is None:
            return super().render_lines(crop)
        return dimmed(below, self.styles.background, crop)

    def _seen_below(self) -> Compositor | None:
        stack = self.app.screen_stack
        if self.styles.background.a >= 1 or self not in stack[1:]:
            return None
        return stack[stack.index(self) - 1]._compositor


def dimmed(compositor: Compositor, colour: Color, crop: Region) -> list[Strip]:
    """Return the rows of a part of a screen, tinted with a translucent colour."""
    rows = compositor._render_chops(crop, crop.line_range.__contains__)
    strips = []
    for y in crop.line_range:
        if y >= len(rows):  # the screen below has not grown to this size yet
            strips.append(Strip.blank(crop.width))
            continue
        cuts = compositor.cuts[y]
        places = [
            place for place, end in enumerate(cuts[1:]) if cuts[place] < crop.right and end > crop.x
        ]
        pieces = [
            rows[y][cuts[place]] or Strip.blank(cuts[place + 1] - cuts[place]) for place in places
        ]
        left = cuts[places[0]] if places else crop.x
        row = Strip.join(pieces).crop(crop.x - left, crop.right - left)
        row = Strip(BackgroundScreen.process_segments(row, colour), row.cell_length)
        strips.append(row.adjust_cell_length(crop.width))
    return strips

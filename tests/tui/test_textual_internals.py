"""Textual's private parts are as `textual_internals.py` expects them, and no other module uses any.

What is painted in parts is, in the end, what Textual paints at once; and it is less work.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import random
import re
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import textual
import textual_serve.server
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate, LayoutUpdate
from textual._context import visible_screen_stack
from textual.app import App
from textual.color import Color
from textual.dom import DOMNode
from textual.drivers import _writer_thread, linux_driver
from textual.events import Resize
from textual.geometry import Region, Size
from textual.message_pump import MessagePump
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

import akg_tui.tui
from akg_tui.tui import textual_internals as internals
from akg_tui.tui.textual_internals import PatientScreen, SparingCompositor, dimmed

from .moments import long_kernel
from .stage import Stage, on_stage

PACKAGE = Path(akg_tui.tui.__file__).parent
# Where Textual, Rich and textual-serve define each private name that the workbench uses.
PRIVATE: dict[object, str] = {
    App: "_batch_count _driver _handle_exception",
    Compositor: "_dirty_regions _render_chops",
    DOMNode: "_bindings _merged_bindings",
    MessagePump: "_dispatch_message",
    Screen: "_compositor _compositor_refresh _dirty_widgets _screen_resized",
    ScrollView: "_scroll_update",
    Timer: "_skip",
    Widget: "_border_subtitle _border_title",
    linux_driver: "_in_band_window_resize _writer_thread",
    _writer_thread: "_queue",
    textual_serve.server: "_make_app",
}


def private_names(tree: ast.AST) -> set[str]:
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return {name for name in found if re.match("_[^_]", name)}


def own_names(tree: ast.AST) -> set[str]:
    """Names that a module gives to its functions and to what it assigns."""
    nodes = list(ast.walk(tree))
    named = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    stored = [n for n in nodes if isinstance(getattr(n, "ctx", None), ast.Store)]
    return named | {getattr(n, "attr", getattr(n, "id", "")) for n in stored}


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for owner, names in PRIVATE.items() for name in names.split()]
)
def test_textual_still_has_each_private_part(owner: object, name: str) -> None:
    changed = (
        f"Textual {textual.__version__} has no {name} in {owner}: see its use in "
        f"textual_internals.py, written against {internals.WRITTEN_AGAINST}"
    )
    assert re.search(rf"\b{name}\b", inspect.getsource(owner)), changed  # type: ignore[arg-type]


def test_an_overridden_method_takes_what_textual_gives_it() -> None:
    for kind in classes(internals):
        for name, base in overridden(kind):
            mine, textuals = (inspect.signature(vars(each)[name]) for each in (kind, base))
            changed = f"Textual {textual.__version__} changed {base.__name__}.{name}"
            assert list(mine.parameters)[1:] == list(textuals.parameters)[1:], changed


def test_every_private_part_in_use_is_listed_here() -> None:
    tree = ast.parse(Path(internals.__file__).read_text())
    listed = set(" ".join(PRIVATE.values()).split())
    assert private_names(tree) - own_names(tree) <= listed


def test_no_other_module_uses_a_private_part_of_textual() -> None:
    trees = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
    own = set().union(*(own_names(tree) for tree in trees.values())) - set(
        " ".join(PRIVATE.values()).split()
    )
    for path, tree in trees.items():
        if path == Path(internals.__file__):
            continue
        assert private_names(tree) <= own, path
        imported = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
        assert not [name for name in imported if re.match(r"(textual|rich)\b.*\._", name)], path
        dotted = ".".join(path.relative_to(PACKAGE.parents[1]).with_suffix("").parts)
        for kind in classes(importlib.import_module(dotted)):
            private = {name for name, _ in overridden(kind) if re.match("_[^_]", name)}
            assert not private, f"{kind} overrides a private method of Textual"


def classes(module: ModuleType) -> list[type]:
    found = [each for each in vars(module).values() if inspect.isclass(each)]
    return [each for each in found if each.__module__ == module.__name__]


def overridden(kind: type) -> list[tuple[str, type]]:
    """The methods of Textual that a class overrides in its own body, and where they are from."""
    bases = [base for base in kind.__mro__ if base.__module__.startswith("textual")]
    mine = [name for name, value in vars(kind).items() if inspect.isfunction(value)]
    first = {name: next((b for b in bases if name in vars(b)), None) for name in mine}
    return [(n, base) for n, base in first.items() if base is not None and n != "__init__"]


Cell = tuple[str, Style | None]


def cells(strip: Iterable[Segment]) -> list[Cell]:
    """Of a wide letter the second cell is empty."""
    return [
        (part, style)
        for text, style, _ in strip
        for letter in text
        for part in (letter, *[""] * (cell_len(letter) - 1))
    ]


class Sight:
    """A terminal of cells: each update is painted over the earlier ones."""

    def __init__(self, stage: Stage) -> None:
        self._app = stage.app
        self._size = stage.app.size
        self._rows: list[list[Cell]] = []
        self.updates = 0
        show = stage.app._display

        def display(screen: Screen[Any], update: Any) -> None:
            if isinstance(update, CompositorUpdate) and not stage.app._batch_count:
                update.render_segments(stage.app.console)  # fails where a real one would
                self.updates += 1
                self._fit()
                self._take(update)
            show(screen, update)

        stage.app._display = display  # type: ignore[method-assign]

    def _fit(self) -> None:
        """A terminal of another size shows nothing until it is painted."""
        size = self._app.screen._compositor.size
        if size != self._size or not self._rows:
            self._size = size
            self._rows = [[("?", None)] * size.width for _ in range(size.height)]

    def _take(self, update: CompositorUpdate) -> None:
        if isinstance(update, LayoutUpdate):
            for y, strips in enumerate(update.strips, update.region.y):
                self._write(update.region.x, y, Strip.join(strips))
            return
        assert isinstance(update, ChopsUpdate)
        for y, left, right in update.spans:
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=True):
                if strip is not None and x <= right and end > left:
                    self._write(x, y, strip.crop(0, min(end, right) - x))

    def _write(self, x: int, y: int, strip: Strip) -> None:
        for letter, style in cells(strip):
            self._rows[y][x] = letter, style
            x += 1

    def wrong(self) -> list[tuple[int, int, Cell, Cell]]:
        """Where the terminal does not show what the app would paint, and both."""
        self._fit()
        wanted = [cells(strip) for strip in self._app.screen._compositor.render_strips()]
        return [
            (x, y, seen, each)
            for y, (row, line) in enumerate(zip(self._rows, wanted, strict=True))
            for x, (seen, each) in enumerate(zip(row, line, strict=True))
            if seen != each
        ]


async def settle(stage: Stage) -> None:
    """Until nothing is left to be painted."""
    async with asyncio.timeout(20):
        quiet = 0
        while quiet < 3:
            await stage.pull()
            screen = stage.app.screen
            waits = isinstance(screen, PatientScreen) and screen._put_off
            dirty = screen._compositor._dirty_regions or screen._dirty_widgets
            quiet = 0 if waits or dirty else quiet + 1


KEYS = ["1", "2", "3", "4", "5", "z", "z", "w", "g", "G", "c", "escape", "colon", "x", "ctrl+p"]
KEYS += ["question_mark", "f1", "q", "n", "/", "v", "b", "down", "backspace"]
SIZES = [(120, 40), (200, 60), (80, 24), (100, 30), (61, 17), (40, 10), (90, 50)]


@pytest.mark.parametrize("seed", range(2))
async def test_a_terminal_shows_in_the_end_what_the_app_would_paint(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens, and however slow the terminal is."""
    dice = random.Random(seed)
    waiting = 0
    monkeypatch.setattr(internals, "backlog", lambda driver: waiting)
    async with on_stage(long_kernel()) as stage:
        sight = Sight(stage)
        stage.deck.refresh()
        for _ in range(3):
            for _ in range(8):
                waiting = dice.choice((0, 0, internals.MOST_WRITES + 1))
                if dice.random() < 0.3:
                    await stage.pilot.resize_terminal(*dice.choice(SIZES))
                else:
                    await stage.pilot.press(dice.choice(KEYS))
                if dice.random() < 0.2:
                    appearance = stage.app.appearance
                    appearance.apply_theme(dice.choice(sorted(appearance.themes)))
                if dice.random() < 0.3:
                    stage.app.pull_now()
            waiting = 0
            await settle(stage)
            assert sight.wrong() == [], type(stage.app.screen).__name__
        assert sight.updates > 20


async def test_a_window_that_shrinks_while_a_slow_terminal_catches_up_is_painted_at_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = 0
    monkeypatch.setattr(internals, "backlog", lambda driver: waiting)
    async with on_stage(long_kernel()) as stage:
        sight = Sight(stage)
        waiting = internals.MOST_WRITES + 1
        stage.deck._compositor._dirty_regions.add(stage.deck._compositor.size.region)
        stage.deck._compositor_refresh()
        await stage.pilot.resize_terminal(80, 24)
        waiting = 0
        await settle(stage)
        assert sight.wrong() == []


async def test_two_sizes_that_wait_together_end_in_the_present_one() -> None:
    async with on_stage(long_kernel(), size=(120, 40)) as stage:
        screens = stage.app.screen_stack
        assert len(screens) == 2
        for screen in screens:  # as after two resizes while the app was busy
            for size in (Size(211, 69), stage.app.size):
                screen.post_message(Resize(size, size))
                screen.call_later(lambda: None)  # Textual unites two neighbours in the queue
        sight = Sight(stage)
        await stage.pilot.pause()
        assert all(screen.size == (120, 40) for screen in screens)
        assert sight.wrong() == []
        assert all(screen._message_queue.empty() for screen in screens)


async def test_a_worker_does_not_write_down_what_it_works_on() -> None:
    class Kernel(str):
        def __repr__(self) -> str:
            raise AssertionError("a kernel of 20,000 lines was written down")

    async def read(text: str) -> None:
        assert text

    async with on_stage(long_kernel()) as stage:
        work = partial(read, Kernel("x = 1"))
        await internals.run_newest(stage.deck, work, group="colour").wait()


async def test_a_terminal_that_is_behind_is_sent_nothing_more_until_it_has_caught_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = 0
    monkeypatch.setattr(internals, "backlog", lambda driver: waiting)
    async with on_stage(long_kernel()) as stage:
        waiting = internals.MOST_WRITES + 1
        sight = Sight(stage)
        await stage.resize(100, 30)
        await stage.press("1", "2", "z", "z")
        assert sight.updates == 0
        waiting = internals.MOST_WRITES
        while sight.wrong():
            await stage.pilot.pause()
        await stage.press("1")
        updates, waiting = sight.updates, internals.MOST_WRITES + 1
        await stage.press("colon", "x")
        stage.app.screen.query_one(Input).value = "pause"
        await stage.pilot.pause()
        assert sight.updates == updates
        waiting = 0
        while sight.updates == updates:
            await stage.pilot.pause()
        assert ":pause" in stage.text()


class Rendered:
    """Which widgets are rendered, and how much of them."""

    def __init__(self, screen: Screen[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts: dict[Widget, Region] = {}
        for widget in screen._compositor.visible_widgets:
            monkeypatch.setattr(widget, "render_lines", partial(self._render, widget))

    def _render(self, widget: Widget, crop: Region) -> list[Strip]:
        self.parts[widget] = crop
        return type(widget).render_lines(widget, crop)


@pytest.mark.parametrize("crop", [Region(0, 0, 200, 60), Region(120, 10, 3, 2)])
async def test_what_is_painted_is_what_textual_paints_and_what_is_hidden_is_not_rendered(
    crop: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_stage(long_kernel(), size=(200, 60)) as stage:
        compositor = stage.deck._compositor
        assert isinstance(compositor, SparingCompositor)
        visible_screen_stack.set([])
        rendered = Rendered(stage.deck, monkeypatch)
        mine = compositor._render_chops(crop, crop.line_range.__contains__)
        parts, rendered.parts = rendered.parts, {}
        theirs = Compositor._render_chops(compositor, crop, crop.line_range.__contains__)
        for cuts, ours, others in zip(compositor.cuts, mine, theirs, strict=True):
            assert list(ours) == list(others)
            for cut, end in pairwise(cuts):
                if cut < crop.right and end > crop.x:
                    assert cells(ours[cut] or ()) == cells(others[cut] or ())
        assert set(parts) < set(rendered.parts)
        assert stage.deck.body not in parts  # panes lie on all of it
        regions = {widget: region for widget, (region, _) in compositor.visible_widgets.items()}
        assert all(crop.overlaps(regions[each]) for each in parts)


@pytest.mark.parametrize(
    ("crop", "alpha"), [(Region(0, 0, 120, 40), 0.4), (Region(33, 7, 20, 5), 0.0)]
)
async def test_a_dimmed_screen_has_textuals_letters_and_styles(crop: Region, alpha: float) -> None:
    async with on_stage(long_kernel()) as stage:
        colour = Color(20, 40, 60, alpha)
        visible_screen_stack.set([])
        compositor = stage.deck._compositor
        for _ in range(2):  # the second time from what the strips keep
            strips = dimmed(compositor, colour, crop)
            lines = [strip.crop(*crop.column_span) for strip in compositor.render_strips()]
            wanted = [lines[y] for y in crop.line_range]
            assert len(strips) == crop.height
            for strip, line in zip(strips, wanted, strict=True):
                assert cells(strip) == cells(BackgroundScreen.process_segments(line, colour))


async def test_of_two_themes_in_a_row_the_last_is_on_every_screen() -> None:
    async with on_stage(long_kernel()) as stage:
        await stage.press("ctrl+p")
        stage.app.appearance.apply_theme("paper")
        stage.app.appearance.apply_theme("tide")
        await stage.pilot.pause()
        await stage.pull()
        wanted = Color.parse(stage.app.appearance.themes["tide"].palette["ground"])
        assert [each.styles.background for each in stage.app.screen_stack[:2]] == [wanted] * 2

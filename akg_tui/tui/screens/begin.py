"""What a new run can be made of: a bundled sample, a task folder, or a kernel of one's own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen

from akg_tui import resources
from akg_tui.core.plain import one_line
from akg_tui.store.run_list import JOURNAL
from akg_tui.store.task_folder import TASK_FILE
from akg_tui.tui.glyphs import LIVE
from akg_tui.tui.language import tr
from akg_tui.tui.openings import SAMPLES, Start
from akg_tui.tui.screens.dimming import Dimming
from akg_tui.tui.spans import Line, cells, fit, line
from akg_tui.tui.widgets.lineview import LineView

DEPTH = 4
MOST = 200
MODES = ("auto", "review", "step")


def tasks_below(folder: Path) -> list[Path]:
    """Task folders at or below a folder, not those inside runs; at most `MOST`."""
    found: list[Path] = []
    top = len(folder.parts)
    for at, below, files in os.walk(folder):
        here = Path(at)
        deep = len(here.parts) - top >= DEPTH
        if JOURNAL in files:  # a run, with its own copy of the task
            below.clear()
            continue
        if TASK_FILE in files:
            found.append(here)
        skip = {"runs", "node_modules", "__pycache__"}
        below[:] = [] if deep else sorted(n for n in below if n not in skip and n[0] != ".")
        if len(found) >= MOST:
            break
    return found


class Begin(ModalScreen[Start | None], Dimming[Start | None]):
    DEFAULT_CSS = """
    Begin { align: center middle; background: $ink-ground 60%; }
    Begin LineView {
        width: 86; max-width: 100%; height: auto; max-height: 80%; min-height: 10;
        border: round $ink-flame; border-title-color: $ink-flame; border-title-style: bold;
        border-subtitle-color: $ink-ash; background: $surface; padding: 0 1;
        scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", show=False),
        Binding("enter", "choose", show=False),
        Binding("m", "mode", show=False),
    ]

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.mode = MODES[0]
        self.cursor = 0
        self.view = _Choices("choices")
        self._tasks: list[Path] = []
        self._samples = resources.sample_names()

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.border_title = Content(tr("begin a run"))
        self.view.focus()
        self.call_after_refresh(self._show)
        self.run_worker(self._search(), name="find tasks")

    async def _search(self) -> None:
        found = await asyncio.to_thread(tasks_below, self.folder)
        samples = {(self.folder / SAMPLES / name).resolve() for name in self._samples}
        self._tasks = [path for path in found if path.resolve() not in samples]
        self._show()

    def _offers(self) -> list[tuple[str, str, Start | None]]:
        offers: list[tuple[str, str, Start | None]] = [
            (
                tr("a kernel of yours …"),
                tr("a reference and a kernel; both are checked first"),
                None,
            )
        ]
        for path in self._tasks:
            offers.append((one_line(str(path)), tr("task"), Start(path, mode=self.mode)))
        for name in self._samples:
            start = Start(self.folder, sample=name, mode=self.mode)
            offers.append((name, tr("bundled sample"), start))
        return offers

    def _show(self) -> None:
        rows: list[Line] = []
        for number, (name, kind, _) in enumerate(self._offers()):
            here = number == self.cursor
            ground = "|diff.gap" if here else ""
            lead = (f"{LIVE} ", "accent") if here else ("  ", "text")
            pad = " " * max(0, 28 - cells(name))
            row = line(lead, (f"{name}{pad}  ", f"strong{ground}"), (kind, f"muted{ground}"))
            rows.append(fit(row, self.view.room))
        self.view.put(rows)
        told = tr("enter begins it in mode {name}, m another mode, esc", name=self.mode)
        self.view.border_subtitle = Content(told)
        self.view.reveal(self.cursor)

    def move(self, step: int) -> None:
        self.cursor = max(0, min(len(self._offers()) - 1, self.cursor + step))
        self._show()

    def action_mode(self) -> None:
        self.mode = MODES[(MODES.index(self.mode) + 1) % len(MODES)]
        self._show()

    def action_choose(self) -> None:
        _, _, start = self._offers()[self.cursor]
        if start is not None:
            self.dismiss(start)
            return
        from akg_tui.tui.screens.wizard import Wizard

        def made(start: Start | None) -> None:
            if start is not None:
                self.dismiss(start)

        self.app.push_screen(Wizard(self.folder, self.mode), made)


class _Choices(LineView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
    ]

    def action_step(self, step: int) -> None:
        screen = self.screen
        assert isinstance(screen, Begin)
        screen.move(step)

"""An app that leaves its terminal as it found it, whatever happens while it runs.

Owns the guard over descriptors 1 and 2 and the signals from outside: a terminal that is
closed (SIGHUP) and SIGTERM end the run as a person's `q` would, and a terminal of another
size (SIGWINCH) is measured when the loop comes to it.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from pathlib import Path
from typing import Any

from rich.console import Console
from textual.app import App
from textual.events import Resize
from textual.geometry import Size

from akg_tui.tui.screen_guard import ScreenGuard

_ENDINGS = (signal.SIGHUP, signal.SIGTERM)


class Sheltered(App[int]):
    """`run` is guarded; a run under a pilot is not, for its terminal is none."""

    guard: ScreenGuard | None = None
    ended_by: signal.Signals | None = None

    def run(self, **options: Any) -> int | None:
        """Run in the terminal. 128 and the signal's number when a signal ended it."""
        with ScreenGuard() as self.guard:
            # A crash is told on the terminal itself, once the screen is gone.
            self.error_console = Console(file=self.guard.terminal, markup=False, highlight=False)
            code = super().run(**options)
        if self.ended_by is None and self.guard.hung_up:
            self.ended_by = signal.SIGHUP
        return 128 + self.ended_by if self.ended_by else code

    def take_shelter(self) -> None:
        """To be called when the screen has begun."""
        if self.guard is None:
            return
        self.guard.take_prints()
        loop = asyncio.get_running_loop()
        for each in _ENDINGS:
            loop.add_signal_handler(each, self._end, each)
        loop.add_signal_handler(signal.SIGWINCH, self._measure)

    def _measure(self) -> None:
        """Tell the app its terminal's size.

        Textual measures in the signal's own handler. A second signal interrupts the first
        between its measuring and its telling, and the older size is then told last, and kept.
        """
        driver = self._driver
        if driver is not None and not getattr(driver, "_in_band_window_resize", False):
            size = Size(*shutil.get_terminal_size())
            self.post_message(Resize(size, size))

    def keep_stray_in(self, folder: str) -> None:
        if self.guard is not None:
            self.guard.keep_in(Path(folder))

    def _end(self, by: signal.Signals) -> None:
        if self.ended_by is None:
            self.ended_by = by
            self.run_worker(self.end_run(), name=f"ended by {by.name}", exit_on_error=False)

    async def end_run(self) -> None:
        """Close what is open, then exit."""
        raise NotImplementedError

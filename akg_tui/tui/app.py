"""The workbench app: it opens a run, works it as a task behind the screen, and leaves it well.

Holds no truth: the screens are pulled from the run on a clock. Until the first frame is
out nothing but Textual is imported, so that a person sees at once that it begins.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen

from akg_tui import resources
from akg_tui.core.plain import clean
from akg_tui.tui.clock import PullClock
from akg_tui.tui.commands import at
from akg_tui.tui.spans import hang, line
from akg_tui.tui.themes import DEFAULT, BadTheme, Inked, Inks, Theme, load_all, user_folder
from akg_tui.tui.widgets.painted import Rows

if TYPE_CHECKING:
    from textual.command import Provider

    from akg_tui.core.commands import Command
    from akg_tui.engine.handle import RunHandle
    from akg_tui.tui.look import Look


def _palette() -> type[Provider]:
    from akg_tui.tui.screens.palette import Commands

    return Commands


class WorkbenchApp(Inked, App[int]):
    """Returns 0; 2 when the run could not be opened, broke, or ended without having done its job.

    Parameters
    ----------
    open_run : callable
        Gives the run. Awaited once the first frame is on screen.
    theme : str, optional
        Name of a theme; the default one where it is None or unknown.
    clock : callable
        Seconds since the epoch.
    """

    CSS = """
    #opening { padding: 1 2; height: 1fr; background: $background; }
    CommandPalette > Vertical { margin-top: 2; width: 76; max-width: 100%; background: $surface; }
    CommandPalette #--input { background: $surface; border: round $ink-flame; padding: 0 1; }
    CommandPalette #--results { max-height: 20; background: $surface; }
    CommandPalette SearchIcon { display: none; }
    """
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_palette}
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(c.keys), c.action.removeprefix("app."), c.label, show=False, id=c.id)
        for c in at("deck")
        if c.id in ("app.help", "app.quit")
    ]

    def __init__(
        self,
        open_run: Callable[[], Awaitable[RunHandle]],
        *,
        theme: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self.themes, self._faults = _themes()
        wanted = theme or DEFAULT
        if wanted not in self.themes:
            known = ", ".join(sorted(self.themes))
            self._faults.append(f"there is no theme {wanted}; there are: {known}")
            wanted = DEFAULT
        for each in self.themes.values():
            self.register_theme(each.for_textual())
        self.inks = Inks(self.themes[wanted])
        self.theme = wanted
        self.title = "akg-tui"
        self.clock = PullClock(self, self._pull, time.monotonic)
        self._open_run = open_run
        self._wall = clock
        self._handle: RunHandle | None = None
        self._work: asyncio.Task[None] | None = None
        self._released = False
        self._trouble = ""

    def compose(self) -> ComposeResult:
        yield Rows("opening")

    def on_mount(self) -> None:
        self._announce((("opening the run …", "muted"),))
        self.call_after_refresh(self._begin)

    def _announce(self, *texts: tuple[tuple[str, str], ...]) -> None:
        room = max(20, self.size.width - 4)
        rows = [line(("akg-tui", "brand")), ()]
        for text, role in (span for spans in texts for span in spans):
            rows += hang(clean(text), room, (), role)
        self.screen_stack[0].query_one("#opening", Rows).show(tuple(rows))

    def _begin(self) -> None:
        self.run_worker(self._open(), name="open the run")

    async def _open(self) -> None:
        opening = asyncio.ensure_future(self._open_run())
        await asyncio.wait([opening])
        if error := opening.exception():
            self._trouble = f"the run could not be opened: {_told(error)}"
            self._announce(((self._trouble, "log.error"),), (("q leaves", "muted"),))
            return
        from akg_tui.tui.screens.deck import Deck

        self._handle = opening.result()
        await self.push_screen(Deck())
        self._work = asyncio.create_task(self._handle.run(), name="run")
        self._work.add_done_callback(self._ended)
        self.clock.start()
        if self._faults:
            self._say("; ".join(self._faults))

    def _ended(self, work: asyncio.Task[None]) -> None:
        if work.cancelled():
            return
        if error := work.exception():
            self._trouble = f"the run broke: {_told(error)}; akg-tui resume takes it up again"
        if self.is_running:
            self.pull_now()

    def look(self) -> Look:
        """The run as it is now."""
        from akg_tui.tui.look import look_at

        assert self._handle is not None
        return look_at(self._handle, self._wall(), self._trouble)

    def wall_clock(self) -> float:
        return self._wall()

    def pull_now(self) -> None:
        """Show what is true now, whatever the clock's pace."""
        if self._handle is not None:
            self.clock.now()

    def _pull(self) -> None:
        from akg_tui.tui.screens.watching import Watching

        if self._handle is None or self._released:
            return
        look = self.look()
        for screen in reversed(self.screen_stack):
            if isinstance(screen, Watching) and screen.is_mounted:
                screen.pull(look)
            if not isinstance(screen, ModalScreen):
                break

    def steer(self, command: Command, told: str) -> bool:
        """Send a command; say `told`, or why it was refused. True when it was taken."""
        from akg_tui.store.errors import StoreError

        assert self._handle is not None
        try:
            refused = self._handle.send(command)
        except StoreError as error:  # a full disk, say: the run itself tells when it stops
            self._say(f"not done: {_told(error)}")
            return False
        self._say(refused.why if refused else told)
        self.pull_now()
        return refused is None

    def _say(self, text: str) -> None:
        from akg_tui.tui.screens.deck import Deck
        from akg_tui.tui.screens.watching import Watching

        for screen in self.screen_stack:
            if isinstance(screen, Watching) and (screen.is_current or isinstance(screen, Deck)):
                screen.say(text)

    def wear(self, name: str) -> None:
        """Change the theme at once."""
        self.inks = Inks(self.themes[name])
        self.theme = name

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        return ()

    def action_keys(self) -> None:
        from akg_tui.tui.screens.dialogs import Help

        if not isinstance(self.screen, ModalScreen):
            self.push_screen(Help())

    def action_leave(self) -> None:
        over = self._handle is None or self._handle.state.finished or self._trouble
        if over:
            self._leave(True)
        elif not isinstance(self.screen, ModalScreen):
            from akg_tui.tui.screens.dialogs import Leave

            assert self._handle is not None
            evaluating = self._handle.state.running is not None
            self.push_screen(Leave(self._handle.path, evaluating=evaluating), self._leave)

    def _leave(self, confirmed: bool | None) -> None:
        if confirmed:
            self.run_worker(self._close_and_exit(), name="close the run")

    async def _close_and_exit(self) -> None:
        await self._close()
        failed = bool(self._trouble)
        if self._handle is not None:
            failed = failed or not self._handle.state.ok
        code = 2 if failed else 0
        self.exit(code, return_code=code, message=clean(self._trouble) or None)

    async def _close(self) -> None:
        """End the task, release the run. Told once, whatever calls it again."""
        if self._released or self._handle is None:
            return
        self._released = True
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])
        closing = asyncio.ensure_future(self._handle.close())
        await asyncio.wait([closing])
        if error := closing.exception():
            self._trouble = f"the run was not closed well: {_told(error)}"

    async def on_unmount(self) -> None:
        await self._close()


def _told(error: BaseException) -> str:
    """What an exception says; its kind too where it says little."""
    text = " ".join(str(error).split())
    return text if len(text) > 20 else f"{type(error).__name__}: {text}".rstrip(": ")


def _themes() -> tuple[dict[str, Theme], list[str]]:
    themes, faults = load_all([resources.themes(), user_folder()])
    if DEFAULT not in themes:
        raise BadTheme(f"the default theme {DEFAULT} cannot be used: {'; '.join(faults)}")
    return themes, faults

"""The workbench app: it opens a run, works it as a task behind the screen, and leaves it well.

Holds no truth: the screens are pulled from the run on a clock. Until the first frame is
out nothing but Textual is imported, so that a person sees at once that it begins.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.events import Event, Key
from textual.screen import ModalScreen, Screen

from akg_tui.core.sanitize import clean
from akg_tui.tui.appearance import Dressed
from akg_tui.tui.fault_messages import CLOSING, LISTING, OPENING, Mishaps, said_by
from akg_tui.tui.keyboard import APPS
from akg_tui.tui.notices import Notices, Noticing
from akg_tui.tui.pull_clock import PullClock
from akg_tui.tui.run_actions import Deeds
from akg_tui.tui.terminal_guard import Sheltered
from akg_tui.tui.time_travel_actions import Travelling
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view.controls.command_registry import at, way_to
from akg_tui.view.controls.notification import WaitNotifier
from akg_tui.view.language import retold, tr
from akg_tui.view.spans import hang, line

if TYPE_CHECKING:
    from pathlib import Path

    from textual.command import Provider
    from textual.worker import Worker

    from akg_tui.core.commands import Command
    from akg_tui.core.events import PlanChange
    from akg_tui.engine.run_handle import RunHandle
    from akg_tui.tui.garbage_collection import Sweeper
    from akg_tui.tui.screens.command_line import CarryOut
    from akg_tui.view.controls.preferences import Preferences
    from akg_tui.view.run_snapshot import RunSnapshot


def _palette() -> type[Provider]:
    from akg_tui.tui.screens.command_line import Commands

    return Commands


class WorkbenchApp(Mishaps, Noticing, Travelling, Deeds, Dressed, Sheltered):
    """Returns 0; 2 when the run could not be opened, broke, or ended without having done its job.

    Parameters
    ----------
    open_run : callable, optional
        Gives the run. Awaited once the first frame is on screen. Without it the runs below
        `browse` are listed, to choose from.
    browse : Path, optional
        A folder with runs below it.
    past : bool
        Open the run's past at once.
    theme : str, optional
        Name of a theme, over what is preferred; the default one where it is unknown.
    wanted : Preferences, optional
        How the workbench should look and which keys it has; read from the environment and the
        person's files where it is None.
    clock : callable
        Seconds since the epoch.
    """

    CSS = """
    #opening { padding: 1 2; height: 1fr; background: $background; }
    CommandPalette.-preview { background: transparent; }
    CommandPalette > Vertical { margin-top: 2; width: 76; max-width: 100%; background: $surface; }
    CommandPalette #--input { background: $surface; border: round $ink-flame; padding: 0 1; }
    CommandPalette #--results {
        max-height: 20;
        background: $surface;
        border-bottom: hkey $ink-line;
    }
    CommandPalette SearchIcon { display: none; }
    """
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_palette}
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(c.keys), c.action, c.label, show=False, id=c.id)
        for c in dict.fromkeys((*at("deck"), *at("past")))
        if c.id in APPS
    ]

    def __init__(
        self,
        open_run: Callable[[], Awaitable[RunHandle]] | None,
        *,
        browse: Path | None = None,
        past: bool = False,
        theme: str | None = None,
        wanted: Preferences | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._faults = self.dress(theme, wanted)
        self.title = "akg-tui"
        self.attention = WaitNotifier(self._to_terminal, os.environ)
        self.clock = PullClock(
            self, self._pull, time.monotonic, self._news, self._rest, between=self._between
        )
        self.clock.pace.reduced = self.wanted.motion == "reduced"
        self._open_run = open_run
        self._browse = browse
        self._past_first = past
        self._wall = clock
        self._handle: RunHandle | None = None
        self._work: asyncio.Task[None] | None = None
        self._opening: Worker[None] | None = None
        self._released = False
        self._trouble = ""
        self._sweeper: Sweeper | None = None
        self.notices = Notices()

    def compose(self) -> ComposeResult:
        yield Rows("opening")

    def on_mount(self) -> None:
        self.take_shelter()
        self._announce(((tr("opening the run …"), "muted"),))
        self.watch_wardrobe()
        self.call_after_refresh(self._begin)

    def _announce(self, *texts: tuple[tuple[str, str], ...]) -> None:
        room = max(20, self.size.width - 4)
        rows = [line(("akg-tui", "brand")), ()]
        for text, role in (span for spans in texts for span in spans):
            rows += hang(clean(text), room, (), role)
        self.screen_stack[0].query_one("#opening", Rows).show(tuple(rows))

    def _begin(self) -> None:
        self._faults += self.take_all_themes()
        self.clock.start()
        if self._open_run is not None:
            self.run_worker(self._open(self._open_run), name=OPENING)
        elif self._browse is not None:
            self.run_worker(self._list(self._browse), name=LISTING)

    async def _list(self, folder: Path) -> None:
        from akg_tui.tui.screens.runs import Runs

        await self.push_screen(Runs(folder))
        self.call_after_refresh(self._settle)
        self._tell_faults()

    def _settle(self) -> None:
        """The screen stands: what is in memory now stays there."""
        from akg_tui.tui.garbage_collection import Sweeper

        if not self.is_headless:
            self._sweeper = self._sweeper or Sweeper()
            self._sweeper.settle()

    def _rest(self, seconds: float) -> None:
        if self._sweeper is not None:
            self._sweeper.rest(seconds)

    def _between(self) -> None:
        if self._sweeper is not None:
            self._sweeper.between()

    def _tell_faults(self) -> None:
        if self._faults:
            self._say("; ".join(map(retold, self._faults)))

    def open_run(self, open_run: Callable[[], Awaitable[RunHandle]], *, past: bool = False) -> None:
        """Open a run from the list of runs."""
        if self._handle is None and self._opening is None:
            self._past_first = past
            self._opening = self.run_worker(self._open(open_run), name=OPENING)

    async def _open(self, open_run: Callable[[], Awaitable[RunHandle]]) -> None:
        opening = asyncio.ensure_future(open_run())
        await asyncio.wait([opening])
        self._opening = None
        if error := opening.exception():
            trouble = tr("the run could not be opened: {why}", why=said_by(error))
            if self._browse is not None:
                self._say(trouble)
                return
            self._trouble = trouble
            self._announce(
                ((self._trouble, "log.error"),),
                ((tr("{key} leaves", key=way_to("app.quit")), "muted"),),
            )
            return
        from akg_tui.tui.screens.deck import Deck

        self._handle = opening.result()
        self._trouble, self._released = "", False
        if not self._only_watched():
            self.keep_stray_in(self._handle.path)
        await self.push_screen(Deck())
        self.call_after_refresh(self._settle)
        self._work = asyncio.create_task(self._handle.run(), name="run")
        self._work.add_done_callback(self._ended)
        self._tell_faults()
        if self._past_first:
            await self._into_past()

    def _ended(self, work: asyncio.Task[None]) -> None:
        if work.cancelled():
            return
        if error := work.exception():
            why = said_by(error)
            self._trouble = tr("the run broke: {why}; akg-tui resume takes it up again", why=why)
            if self._only_watched():
                self._trouble = tr("it can't be followed any more: {why}", why=why)
        if self.is_running:
            self.pull_now()

    def look(self) -> RunSnapshot:
        """The run as it is now; as it was, when the person looks at the past."""
        from akg_tui.view.controls.time_travel import past_snapshot

        look = self.look_now()
        return past_snapshot(look, self._travel) if self._travel and self.in_past else look

    def look_now(self) -> RunSnapshot:
        from akg_tui.view.run_snapshot import snapshot_of

        assert self._handle is not None
        return snapshot_of(self._handle, self._wall(), self._trouble)

    def _only_watched(self) -> bool:
        """Whether somebody else works on the run, or nobody does."""
        from akg_tui.engine.follower import Followed

        return isinstance(self._handle, Followed)

    def wall_clock(self) -> float:
        return self._wall()

    @property
    def has_run(self) -> bool:
        """Whether a run is open, and not being closed."""
        return self._handle is not None and not self._released

    @property
    def run_path(self) -> str:
        """The folder of the run."""
        assert self._handle is not None
        return self._handle.path

    def plan_change(self, kept: str) -> PlanChange:
        """What a hand edit of PLAN.md comes to in items."""
        assert self._handle is not None
        return self._handle.plan_change(kept)

    def pull_now(self) -> None:
        """Show what is true now, whatever the clock's pace."""
        self.clock.now()

    def _news(self) -> object:
        """What tells, without a look at anything, whether a pull would show something new."""
        handle, travel = self._handle, self._travel
        plays = time.monotonic() if travel is not None and travel.speed else 0.0
        top = self.screen_stack[-1] if self.screen_stack else None
        news = getattr(top, "news", 0)
        if handle is None:
            return top, news
        known = len(handle.records), handle.live.version, self._trouble, self.app_focus
        return top, news, id(handle.state), *known, plays

    def _pull(self) -> None:
        from akg_tui.tui.screens.deck import Deck
        from akg_tui.tui.screens.run_screen import Watching
        from akg_tui.tui.screens.runs import Runs

        top = self.screen_stack[-1] if self.screen_stack else None
        if isinstance(top, Runs) and top.is_mounted:
            top.pull_runs(self._wall())
        if self._handle is None or self._released:
            return
        if self._travel is not None:
            self._travel.tick(time.monotonic())
        if self.guard is not None and self.guard.news():
            key = way_to("app.stray")
            self._say(tr("something was written past the screen: {key} shows it", key=key))
        look = self.look()
        for screen in reversed(self.screen_stack):
            if isinstance(screen, Watching) and screen.is_mounted:
                screen.pull(look)
            if not isinstance(screen, ModalScreen):
                break
        deck = next((s for s in self.screen_stack if isinstance(s, Deck)), None)
        if deck is not None:
            live = self.look_now() if self.in_past else look
            self.attention.look(deck.asks(live), focused=self.app_focus)

    def _to_terminal(self, codes: str) -> None:
        if self._driver is not None:
            self._driver.write(codes)

    def steer(self, command: Command, told: str) -> bool:
        """Send a command; say `told`, or why it was refused. True when it was taken."""
        from akg_tui.store.errors import StoreError

        if self._handle is None or self._released:
            self._say(tr("no run is open here"))
            return False
        if self.in_past:
            key = way_to("past.live")
            self._say(tr("this is the past: {key} goes back to what is true now", key=key))
            return False
        try:
            refused = self._handle.send(command)
        except StoreError as error:  # a full disk, say: the run itself tells when it stops
            self._say(tr("not done: {why}", why=said_by(error)))
            return False
        self._say(refused.why if refused else told)
        self.pull_now()
        return refused is None

    def tell(self, text: str) -> None:
        self._say(text)

    def _say(self, text: str) -> None:
        from akg_tui.tui.screens.deck import Deck
        from akg_tui.tui.screens.run_screen import Watching

        self.notice(text)
        for screen in self.screen_stack:
            if isinstance(screen, Watching) and (screen.is_current or isinstance(screen, Deck)):
                screen.tell(text)

    def tell_person(self, text: str) -> None:
        self._say(text)

    def on_command_palette_option_highlighted(
        self, message: CommandPalette.OptionHighlighted
    ) -> None:
        chosen = getattr(message.highlighted_event.option, "hit", None)
        theme = cast("CarryOut", chosen.command).theme if chosen is not None else ""
        self.screen.set_class(bool(theme), "-preview")
        self.preview(theme)

    def on_command_palette_closed(self, message: CommandPalette.Closed) -> None:
        self.preview("")

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        return ()

    def action_keys(self) -> None:
        from akg_tui.tui.screens.dialogs import Help

        if not isinstance(self.screen, ModalScreen):
            self.push_screen(Help())

    def action_strays(self) -> None:
        from akg_tui.tui.screens.dialogs import Reading

        if isinstance(self.screen, ModalScreen):
            return
        guard = self.guard
        text = guard.text() if guard else ""
        path = guard.path if guard else None
        where = f"{path.parent.name}/{path.name}" if path else ""
        nothing = tr("Nothing was written past the screen.")
        title = tr("written past the screen")
        self.push_screen(Reading(title, text or nothing, where, follows=True))

    def action_suspend_process(self) -> None:
        with self.batch_update():  # or a screen half drawn would wait for a writer that stops
            super().action_suspend_process()

    def action_leave(self) -> None:
        over = self._handle is None or self._handle.state.finished or self._trouble
        if over or self._only_watched():
            self._leave(True)
        elif not isinstance(self.screen, ModalScreen):
            from akg_tui.tui.screens.dialogs import Leave

            assert self._handle is not None
            evaluating = self._handle.state.running is not None
            self.push_screen(Leave(self._handle.path, evaluating=evaluating), self._leave)

    def _leave(self, confirmed: bool | None) -> None:
        if not confirmed:
            return
        if self._handle is not None:
            self._say(tr("closing the run …"))
        if self._browse is not None and self._handle is not None:
            self.run_worker(self._back_to_runs(), name=CLOSING)
        else:
            self.run_worker(self._close_and_exit(), name=CLOSING)

    async def _back_to_runs(self) -> None:
        from akg_tui.tui.screens.runs import Runs

        path = self._handle.path if self._handle is not None else ""
        await self._close()
        trouble, self._handle, self._travel, self._trouble = self._trouble, None, None, ""
        while not isinstance(self.screen, Runs):
            await self.pop_screen()
        self._work = None
        if self._sweeper is not None:
            self._sweeper.run_left()
        self.screen.back_from(path)
        if trouble:
            self._say(trouble)

    async def on_event(self, event: Event) -> None:
        if isinstance(event, Key):
            if not event.is_forwarded:
                self._reached_for(event)
            if not event.is_forwarded and await self.chord_key(event):
                return
            self.heard(event)
        await super().on_event(event)

    def _reached_for(self, event: Key) -> None:
        """Keep what could be answered before this key, unless it goes on with something."""
        self.typing = _types(event)
        now = self._wall()
        if not isinstance(self.screen, ModalScreen) and not self.chords.waits(now):
            here = self.watched() if self.has_run else None
            self.answerable = here.answerable(now) if here is not None else None

    def heard(self, event: Key, *, any_key: bool = False) -> None:
        """A key was pressed that may be part of something written."""
        if self._handle is None or not (any_key or _types(event)):
            return
        from akg_tui.tui.screens.run_screen import Watching

        for screen in self.screen_stack:
            if isinstance(screen, Watching):
                screen.typed(self._wall(), event.key)

    async def end_run(self) -> None:
        await self._close_and_exit()

    async def _close_and_exit(self) -> None:
        await self._close()
        failed = bool(self._trouble)
        if self._handle is not None:
            failed = failed or not (self._handle.state.ok or self._only_watched())
        code = 2 if failed else 0
        self.exit(code, return_code=code, message=clean(self._trouble) or None)

    async def _close(self) -> None:
        """End the task, release the run. Told once, whatever calls it again."""
        if self._released or self._handle is None:
            return
        self._released = True
        self.attention.rest()
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])
        closing = asyncio.ensure_future(self._handle.close())
        await asyncio.wait([closing])
        if error := closing.exception():
            self._trouble = tr("the run was not closed well: {why}", why=said_by(error))

    async def on_unmount(self) -> None:
        await self._close()


def _types(key: Key) -> bool:
    """Whether this key is part of writing something, rather than of reading or answering."""
    return not key.key.startswith("alt+") and (
        key.is_printable or key.key in ("enter", "escape", "backspace", "tab")
    )

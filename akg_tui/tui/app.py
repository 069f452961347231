"""The workbench app: opens a run, runs it as a task, closes it; carries out commands and keys.

Holds no state of the run: the screens pull it on a clock. Only Textual is imported before the
first frame, so that the frame comes early.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar, cast

from textual.actions import parse
from textual.app import ComposeResult
from textual.command import CommandPalette
from textual.events import DescendantFocus, Event, Key
from textual.screen import ModalScreen
from textual.widgets import Input

from akg_tui.core.sanitize import clean
from akg_tui.tui import garbage_collection, textual_internals
from akg_tui.tui.appearance import Appearance
from akg_tui.tui.keyboard import Chords
from akg_tui.tui.messages import Notices, exception_text
from akg_tui.tui.pull_clock import PullClock
from akg_tui.tui.terminal_guard import GuardedApp
from akg_tui.tui.themes import Inked
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view.controls import keymap
from akg_tui.view.controls.command_registry import at, way_to, within
from akg_tui.view.controls.notification import Notifier
from akg_tui.view.language import retold, tr
from akg_tui.view.spans import hang, line

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.command import Provider
    from textual.dom import DOMNode
    from textual.filter import LineFilter
    from textual.worker import Worker

    from akg_tui.core.commands import Command as RunCommand
    from akg_tui.engine.run_handle import RunHandle
    from akg_tui.engine.trust import Untrusted
    from akg_tui.tui.screens.command_line import Offer
    from akg_tui.tui.screens.deck import Deck
    from akg_tui.tui.screens.run_screen import RunScreen
    from akg_tui.tui.screens.runs import Runs
    from akg_tui.tui.themes import Inks
    from akg_tui.tui.widgets.approval_card import Ident
    from akg_tui.view.controls.command_registry import Command
    from akg_tui.view.controls.preferences import Preferences
    from akg_tui.view.run_snapshot import RunSnapshot
    from akg_tui.view.spans import Span

DEAF_S = 1.0  # longest time between two keys of a text that no line takes
LEFT_S = 1.0
"""From the list of runs until what a run left is collected. asyncio keeps a cancelled timer, and
with it the screen, until the time that it was set for: half a second for a text field's cursor.
"""
OPENING, LISTING, CLOSING = "open the run", "list the runs", "close the run"


def _palette() -> type[Provider]:
    from akg_tui.tui.screens.command_line import Commands

    return Commands


class WorkbenchApp(GuardedApp, Inked):
    """Exits with 0; with 2 if the run could not be opened, broke, or ended without success.

    Parameters
    ----------
    open_run : callable, optional
        Returns the run. Awaited after the first frame is on screen. Without it the runs below
        `browse` are listed, to choose from.
    browse : Path, optional
        A folder with runs below it.
    past : bool
        Open the past of the run at once.
    theme : str, optional
        Name of a theme; it overrides the preferred theme. An unknown name selects the default.
    wanted : Preferences, optional
        Look and keys of the workbench. If None, they are read from the environment and the
        person's files.
    clock : callable
        Returns seconds since the epoch.
    """

    CSS_PATH: ClassVar[list[str | PurePath]] = ["styles/app.tcss", "styles/deck.tcss"]
    """Those of the deck too: Textual parses all rules anew for a screen that brings rules."""
    NEEDED_WORKERS = frozenset({OPENING, LISTING, CLOSING})
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_palette}
    COMMAND_PALETTE_BINDING = "ctrl+p"

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
        self.title = "akg-tui"
        self.clock = PullClock(self, self._pull, self._news)
        self.appearance = Appearance(
            self, self.clock, theme, wanted, say=self.say, open_line=self.open_line
        )
        self.attention = Notifier(
            lambda codes: textual_internals.write_to_terminal(self, self.appearance.sent(codes)),
            os.environ,
        )
        self._collaborators: tuple[object, ...] = (self.appearance,)
        """Objects whose `action_*` methods carry out the actions of the app, beside its own."""
        self.chords = Chords()
        self.answerable: Ident | None = None
        """The question that could be answered at the last key press outside dialogs and chords.
        The value is taken before that key counts as typing.
        """
        self.vouched: Ident | None = None
        """The value of `answerable` while a command runs that was called by name or by chord: the
        question that could be answered before the line, the palette or the chord was begun.
        """
        self.typing = False
        """Whether the last key may be part of a text."""
        self._deaf_until = 0.0
        self._open_run = open_run
        self._browse = browse
        self._past_first = past
        self.wall_clock = clock
        self._handle: RunHandle | None = None
        self._work: asyncio.Task[None] | None = None
        self._opening: Worker[None] | None = None
        self._released = False
        self._leaves_running = False
        self._trouble = ""
        self._deck: Deck | None = None
        self._runs: Runs | None = None
        self.notices = Notices()

    @property
    def inks(self) -> Inks:
        return self.appearance.inks

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self.appearance.filters]

    def compose(self) -> ComposeResult:
        yield Rows("opening")

    def on_mount(self) -> None:
        self.guard_terminal()
        self._announce((tr("opening the run …"), "muted"))
        self.call_after_refresh(self._begin)

    def _announce(self, *texts: Span) -> None:
        room = max(20, self.size.width - 4)
        rows = [line(("akg-tui", "brand")), ()]
        for text, role in texts:
            rows += hang(clean(text), room, (), role)
        self.screen_stack[0].query_one("#opening", Rows).show(tuple(rows))

    def _begin(self) -> None:
        from akg_tui.tui.run_actions import RunActions
        from akg_tui.tui.time_travel_actions import TimeTravel

        self.time_travel = TimeTravel(self, self, self._deck_in_front)
        self._collaborators += (self.time_travel, RunActions(self, self))
        self.clock.start()
        if self._open_run is not None:
            self.run_worker(self._open(self._open_run), name=OPENING)
        elif self._browse is not None:
            self.run_worker(self._list(self._browse), name=LISTING)

    async def _list(self, folder: Path) -> None:
        from akg_tui.tui.screens.runs import Runs

        self._runs = Runs(folder)
        await self.push_screen(self._runs)
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        """Do what the first frame of a screen need not wait for; then freeze the objects alive now,
        so that the garbage collector skips them.
        """
        self.appearance.read_all_themes()
        if faults := self.appearance.faults:
            self.say("; ".join(map(retold, faults)))
        if not self.is_headless:
            garbage_collection.settle()

    def open_run(self, open_run: Callable[[], Awaitable[RunHandle]], *, past: bool = False) -> None:
        """Open a run from the list of runs."""
        if self._handle is None and self._opening is None:
            self._past_first = past
            opening = self._open(open_run)
            self._opening = self.run_worker(opening, name=OPENING, group=textual_internals.OPENING)

    async def _open(self, open_run: Callable[[], Awaitable[RunHandle]]) -> None:
        opening = asyncio.ensure_future(open_run())
        await asyncio.sleep(0)
        from akg_tui.tui.screens.deck import Deck  # while the run is read

        await asyncio.wait([opening])
        self._opening = None
        if error := opening.exception():
            from akg_tui.engine.trust import Untrusted

            if isinstance(error, Untrusted):
                await self._ask_trust(error, open_run)
                return
            trouble = tr("the run could not be opened: {why}", why=exception_text(error))
            if self._browse is not None:
                self.say(trouble)
                return
            self._trouble = trouble
            leaves = tr("{key} leaves", key=way_to("app.quit"))
            self._announce((trouble, "log.error"), (leaves, "muted"))
            return
        from akg_tui.view.status import server_told

        self._handle = opening.result()
        self._handle.live.screens += 1
        self._trouble, self._released = "", False
        if not self._only_watched():
            self._handle.live.detach = self.detach
            if self.guard is not None:
                self.guard.keep_in(Path(self._handle.path))
        self.attention.forget()
        self._deck = Deck()
        await self.push_screen(self._deck)
        self.call_after_refresh(self._settle)
        self._work_on()
        if not self._only_watched() and (server := server_told(self._handle.state)):
            self.say(server)  # the header may have no room for it
        if self._past_first:
            await self.time_travel.enter()

    async def _ask_trust(
        self, untrusted: Untrusted, open_run: Callable[[], Awaitable[RunHandle]]
    ) -> None:
        """Ask whether a folder may do what it would do; open the run after a yes."""
        from akg_tui.engine.trust import allow
        from akg_tui.store.errors import StoreError
        from akg_tui.tui.screens.dialogs import AskTrust

        if await self.push_screen_wait(AskTrust(untrusted)):
            try:
                await asyncio.to_thread(allow, untrusted.folder, untrusted.acts)
            except StoreError as error:
                told = exception_text(error)
            else:
                await self._open(open_run)
                return
        else:
            told = tr("{folder} is not trusted, and nothing of it was run",
                      folder=clean(str(untrusted.folder)))  # fmt: skip
        if self._browse is None:
            self.exit(2, return_code=2, message=told)
        else:
            self.say(told)

    def _work_on(self) -> None:
        """Run the open run as a task, unless it is at work; it may go on after its end."""
        if self._handle is None or (self._work is not None and not self._work.done()):
            return
        if self._work is None or not (self._handle.state.finished or self._trouble):
            self._work = asyncio.create_task(self._handle.run(), name="run")
            self._work.add_done_callback(self._ended)

    def _ended(self, work: asyncio.Task[None]) -> None:
        if work.cancelled():
            return
        if error := work.exception():
            why = exception_text(error)
            self._trouble = tr("the run broke: {why}; akg-tui resume takes it up again", why=why)
            if self._only_watched():
                self._trouble = tr("it can't be followed any more: {why}", why=why)
        if self.is_running:
            self.pull_now()

    def snapshot(self) -> RunSnapshot:
        """Return the current run, or the past run while the person looks at the past."""
        from akg_tui.view.controls.time_travel import past_snapshot

        now, place = self.snapshot_now(), self.time_travel.place
        return past_snapshot(now, place) if place is not None and self.in_past else now

    def snapshot_now(self) -> RunSnapshot:
        """Return the current run, even while the person looks at the past."""
        from akg_tui.view.run_snapshot import snapshot_of

        assert self._handle is not None
        return snapshot_of(self._handle, self.wall_clock(), self._trouble)

    def _only_watched(self) -> bool:
        """Return whether the run is followed only: another process, or none, works on it."""
        from akg_tui.engine.follower import Followed

        return isinstance(self._handle, Followed)

    @property
    def handle(self) -> RunHandle | None:
        """The open run; None if there is none, or while it is closed."""
        return None if self._released else self._handle

    @property
    def in_past(self) -> bool:
        """Whether the person looks at the past of the run."""
        return self.time_travel.in_past

    def _deck_in_front(self) -> Deck | None:
        return self._deck if self.screen is self._deck else None

    def _run_screens(self) -> list[RunScreen]:
        """Return the screens that show runs, the topmost first."""
        from akg_tui.tui.screens.run_screen import RunScreen

        return [each for each in reversed(self.screen_stack) if isinstance(each, RunScreen)]

    def pull_now(self) -> None:
        """Pull at once, at any pace of the clock."""
        self.clock.now()

    def _news(self) -> object:
        """Return a value that changes whenever a pull would show something new; reads no files."""
        top = self.screen_stack[-1] if self.screen_stack else None
        news = getattr(top, "news", 0)
        if (handle := self._handle) is None:
            return top, news
        known = len(handle.records), handle.live.version, self._trouble, self.app_focus
        return top, news, id(handle.state), *known

    def _pull(self) -> None:
        runs = self._runs
        # No screen is left while the app ends.
        if runs is not None and runs.is_mounted and runs in self.screen_stack[-1:]:
            runs.pull_runs(self.wall_clock())
        if self._handle is None or self._released:
            return
        if self.guard is not None and self.guard.news():
            key = way_to("app.stray")
            self.say(tr("something was written past the screen: {key} shows it", key=key))
        snapshot = self.snapshot()
        for screen in self._run_screens()[:1]:
            if screen.is_mounted:
                screen.pull(snapshot)
        if self._deck is not None:
            live = self.snapshot_now() if self.in_past else snapshot
            self.attention.wanted = self.appearance.wanted.notify
            asks, records = self._deck.asks(live), live.records
            self.attention.look(asks, records, live.state, focused=self.app_focus)

    def steer(self, command: RunCommand, told: str) -> bool:
        """Send a command; show `told`, or why it was refused. Return True if it was accepted."""
        from akg_tui.store.errors import StoreError

        if self._handle is None or self._released:
            self.say(tr("no run is open here"))
            return False
        if self.in_past:
            key = way_to("past.live")
            self.say(tr("this is the past: {key} goes back to what is true now", key=key))
            return False
        try:
            refused = self._handle.send(command)
        except StoreError as error:  # e.g. a full disk: the run reports it when it stops
            self.say(tr("not done: {why}", why=exception_text(error)))
            return False
        self.say(refused.why if refused else told)
        if refused is None:
            self._work_on()
        self.pull_now()
        return refused is None

    def say(self, text: str) -> None:
        """Show a message on the screen in front and on the deck, and store it."""
        self.notice(text)
        for screen in self._run_screens():
            if screen.is_current or screen is self._deck:
                screen.tell(text)

    def say_no_line(self, text: str) -> None:
        self.say(text)
        self._deaf_until = self.wall_clock() + DEAF_S

    def _is_deaf(self, event: Key) -> bool:
        """Return whether a key belongs to a text that no line takes: it must call no command."""
        now = self.wall_clock()
        if not (0 <= self._deaf_until - now <= DEAF_S and _types(event)):
            return False
        if isinstance(self.screen, ModalScreen) or isinstance(self.focused, Input):
            return False
        ends = event.key in ("enter", "escape")
        self._deaf_until = 0.0 if ends else now + DEAF_S
        return True

    def notice(self, text: str) -> None:
        """Store a message; the keys of a chord being typed are not stored."""
        if not self.chords.pending:
            self.notices.keep(text, self.wall_clock())

    def report_fault(self, error: BaseException) -> None:
        """Show an exception; if it is a fault of the workbench, write its traceback to stderr,
        which goes to the file of stray output.
        """
        from akg_tui.store.errors import StoreError

        why = exception_text(error)
        if isinstance(error, (StoreError, OSError)):
            self.say(tr("not done: {why}", why=why))
            return
        traceback.print_exception(error, file=sys.stderr)
        if self.guard is not None:
            self.guard.news()  # marked as seen: the message below names the key that shows it
        key = way_to("app.stray")
        self.say(tr("not done: {why}; {key} shows where it went wrong", why=why, key=key))

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action; one of the app is looked for at its collaborators first."""
        space, name, parameters = parse(action) if isinstance(action, str) else action
        owners = self._collaborators if space == "app" else ()
        found = (getattr(each, f"action_{name}", None) for each in owners)
        try:
            if (method := next(filter(None, found), None)) is None:
                return await super().run_action(action, default_namespace, namespaces)
            if isawaitable(done := method(*parameters)):
                await done
        except Exception as error:  # noqa: BLE001 - shown to the person, and stored
            self.report_fault(error)
        return True

    def commands_here(self) -> tuple[Command, ...]:
        """Return the commands of the topmost screen of the run, dialogs left out."""
        screens = self._run_screens()
        where = screens[0].where if screens else None
        if where == "deck" and self.in_past:
            return tuple(dict.fromkeys((*at("past"), *at("deck"), *within("deck"))))
        return (*at(where or "everywhere"), *(within(where) if where else ()))

    async def carry_out(self, command: Command, argument: str = "") -> bool:
        """Run the action of a command on its screen; False if no action was found."""
        namespace, name, parameters = parse(command.action)
        if argument:
            parameters = (*parameters, argument)
        self.vouched, self.typing = self.answerable, False
        try:
            node = next(iter(self._run_screens()), self)
            return await self.run_action((namespace, name, parameters), node)
        finally:
            self.vouched = None

    def action_chord(self, key: str) -> None:
        self.chords.begin(key, self.wall_clock())
        self.say(f"{keymap.shown(key)} …")

    async def _chord_key(self, event: Key) -> bool:
        """Return whether a key was used up by the chord being typed."""
        now = self.wall_clock()
        if not self.chords.waits(now):
            return False
        if isinstance(self.focused, Input) and "+" not in self.chords.pending:
            self.chords.pending = ""  # a letter, and the mouse opened the line meanwhile
            return False
        self.chords.since = now
        typed = keymap.shown(f"{self.chords.pending} {event.key}")
        command = self.chords.feed(event.key, self.commands_here())
        if command is not None:
            self.say("")
            await self.carry_out(command)
        elif self.chords.pending:
            self.say(f"{typed} …")
        else:
            self._heard(event, any_key=True)
            self.say(tr("no command has the keys {keys}", keys=typed))
        return True

    def action_command_line(self) -> None:
        self.open_line("")

    def action_command_palette(self) -> None:
        from akg_tui.tui.screens.command_line import Palette

        if not Palette.is_open(self.app):
            asks = tr("type to find a command")
            self.push_screen(Palette(placeholder=asks, id="--command-palette"))

    def open_line(self, text: str) -> None:
        """Open the ``:`` line with `text` on it."""
        from akg_tui.tui.screens.command_line import CommandLine

        if not isinstance(self.screen, ModalScreen):
            self.push_screen(CommandLine(text))

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        if isinstance(event.widget, Input):
            event.widget.cursor_blink = not self.clock.pace.reduced

    def on_command_palette_option_highlighted(
        self, message: CommandPalette.OptionHighlighted
    ) -> None:
        chosen = getattr(message.highlighted_event.option, "hit", None)
        theme = cast("Offer", chosen.command).theme if chosen is not None else ""
        self.screen.set_class(bool(theme), "-preview")
        self.appearance.preview(theme)

    def on_command_palette_closed(self, message: CommandPalette.Closed) -> None:
        self.appearance.preview("")

    def action_keys(self) -> None:
        from akg_tui.tui.screens.dialogs import Help

        if not isinstance(self.screen, ModalScreen):
            screens = self._run_screens()
            here: str = screens[0].where if screens else "deck"
            if here == "deck":
                deck = self._deck
                here = "past" if self.in_past else deck.active if deck is not None else here
            self.push_screen(Help(here))

    def action_strays(self) -> None:
        guard = self.guard
        path = guard.path if guard else None
        where = f"{path.parent.name}/{path.name}" if path else ""
        text = (guard.text() if guard else "") or tr("Nothing was written past the screen.")
        self._read_out(tr("written past the screen"), text, where)

    def action_messages(self) -> None:
        self._read_out(tr("told so far"), self.notices.text() or tr("Nothing was told yet."))

    def _read_out(self, title: str, text: str, where: str = "") -> None:
        from akg_tui.tui.screens.dialogs import Reading

        if not isinstance(self.screen, ModalScreen):
            self.push_screen(Reading(title, text, where, follows=True))

    def action_suspend_process(self) -> None:
        with self.batch_update():  # else a half drawn screen would wait for a writer that stops
            super().action_suspend_process()

    def action_leave(self) -> None:
        over = self._handle is None or self._handle.state.finished or self._trouble
        if over or self._leaves_running or self._only_watched():
            self._leave(True)
        elif not isinstance(self.screen, ModalScreen):
            from akg_tui.tui.screens.dialogs import Leave

            assert self._handle is not None
            evaluating = self._handle.state.running is not None
            leave = Leave(self._handle.path, self.detach, evaluating=evaluating)
            self.push_screen(leave, self._leave)

    def detach(self) -> None:
        """Leave the run, which goes on: in a detached engine, or where it is at work now."""
        if self._handle is None or self._released or self._leaves_running:
            return
        if self._handle.state.finished or self._trouble or self._only_watched():
            self._leave(True)
            return
        self._leaves_running = True
        self.say(tr("the run leaves this terminal …"))
        self.run_worker(self._leave_running(), name=CLOSING)

    async def _leave_running(self) -> None:
        from akg_tui.tui.run_start import Unfit, detached

        assert self._handle is not None
        path = self._handle.path
        options = getattr(self._handle, "resume_options", ())
        await self._close()
        if self._handle.state.finished:  # it ended before it could leave
            self._leaves_running = False
            self._leave(True)
            return
        told = tr("the run goes on without this terminal: {key} watches and steers it",
                  key=way_to("runs.open"))  # fmt: skip
        try:
            await detached(Path(path), options)
        except Unfit as error:
            told = tr("the run stopped here, and goes on nowhere: {why}", why=str(error))
            self._trouble = told
        self._leaves_running = False
        if self._browse is not None:
            self._trouble = ""
            await self._back_to_runs()
            self.say(told)
        else:
            await self.end_run()

    def _leave(self, confirmed: bool | None) -> None:
        if not confirmed:
            return
        if self._leaves_running:  # the end of the app would end what starts the detached engine
            self.say(tr("the run leaves this terminal …"))
            return
        if self._handle is not None:
            self.say(tr("closing the run …"))
        if self._browse is not None and self._handle is not None:
            self.run_worker(self._back_to_runs(), name=CLOSING)
        else:
            self.run_worker(self.end_run(), name=CLOSING)

    async def _back_to_runs(self) -> None:
        assert self._runs is not None
        await self._close()
        trouble, self._handle, self._trouble = self._trouble, None, ""
        self.time_travel.place = None
        while self.screen is not self._runs:
            await self.pop_screen()
        self._work = self._deck = None
        if not self.is_headless:
            self.set_timer(LEFT_S, garbage_collection.settle_again)
        self._runs.come_back()
        if trouble:
            self.say(trouble)

    async def on_event(self, event: Event) -> None:
        if isinstance(event, Key):
            if not event.is_forwarded:
                self._reached_for(event)
            if not event.is_forwarded and self._is_deaf(event):
                self._heard(event)
                return
            if not event.is_forwarded and await self._chord_key(event):
                return
            self._heard(event)
        await super().on_event(event)

    def _reached_for(self, event: Key) -> None:
        """Store the question answerable before this key, unless a dialog or a chord is open."""
        self.typing = _types(event)
        now = self.wall_clock()
        if not isinstance(self.screen, ModalScreen) and not self.chords.waits(now):
            here = self._run_screens() if self.handle is not None else []
            self.answerable = here[0].answerable(now) if here else None

    def _heard(self, event: Key, *, any_key: bool = False) -> None:
        """Report a key to the screens, if it may be part of a text or if `any_key`."""
        if self._handle is None or not (any_key or _types(event)):
            return
        for screen in self._run_screens():
            screen.typed(self.wall_clock(), event.key)

    async def end_run(self) -> None:
        await self._close()
        failed = bool(self._trouble)
        if self._handle is not None:
            failed = failed or not (self._handle.state.ok or self._only_watched())
        code = 2 if failed else 0
        self.exit(code, return_code=code, message=clean(self._trouble) or None)

    async def _close(self) -> None:
        """End the task and release the run; a second call does nothing."""
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
            self._trouble = tr("the run was not closed well: {why}", why=exception_text(error))

    async def on_unmount(self) -> None:
        await self._close()


def _types(key: Key) -> bool:
    """Return whether a key may be part of a text, as opposed to a key that moves or answers."""
    return not key.key.startswith("alt+") and (
        key.is_printable or key.key in ("enter", "escape", "backspace", "tab")
    )

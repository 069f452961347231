"""The base of the screens that show runs, and the part of the app that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from akg_tui.tui.keyboard import rekey
from akg_tui.tui.textual_internals import PatientScreen, bindings_of
from akg_tui.tui.widgets.footer import Footer
from akg_tui.tui.widgets.text_line import MOST
from akg_tui.view.controls import keymap
from akg_tui.view.controls.command_registry import Where, way_to
from akg_tui.view.language import tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line, line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from akg_tui.core.commands import Command as RunCommand
    from akg_tui.engine.run_handle import RunHandle
    from akg_tui.tui.appearance import Appearance
    from akg_tui.tui.widgets.approval_card import Ident
    from akg_tui.view.controls.command_registry import Command

_MOVES = {"down": "down", "up": "up", "page_down": "pagedown", "page_up": "pageup"}


class Workbench(Protocol):
    """The part of the app that a screen, a pane or a group of actions uses."""

    appearance: Appearance

    @property
    def handle(self) -> RunHandle | None:
        """The open run; None if there is none, or while it is closed."""

    def snapshot(self) -> RunSnapshot:
        """Return the current run, or the past run while the person looks at the past."""

    def snapshot_now(self) -> RunSnapshot:
        """Return the current run, even while the person looks at the past."""

    def open_run(self, open_run: Callable[[], Awaitable[RunHandle]], *, past: bool = False) -> None:
        """Open a run from the list of runs."""

    def detach(self) -> None:
        """Leave the run, which goes on: in a detached engine, or where it is at work now."""

    def wall_clock(self) -> float:
        """Return seconds since the epoch."""

    def steer(self, command: RunCommand, told: str) -> bool:
        """Send a command; show `told`, or why it was refused. Return True if it was accepted."""

    def pull_now(self) -> None:
        """Pull at once, at any pace of the clock."""

    @property
    def vouched(self) -> Ident | None:
        """The question that a command called by name or by chord may answer, in spite of the keys
        typed to call the command.
        """

    @property
    def typing(self) -> bool:
        """Whether the last key may be part of a text."""

    def say(self, text: str) -> None:
        """Show a message on the screen in front and on the deck, and store it."""

    def say_no_line(self, text: str) -> None:
        """Show why no line was opened. Text typed in spite of that is no command."""

    def notice(self, text: str) -> None:
        """Store a message, to be read again."""

    def open_line(self, text: str) -> None:
        """Open the ``:`` line with `text` on it."""

    def commands_here(self) -> tuple[Command, ...]:
        """Return the commands of the topmost screen of the run, dialogs left out."""

    async def carry_out(self, command: Command, argument: str = "") -> bool:
        """Run the action of a command on its screen; False if no action was found."""


def waiting_line(snapshot: RunSnapshot | None, command: str) -> Line:
    """Return a line that the run waits for the person, with the key of the `command` that leads
    to the card; () if the run does not wait.
    """
    if snapshot is None or not snapshot.waits:
        return ()
    told = (f" {tr('leads to it')}", "text")
    return line((tr("the run waits for you: "), "note"), (way_to(command), "key"), told)


class RunScreen(PatientScreen[None]):
    """A screen that shows a run. The clock calls `pull`.

    The keys are those of the commands of the place `where`.
    """

    where: Where

    def __init__(self) -> None:
        super().__init__()
        self.footer = Footer()
        self.rekey()

    @property
    def workbench(self) -> Workbench:
        return cast("Workbench", self.app)

    def rekey(self) -> None:
        """Bind the keys of the current keymap."""
        rekey(self, self.where)

    def come_to(self, path: Path) -> bool:
        """Select a run that was just made; False on a screen that lists no runs."""
        return False

    def reword(self) -> None:
        """Rewrite the words of the screen, in another language or with other keys."""

    def pull(self, snapshot: RunSnapshot) -> None:
        raise NotImplementedError

    def typed(self, now: float, key: str) -> None:
        """Note that the person types; called for every such key, on every screen of the run."""

    def answerable(self, now: float) -> Ident | None:
        """Return the question that a key would answer now."""
        return None

    def say(self, text: str) -> None:
        """Show a message to the person, and store it."""
        self.workbench.notice(text)
        self.tell(text)

    def tell(self, text: str) -> None:
        """Show a message in the footer for a few seconds."""
        self.footer.say(text, self.workbench.wall_clock())

    def on_one_line_cut(self) -> None:
        self.say(tr("the paste was cut: a line here has at most {many} characters", many=MOST))

    async def action_move(self, how: str) -> None:
        """Move in the focused pane as the pane's own key does, under any keymap."""
        key = _MOVES[how]
        node = self.focused
        for binding in bindings_of(node, key) if node is not None else ():
            await self.app.run_action(binding.action, node)

    async def on_footer_called(self, message: Footer.Called) -> None:
        """Call the clicked key; beside the keys show all of them, on a message all messages."""
        here = self.workbench.commands_here()
        found = [c for c in here if c.keys_now and keymap.shown(c.keys_now[0]) == message.key]
        if message.message:
            await self.app.run_action("app.messages")
        elif found:
            named = (c for c in found if tr(c.label) == message.label)
            await self.workbench.carry_out(next(named, found[0]))
        else:
            await self.app.run_action("app.keys")

    def action_close(self) -> None:
        self.dismiss()

    def on_resize(self) -> None:
        self.call_after_refresh(self.workbench.pull_now)

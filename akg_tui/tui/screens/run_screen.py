"""The base of the screens that show runs, and what they may ask of the app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from akg_tui.tui.keyboard import rekey
from akg_tui.tui.textual_internals import BandedScreen, bindings_of
from akg_tui.tui.widgets.footer import Footer
from akg_tui.tui.widgets.text_line import MOST
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
    """What a screen, a pane or a group of actions asks of the app."""

    appearance: Appearance

    @property
    def handle(self) -> RunHandle | None:
        """The open run; None where there is none, or it is being closed."""

    def snapshot(self) -> RunSnapshot:
        """The run as it is; as it was, while the person looks at the past."""

    def snapshot_now(self) -> RunSnapshot:
        """The run as it is now, wherever the person looks."""

    def open_run(self, open_run: Callable[[], Awaitable[RunHandle]], *, past: bool = False) -> None:
        """Open a run from the list of runs."""

    def wall_clock(self) -> float:
        """Seconds since the epoch."""

    def steer(self, command: RunCommand, told: str) -> bool:
        """Send a command; say `told`, or why it was refused. True when it was taken."""

    def pull_now(self) -> None:
        """Show what is true now, whatever the clock's pace."""

    @property
    def vouched(self) -> Ident | None:
        """What a command that was called by its name or by a chord may answer, however much
        was typed to name it.
        """

    @property
    def typing(self) -> bool:
        """Whether the last key may be part of something written."""

    def say(self, text: str) -> None:
        """Tell the person something, on the screen in front, and keep it."""

    def notice(self, text: str) -> None:
        """Keep what is told, to be read again."""

    def open_line(self, text: str) -> None:
        """Open the ``:`` line with something written on it."""

    def commands_here(self) -> tuple[Command, ...]:
        """The commands of the screen that a person looks at, dialogs left out."""

    async def carry_out(self, command: Command, argument: str = "") -> bool:
        """Do what a command says, on the screen that it belongs to; False if nobody can."""


def waiting_line(snapshot: RunSnapshot | None, command: str) -> Line:
    """That the run waits for the person, with the command that leads to its card; nothing
    where it does not wait.
    """
    if snapshot is None or not snapshot.waits:
        return ()
    told = (f" {tr('leads to it')}", "text")
    return line((tr("the run waits for you: "), "note"), (way_to(command), "key"), told)


class RunScreen(BandedScreen[None]):
    """A screen that shows a run. `pull` is called whenever the clock finds it due.

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
        """Bind the keys of the keymap of now."""
        rekey(self, self.where)

    def come_to(self, path: Path) -> bool:
        """Select a run that was just made; False on a screen that lists no runs."""
        return False

    def reword(self) -> None:
        """Say its own words anew: in another language, or with other keys."""

    def pull(self, snapshot: RunSnapshot) -> None:
        raise NotImplementedError

    def typed(self, now: float, key: str) -> None:
        """The person is writing; called for every such key, wherever it goes."""

    def answerable(self, now: float) -> Ident | None:
        """The question that a key would answer now."""
        return None

    def say(self, text: str) -> None:
        """Tell the person something that can be read again later."""
        self.workbench.notice(text)
        self.tell(text)

    def tell(self, text: str) -> None:
        """Show something for a moment, in the footer."""
        self.footer.say(text, self.workbench.wall_clock())

    def on_one_line_cut(self) -> None:
        self.say(tr("the paste was cut: a line here has at most {many} characters", many=MOST))

    async def action_move(self, how: str) -> None:
        """Move in the focused pane as its own key does, whatever key the keymap gives."""
        key = _MOVES[how]
        node = self.focused
        for binding in bindings_of(node, key) if node is not None else ():
            await self.app.run_action(binding.action, node)

    def action_close(self) -> None:
        self.dismiss()

    def on_resize(self) -> None:
        self.call_after_refresh(self.workbench.pull_now)

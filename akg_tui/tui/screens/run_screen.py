"""What the deck and the review share: they watch one run and are pulled by one clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from akg_tui.tui.keyboard import bindings, rekeyed
from akg_tui.tui.screens.banded import Banded
from akg_tui.tui.widgets.footer import Footer
from akg_tui.tui.widgets.text_line import MOST
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.language import tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line, line

if TYPE_CHECKING:
    from textual.dom import DOMNode

    from akg_tui.core.commands import Command
    from akg_tui.tui.widgets.approval_card import Ident
    from akg_tui.view.controls.command_registry import Where

__all__ = ["Steering", "Watching", "bindings"]

_MOVES = {"down": "down", "up": "up", "page_down": "pagedown", "page_up": "pageup"}


class Steering(Protocol):
    """What a screen asks of the app: the run, and a way to tell the person something."""

    deck_layout: str

    def look(self) -> RunSnapshot: ...

    @property
    def run_path(self) -> str:
        """The folder of the run."""
        ...

    def wall_clock(self) -> float: ...

    def steer(self, command: Command, told: str) -> bool:
        """Send a command; say `told`, or why it was refused. True when it was taken."""
        ...

    def pull_now(self) -> None: ...

    @property
    def vouched(self) -> Ident | None:
        """What a command that was called by its name or by a chord may answer, however much
        was typed to name it.
        """
        ...

    def offered(self, setting: str, told: str) -> str:
        """`told`, and how a look that was chosen just now is kept for the next start."""
        ...

    def notice(self, text: str) -> None:
        """Keep what is told, to be read again."""
        ...

    @property
    def typing(self) -> bool:
        """Whether the last key may be part of something written."""
        ...


def called(look: RunSnapshot | None, command: str) -> Line:
    """That the run waits for the person, with the command that leads to its card; nothing
    where it does not wait.
    """
    if look is None or not look.waits:
        return ()
    told = (f" {tr('leads to it')}", "text")
    return line((tr("the run waits for you: "), "note"), (way_to(command), "key"), told)


class Watching(Banded[None]):
    """A screen that shows a run. `pull` is called whenever the clock finds it due."""

    def __init__(self) -> None:
        super().__init__()
        self.footer = Footer()
        if self._merged_bindings is not None:
            self._bindings = rekeyed(self._merged_bindings)

    @property
    def steering(self) -> Steering:
        return cast("Steering", self.app)

    def rekey(self) -> None:
        """Put the keys of now on those of its widgets that have commands of their own."""

    def holder_of(self, where: Where) -> DOMNode:
        """Who carries out the commands of a place: itself, or one of its widgets."""
        return self

    def reword(self) -> None:
        """Say its own words anew: in another language, or with other keys."""

    def pull(self, look: RunSnapshot) -> None:
        raise NotImplementedError

    def typed(self, now: float, key: str) -> None:
        """The person is writing; called for every such key, wherever it goes."""

    def answerable(self, now: float) -> Ident | None:
        """The question that a key would answer now."""
        return None

    def say(self, text: str) -> None:
        """Tell the person something that can be read again later."""
        self.steering.notice(text)
        self.tell(text)

    def tell(self, text: str) -> None:
        """Show something for a moment, in the footer."""
        self.footer.say(text, self.steering.wall_clock())

    def on_one_line_cut(self) -> None:
        self.say(tr("the paste was cut: a line here has at most {many} characters", many=MOST))

    async def action_move(self, how: str) -> None:
        """Move in the focused pane as its own key does, whatever key the keymap gives."""
        key = _MOVES[how]
        node = self.focused
        for binding in node._bindings.key_to_bindings.get(key, ()) if node is not None else ():
            await self.app.run_action(binding.action, node)

    def on_resize(self) -> None:
        self.call_after_refresh(self.steering.pull_now)

"""The base of every pane of the deck, and the factory that builds a pane from its declaration.

A pane shows one projection of a run and stores no state of the run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message

from akg_tui.tui.widgets.painted import FaultShowing
from akg_tui.view.controls.command_registry import named

if TYPE_CHECKING:
    from typing import Self

    from akg_tui.view.code_rows import Colours, Texts
    from akg_tui.view.controls.panes import PaneDeclaration
    from akg_tui.view.run_snapshot import RunSnapshot


class Pane(FaultShowing):
    """A pane of the deck; a base of the widget that draws it."""

    class Placed(Message):
        """A pane came onto the screen, or has another size."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

    @classmethod
    def declared(cls, declaration: PaneDeclaration, colours: Colours, texts: Texts) -> Self:
        """Build the pane of a declaration. The panes of a deck share `colours` and `texts`."""
        return cls()

    def entitle(self, title: str) -> None:
        """Put a title on the border, after the key that leads to the pane."""
        self.border_title = Content(named(f"pane.{self.id}", title))

    @property
    def placed(self) -> bool:
        """Whether the pane has the size that its rows are made for."""
        return bool(self.region)

    def on_resize(self) -> None:
        self.post_message(self.Placed(self))

    def pull(self, snapshot: RunSnapshot) -> None:
        """Show a snapshot. Called only while the pane is on screen."""
        raise NotImplementedError

    def see(self, snapshot: RunSnapshot) -> None:
        """Read the new part of a snapshot; called also while the pane is not on screen."""

    def cycle(self) -> bool:
        """Show the next unit or table; False if there is only one."""
        return False


def make(declaration: PaneDeclaration, colours: Colours, texts: Texts) -> Pane:
    """Build the widget that a declaration names."""
    module, _, name = declaration.widget.partition(":")
    kind: type[Pane] = getattr(import_module(f"akg_tui.tui.panes.{module}"), name)
    return kind.declared(declaration, colours, texts)

"""The base of every pane of the deck, and the factory that builds a pane from its declaration.

A pane shows one projection of a run and stores no state of the run. The deck knows it by its
name, and asks it for what a key means there; a pane without an answer returns None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from textual.content import Content
from textual.message import Message

from akg_tui.tui.widgets.line_view import Lead
from akg_tui.tui.widgets.painted import FaultShowing
from akg_tui.view.agent_rows import Agent, AgentList
from akg_tui.view.controls.command_registry import named
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from akg_tui.tui.evidence_reader import EvidenceReader
    from akg_tui.view.code_rows import Colours, Texts
    from akg_tui.view.controls.panes import PaneDeclaration
    from akg_tui.view.run_snapshot import RunSnapshot


@dataclass
class Shared:
    """What the panes of a deck share: texts and colours of kernels, evidence on them, and the
    agents. Of a kernel in several files `file` is the position of the one that is shown; `picked`
    is the key of the agent that is looked at.
    """

    colours: Colours
    texts: Texts
    evidence: EvidenceReader
    agents: AgentList = field(default_factory=AgentList)
    picked: str = ""
    file: int = 0

    @property
    def subagent(self) -> Agent | None:
        """The subagent that is looked at: the picked one, else the newest of those at work."""
        if self.picked in ("", self.agents.main.key):
            return self.agents.newest
        return self.agents.find(self.picked)


class Pane(FaultShowing):
    """A pane of the deck; a base of the widget that draws it. It is built with its id and what the
    panes share.
    """

    TITLE: ClassVar[str] = ""
    """The title of the pane in English; "" for a pane that makes its own."""

    class Placed(Message):
        """A pane came onto the screen, or has another size."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

    def reword(self) -> None:
        super().reword()
        if self.TITLE:
            self.entitle(tr(self.TITLE))

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

    def enter(self) -> str | Lead | None:
        """Open what is picked. Return a message, or where it leads; None: the deck zooms."""
        return None

    def come_to(self, place: object) -> str:
        """Go to the place that another pane leads to; return a message."""
        return ""

    def cycle(self) -> str | None:
        """Show the next unit or table; return a message."""
        return None

    def turn(self, step: int) -> str | None:
        """Go to the next change or reply, or back; return a message."""
        return None


def make(declaration: PaneDeclaration, shared: Shared) -> Pane:
    """Build the widget that a declaration names."""
    module, _, name = declaration.widget.partition(":")
    kind: Callable[[str, Shared], Pane] = getattr(
        import_module(f"akg_tui.tui.panes.{module}"), name
    )
    pane = kind(declaration.id, shared)
    pane.reword()
    return pane

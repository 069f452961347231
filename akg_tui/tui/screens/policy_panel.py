"""The panel of the policy: limits with what is used of them, goals, and the reason to stop.

Changes nothing itself: it answers with the line of a command, which the app carries out.
"""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from akg_tui.tui.screens.dialogs import Question
from akg_tui.tui.screens.run_screen import Workbench
from akg_tui.view.controls.policy_words import policy_rows, settings
from akg_tui.view.language import tr
from akg_tui.view.spans import BLANK, Line, line

PULL_S = 0.5


class PolicyPanel(Question[str]):
    """Dismissed with a line such as ``limits tokens=500000`` to finish, or with ""."""

    WIDTH = 84
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "mark(1)", show=False),
        Binding("up,k", "mark(-1)", show=False),
        Binding("enter", "change", show=False),
        Binding("plus", "more", show=False),
        Binding("escape,q,P", "dismiss('')", show=False),
    ]

    def __init__(self, workbench: Workbench) -> None:
        super().__init__(tr("policy: when the run ends"))
        self._workbench = workbench
        self._marked = 0

    def on_mount(self) -> None:
        self.set_interval(PULL_S, self.show)

    def told(self, room: int) -> list[Line]:
        snapshot = self._workbench.snapshot()
        state, now = snapshot.state, snapshot.now
        self._marked = max(0, min(self._marked, len(settings(state, now)) - 1))
        keys = line(("enter", "key"), f" {tr('changes it')}  ", ("+", "key"),
                    f" {tr('more rounds')}  ", ("esc", "key"))  # fmt: skip
        return [*policy_rows(state, now, self._marked, room), BLANK, keys]

    def action_mark(self, step: int) -> None:
        self._marked += step
        self.show()

    async def action_change(self) -> None:
        """Turn the marked switch, or leave with the line that changes the marked limit."""
        snapshot = self._workbench.snapshot()
        found = settings(snapshot.state, snapshot.now)[self._marked]
        if found.next:
            await self.app.run_action(f"app.limits({found.next!r})")
            self.show()
        else:
            self.dismiss(f"limits {found.word}={found.value}")

    def action_more(self) -> None:
        self.dismiss("more 20")

"""The gates, one by one: what each holds up, and whether it is set now."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from akg_tui.core import commands as cmd
from akg_tui.core.machine import Gate
from akg_tui.core.state import RunState
from akg_tui.tui.glyphs import DONE, IDLE
from akg_tui.tui.screens.watching import Steering
from akg_tui.tui.spans import BLANK, Line, line
from akg_tui.tui.widgets.painted import Rows

ABOUT: dict[Gate, str] = {
    Gate.PLAN: "a new plan waits before its first item is worked on",
    Gate.EDIT: "new code waits before it first runs",
    Gate.KEEP: "a candidate waits before it becomes the best",
    Gate.ASK: "the agent's questions come to you, not to their default",
    Gate.SCRIPT: "a script of the agent waits before it runs",
}


def gate_rows(state: RunState) -> tuple[Line, ...]:
    """A row for each gate, with its key."""
    rows: list[Line] = []
    for gate, about in ABOUT.items():
        on = gate in state.gates
        sign = (f"{DONE} on ", "verdict.keep") if on else (f"{IDLE} off", "muted")
        rows.append(
            line((f"{gate.value[0]} ", "key"), sign, (f"  {gate.value:<7}", "strong"), about)
        )
    return (
        *rows,
        BLANK,
        line(("a mode sets them all: ", "muted"), ("m", "key"), "  ", ("esc", "key")),
    )


class Gates(ModalScreen[None]):
    """A gate that is open already stays open when it is set off."""

    CSS_PATH = "../styles/gates.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(gate.value[0], f"set_gate('{gate.value}')", show=False) for gate in Gate),
        Binding("escape,q,M", "dismiss", show=False),
    ]

    def __init__(self, steering: Steering) -> None:
        super().__init__()
        self._steering = steering
        self.rows = Rows("gates")

    def compose(self) -> ComposeResult:
        yield self.rows

    def on_mount(self) -> None:
        self.rows.border_title = "gates: the run waits there for you"
        self._show()

    def _show(self) -> None:
        self.rows.show(gate_rows(self._steering.look().state))

    def action_set_gate(self, name: str) -> None:
        gate = Gate(name)
        on = gate not in self._steering.look().state.gates
        self._steering.steer(cmd.SetGate(gate, on), f"gate {gate}: {'on' if on else 'off'}")
        self._show()

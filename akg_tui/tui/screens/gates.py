"""The gates, one by one: what each holds up, and whether it is set now."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen

from akg_tui.core import commands as cmd
from akg_tui.core.machine import Gate
from akg_tui.core.state import RunState
from akg_tui.tui.commands import key_of
from akg_tui.tui.glyphs import DONE, IDLE
from akg_tui.tui.language import marked, tr, tr_in
from akg_tui.tui.screens.watching import Steering
from akg_tui.tui.spans import BLANK, Line, cells, line
from akg_tui.tui.widgets.painted import Rows

ABOUT: dict[Gate, str] = {
    Gate.PLAN: marked("a new plan waits before its first item is worked on"),
    Gate.EDIT: marked("new code waits before it first runs"),
    Gate.KEEP: marked("a candidate waits before it becomes the best"),
    Gate.ASK: marked("the agent's questions come to you, not to their default"),
    Gate.SCRIPT: marked("a script of the agent waits before it runs"),
}


def gate_rows(state: RunState) -> tuple[Line, ...]:
    """A row for each gate, with its key."""
    rows: list[Line] = []
    on, off = tr_in("gate", "on"), tr_in("gate", "off")
    wide = max(cells(on), cells(off))
    for gate, about in ABOUT.items():
        set_ = gate in state.gates
        word = on if set_ else off
        glyph, role = (DONE, "verdict.keep") if set_ else (IDLE, "muted")
        sign = (f"{glyph} {word}{' ' * (wide - cells(word))}", role)
        name = (f"  {gate.value:<7}", "strong")
        rows.append(line((f"{gate.value[0]} ", "key"), sign, name, tr(about)))
    mode = key_of("run.mode")
    sets = line((tr("a mode sets them all: "), "muted"), (mode, "key"), "  ") if mode else ()
    return (*rows, BLANK, (*sets, ("esc", "key")))


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
        self.rows.border_title = Content(tr("gates: the run waits there for you"))
        self._show()

    def _show(self) -> None:
        self.rows.show(gate_rows(self._steering.look().state))

    def action_set_gate(self, name: str) -> None:
        gate = Gate(name)
        on = gate not in self._steering.look().state.gates
        told = tr("gate {gate}: on", gate=gate) if on else tr("gate {gate}: off", gate=gate)
        self._steering.steer(cmd.SetGate(gate, on), told)
        self._show()

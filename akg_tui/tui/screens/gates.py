"""The dialog of gates and approval rules: set a gate, end a rule."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Gate
from akg_tui.tui.screens.dialogs import Question
from akg_tui.tui.screens.run_screen import Workbench
from akg_tui.view.controls.approval_rows import gate_rows, rule_rows
from akg_tui.view.language import tr
from akg_tui.view.spans import Line


class Gates(Question[None]):
    """Sets gates and ends rules. A gate that waits already still waits after it is set off."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(gate.value[0], f"set_gate('{gate.value}')", show=False) for gate in Gate),
        Binding("down", "mark(1)", show=False),
        Binding("up", "mark(-1)", show=False),
        Binding("x", "end_rule", show=False),
        Binding("escape,q,M", "dismiss", show=False),
    ]

    def __init__(self, workbench: Workbench) -> None:
        super().__init__(tr("gates: the run waits there for you"))
        self._workbench = workbench
        self._marked = 0

    def told(self, room: int) -> list[Line]:
        state = self._workbench.snapshot().state
        self._marked = max(0, min(self._marked, len(state.rules_in_force) - 1))
        return [*gate_rows(state, room), *rule_rows(state, self._marked, room)]

    def action_set_gate(self, name: str) -> None:
        gate = Gate(name)
        on = gate not in self._workbench.snapshot().state.gates
        told = tr("gate {gate}: on", gate=gate) if on else tr("gate {gate}: off", gate=gate)
        self._workbench.steer(cmd.SetGate(gate, on), told)
        self.show()

    def action_mark(self, step: int) -> None:
        self._marked += step
        self.show()

    def action_end_rule(self) -> None:
        rules = self._workbench.snapshot().state.rules_in_force
        if rules:
            number = rules[self._marked].number
            told = tr("rule {number} is ended: you are asked again", number=number)
            self._workbench.steer(cmd.RevokeRule(number), told)
            self.show()

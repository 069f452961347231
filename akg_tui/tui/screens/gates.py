"""The gates, one by one, and the rules: what holds the run up, and what answers for the person."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from akg_tui.core import commands as cmd
from akg_tui.core.machine import Gate
from akg_tui.core.rules import in_words
from akg_tui.core.state import Rule, RunState
from akg_tui.tui.glyphs import DONE, IDLE
from akg_tui.tui.screens.watching import Steering
from akg_tui.tui.spans import BLANK, Line, hang, line
from akg_tui.tui.widgets.painted import Rows
from akg_tui.tui.words import count

ABOUT: dict[Gate, str] = {
    Gate.PLAN: "a new plan waits before its first item is worked on",
    Gate.EDIT: "new code waits before it first runs",
    Gate.KEEP: "a candidate waits before it becomes the best",
    Gate.ASK: "the agent's questions come to you, not to their default",
    Gate.SCRIPT: "a script of the agent waits before it runs",
}
MOST_RULES = 4  # in sight at once
FRAME = 4  # columns: border and padding


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


def rule_rows(state: RunState, marked: int, room: int) -> tuple[Line, ...]:
    """The rules in force around the marked one, and how each was come by; none is no row."""
    rules = state.rules_in_force
    ended = len(state.rules) - len(rules)
    rows: list[Line] = []
    if rules:
        first = max(0, min(marked - 1, len(rules) - MOST_RULES))
        shown = rules[first : first + MOST_RULES]
        part = f" ({first + 1} to {first + len(shown)} here)" if len(shown) < len(rules) else ""
        head = f"in your place: {count(len(rules), 'rule')}{part}  "
        rows.append(line((head, "muted"), ("↑ ↓", "key"), " ", ("x", "key"), (" ends", "muted")))
        for at, rule in enumerate(shown, first):
            rows += _rule(rule, at == marked, room)
    if ended:
        rows.append(line((f"{count(ended, 'rule')} ended: the report lists all", "muted")))
    return (BLANK, *rows) if rows else ()


def _rule(rule: Rule, marked: bool, room: int) -> list[Line]:
    lead = line(("▸ " if marked else "  ", "accent"), (f"{rule.number} ", "strong"))
    said = f"{in_words(rule.scope)} (request {rule.gate}, used {rule.used}×)"
    return hang(said, room, lead, "strong" if marked else "text")


class Gates(ModalScreen[None]):
    """A gate that is open already stays open when it is set off."""

    CSS_PATH = "../styles/gates.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(gate.value[0], f"set_gate('{gate.value}')", show=False) for gate in Gate),
        Binding("down", "mark(1)", show=False),
        Binding("up", "mark(-1)", show=False),
        Binding("x", "end_rule", show=False),
        Binding("escape,q,M", "dismiss", show=False),
    ]

    def __init__(self, steering: Steering) -> None:
        super().__init__()
        self._steering = steering
        self._marked = 0
        self.rows = Rows("gates")

    def compose(self) -> ComposeResult:
        yield self.rows

    def on_mount(self) -> None:
        self.rows.border_title = "gates: the run waits there for you"
        self._show()

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        state = self._steering.look().state
        self._marked = max(0, min(self._marked, len(state.rules_in_force) - 1))
        room = max(20, min(78, self.app.size.width) - FRAME)
        rows = (*gate_rows(state), *rule_rows(state, self._marked, room))
        self.rows.styles.height = len(rows) + 2
        self.rows.show(rows)

    def action_set_gate(self, name: str) -> None:
        gate = Gate(name)
        on = gate not in self._steering.look().state.gates
        self._steering.steer(cmd.SetGate(gate, on), f"gate {gate}: {'on' if on else 'off'}")
        self._show()

    def action_mark(self, step: int) -> None:
        self._marked += step
        self._show()

    def action_end_rule(self) -> None:
        rules = self._steering.look().state.rules_in_force
        if rules:
            number = rules[self._marked].number
            told = f"rule {number} is ended: you are asked again"
            self._steering.steer(cmd.RevokeRule(number), told)
            self._show()

"""The gates, one by one, and the rules: what holds the run up, and what answers for the person."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Gate
from akg_tui.core.state import Rule, RunState
from akg_tui.tui.screens.banded import Dimming
from akg_tui.tui.screens.run_screen import Steering
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view.controls import approvals
from akg_tui.view.controls.command_registry import key_of
from akg_tui.view.formatting import count
from akg_tui.view.glyphs import DONE, IDLE
from akg_tui.view.language import marked, tr, tr_in
from akg_tui.view.spans import BLANK, Line, cells, hang, line

ABOUT: dict[Gate, str] = {
    Gate.PLAN: marked("a new plan waits before its first item is worked on"),
    Gate.EDIT: marked("new code waits before it first runs"),
    Gate.KEEP: marked("a candidate waits before it becomes the best"),
    Gate.ASK: marked("the agent's questions come to you, not to their default"),
    Gate.SCRIPT: marked("a script of the agent waits before it runs"),
}
MOST_RULES = 4  # in sight at once
FRAME = 4  # columns: border and padding


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


def rule_rows(state: RunState, at_row: int, room: int) -> tuple[Line, ...]:
    """The rules in force around the marked one, and how each was come by; none is no row."""
    rules = state.rules_in_force
    ended = len(state.rules) - len(rules)
    rows: list[Line] = []
    if rules:
        first = max(0, min(at_row - 1, len(rules) - MOST_RULES))
        shown = rules[first : first + MOST_RULES]
        head = tr("in your place: {rules}", rules=count(len(rules), "rule"))
        if len(shown) < len(rules):
            part = tr("{first} to {last} here", first=first + 1, last=first + len(shown))
            head = f"{head} ({part})"
        ends = (f" {tr('ends')}", "muted")
        rows.append(line((f"{head}  ", "muted"), ("↑ ↓", "key"), " ", ("x", "key"), ends))
        for at, rule in enumerate(shown, first):
            rows += _rule(rule, at == at_row, room)
    if ended:
        rows.append(
            line((tr("{rules} ended: the report lists all", rules=count(ended, "rule")), "muted"))
        )
    return (BLANK, *rows) if rows else ()


def _rule(rule: Rule, picked: bool, room: int) -> list[Line]:
    lead = line(("▸ " if picked else "  ", "accent"), (f"{rule.number} ", "strong"))
    told = {"scope": approvals.scope(rule.scope), "request": rule.gate, "times": rule.used}
    said = tr("{scope} (request {request}, used {times}×)", **told)
    return hang(said, room, lead, "strong" if picked else "text")


class Gates(ModalScreen[None], Dimming[None]):
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
        self.rows.border_title = Content(tr("gates: the run waits there for you"))
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
        told = tr("gate {gate}: on", gate=gate) if on else tr("gate {gate}: off", gate=gate)
        self._steering.steer(cmd.SetGate(gate, on), told)
        self._show()

    def action_mark(self, step: int) -> None:
        self._marked += step
        self._show()

    def action_end_rule(self) -> None:
        rules = self._steering.look().state.rules_in_force
        if rules:
            number = rules[self._marked].number
            told = tr("rule {number} is ended: you are asked again", number=number)
            self._steering.steer(cmd.RevokeRule(number), told)
            self._show()

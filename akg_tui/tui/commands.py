"""The one registry of what a person can do: bindings, footer, palette and help come from it.

Pure data. An action's name is a Textual action of the screen that the command belongs to,
or of the app where it begins with ``app.``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from akg_tui.core.state import RunState

Where = Literal["deck", "review", "everywhere"]


@dataclass(frozen=True)
class Command:
    """Something to do. `hint` is how the footer writes it; without one, it is never there."""

    id: str
    keys: tuple[str, ...]
    label: str
    help: str
    group: str
    action: str
    where: Where = "deck"
    hint: str = ""

    @property
    def shown_key(self) -> str:
        return " or ".join(_SHOWN.get(key, key) for key in self.keys)


_SHOWN = {
    "question_mark": "?",
    "f1": "F1",
    "ctrl+p": "^p",
    "ctrl+q": "^q",
    "escape": "esc",
    "minus": "-",
    "equals_sign": "=",
    "slash": "/",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
}

COMMANDS: tuple[Command, ...] = (
    Command(
        "run.pause", ("space",), "pause", "Pause after the work under way, or go on", "Run",
        "pause", hint="space",
    ),
    Command(
        "run.step", ("n",), "step", "Take one transition, in mode step or while paused", "Run",
        "step", hint="n",
    ),
    Command(
        "run.mode", ("m",), "mode", "Next mode of supervision: auto, review, step", "Run",
        "mode", hint="m",
    ),
    Command(
        "run.hint", ("i",), "hint", "Write a hint to the agent; enter sends, esc leaves", "Run",
        "hint", hint="i",
    ),
    Command(
        "ask.keep", ("alt+y",), "keep", "Keep the candidate that waits", "Review",
        "answer('keep')",
    ),
    Command(
        "ask.reject", ("alt+n",), "reject", "Reject the candidate that waits", "Review",
        "answer('reject')",
    ),
    Command(
        "review.open", ("r", "alt+d"), "review", "The candidate's diff against the best", "Review",
        "review", hint="r",
    ),
    Command(
        "review.keep", ("K",), "keep", "Keep this candidate", "Review",
        "answer('keep')", "review", hint="K",
    ),
    Command(
        "review.reject", ("D",), "reject", "Reject this candidate", "Review",
        "answer('reject')", "review", hint="D",
    ),
    Command(
        "review.comment", ("c",), "comment", "A comment that goes with the answer", "Review",
        "comment", "review", hint="c",
    ),
    Command(
        "review.next", ("n",), "next hunk", "The next change", "Review",
        "hunk(1)", "review", hint="n",
    ),
    Command(
        "review.previous", ("p",), "previous", "The change before", "Review",
        "hunk(-1)", "review", hint="p",
    ),
    Command(
        "review.close", ("escape", "q"), "close", "Leave without an answer", "Review",
        "close", "review", hint="esc",
    ),
    Command("pane.plan", ("1",), "plan", "The plan", "Panes", "pane('plan')"),
    Command(
        "pane.source", ("2",), "kernel", "The kernel as the agent has it now", "Panes",
        "pane('source')",
    ),
    Command("pane.chart", ("3",), "chart", "The chart of all attempts", "Panes", "pane('chart')"),
    Command("pane.log", ("4",), "log", "The agent's log", "Panes", "pane('log')"),
    Command("pane.best", ("5",), "best", "The best kernel so far", "Panes", "pane('best')"),
    Command(
        "pane.next", ("tab",), "next pane", "Focus the next pane", "Panes", "cycle_pane(1)",
        hint="tab",
    ),
    Command(
        "pane.zoom", ("z",), "zoom", "Give the focused pane all the room, or take it back",
        "Panes", "zoom", hint="z",
    ),
    Command("pane.home", ("g",), "top", "The first row", "Panes", "edge('home')"),
    Command("pane.end", ("G",), "bottom", "The last row", "Panes", "edge('end')"),
    Command(
        "log.follow", ("f",), "follow", "Keep the newest row of the log in sight", "Panes",
        "follow", hint="f",
    ),
    Command(
        "chart.cycle", ("c",), "chart unit",
        "The chart's unit: ratio, time, tokens, roofline; or the other table of attempts",
        "Panes", "cycle", hint="c",
    ),
    Command(
        "app.help", ("question_mark", "f1"), "help", "All keys", "Workbench",
        "app.keys", "everywhere", hint="?",
    ),
    Command(
        "app.palette", ("ctrl+p",), "palette", "Find a command by its name", "Workbench",
        "app.command_palette", "everywhere", hint="^p",
    ),
    Command(
        "app.quit", ("q", "ctrl+q"), "quit", "Leave; a run under way can be resumed", "Workbench",
        "app.leave", hint="q",
    ),
    Command("pane.attempts", ("6",), "tries", "The table of attempts", "Panes", "pane('attempts')"),
    Command(
        "pane.agents", ("7",), "agents", "The agents: who works, at what cost", "Panes",
        "pane('agents')",
    ),
    Command("pane.eval", ("8",), "eval", "The evaluation under way", "Panes", "pane('eval')"),
    Command(
        "pane.previous", ("shift+tab",), "pane before", "Focus the pane before", "Panes",
        "cycle_pane(-1)",
    ),
    Command(
        "pane.left", ("shift+left",), "left", "The pane to the left", "Panes", "beside('left')",
    ),
    Command(
        "pane.right", ("shift+right",), "right", "The pane to the right", "Panes",
        "beside('right')",
    ),
    Command("pane.up", ("shift+up",), "above", "The pane above", "Panes", "beside('up')"),
    Command("pane.down", ("shift+down",), "below", "The pane below", "Panes", "beside('down')"),
    Command(
        "pane.layout", ("w",), "layout", "Next layout: deck, kernel, agent, numbers", "Panes",
        "preset", hint="w",
    ),
    Command("pane.hide", ("minus",), "hide", "Hide the focused pane", "Panes", "hide"),
    Command("pane.show", ("equals_sign",), "show all", "Bring all panes back", "Panes", "show_all"),
    Command(
        "pane.open", ("enter",), "unfold", "Unfold what is picked, or fold it again", "Panes",
        "open",
    ),
    Command(
        "pane.find", ("slash",), "find", "Find words in the pane; :120 goes to a line", "Panes",
        "find", hint="/",
    ),
    Command(
        "source.line", ("l",), "line", "Go to a line of the kernel by its number", "Panes",
        "find(':')",
    ),
    Command(
        "pane.forward", ("right_square_bracket",), "next change",
        "The next change in the kernel, the next reply in the log", "Panes", "turn(1)",
    ),
    Command(
        "pane.back", ("left_square_bracket",), "change before",
        "The change before in the kernel, the reply before in the log", "Panes", "turn(-1)",
    ),
    Command(
        "source.blame", ("b",), "blame", "Which item wrote each line, and what it gained",
        "Panes", "blame", hint="b",
    ),
    Command("plan.add", ("a",), "add", "A new plan item", "Plan", "plan('add')"),
    Command("plan.edit", ("e",), "edit", "Other words for the picked item", "Plan", "plan('edit')"),
    Command("plan.drop", ("x",), "drop", "Drop the picked item", "Plan", "plan('drop')"),
    Command("plan.up", ("K",), "earlier", "Try the picked item earlier", "Plan", "plan('up')"),
    Command("plan.down", ("J",), "later", "Try the picked item later", "Plan", "plan('down')"),
    Command(
        "plan.pin", ("p",), "pin", "Pin the picked item: it comes next, only you drop it",
        "Plan", "plan('pin')",
    ),
)  # fmt: skip


def at(where: Where) -> tuple[Command, ...]:
    """The commands of one place, those that are everywhere included."""
    return tuple(c for c in COMMANDS if c.where in (where, "everywhere"))


def groups() -> dict[str, list[Command]]:
    """All commands by group, in the order in which help shows them."""
    grouped: dict[str, list[Command]] = {}
    for command in COMMANDS:
        grouped.setdefault(command.group, []).append(command)
    return grouped


def footer(where: Where, state: RunState | None) -> list[tuple[str, str]]:
    """Key and label of what the footer offers now, the most needed first."""
    offered = [command for command in at(where) if command.hint]
    over = state is not None and bool(state.finished)
    pairs: list[tuple[str, str]] = []
    for command in offered:
        label = command.label
        if over and command.group == "Run":
            continue
        if command.id == "run.pause" and state is not None and _held(state):
            label = "go on"
        pairs.append((command.hint, label))
    return pairs


def _held(state: RunState) -> bool:
    """Whether the pause key would let the run go on."""
    return state.paused or bool(state.api_failure)

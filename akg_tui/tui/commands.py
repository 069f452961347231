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
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "ctrl+p": "^p",
    "ctrl+z": "^z",
    "ctrl+q": "^q",
    "escape": "esc",
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
        "run.gates", ("M",), "gates", "Set the gates one by one: plan, edit, keep, ask, script",
        "Run", "gates", hint="M",
    ),
    Command(
        "run.hint", ("i",), "hint", "Write a hint to the agent; enter sends, esc leaves", "Run",
        "hint", hint="i",
    ),
    Command(
        "ask.keep", ("alt+y",), "yes", "Answer the card with yes: keep, approve, this choice",
        "Asked", "answer('keep')",
    ),
    Command(
        "ask.reject", ("alt+n",), "no", "Answer the card with no: reject", "Asked",
        "answer('reject')",
    ),
    Command(
        "ask.see", ("alt+d",), "see it", "What the card asks about: the diff, the script",
        "Asked", "see",
    ),
    Command(
        "ask.write", ("alt+w",), "write", "Write an answer to the agent's question", "Asked",
        "reply",
    ),
    Command("ask.choice", ("alt+down",), "choice", "Mark the next choice", "Asked", "choice(1)"),
    Command(
        "ask.choice_back", ("alt+up",), "choice before", "Mark the choice before", "Asked",
        "choice(-1)",
    ),
    Command(
        "ask.next", ("alt+s",), "next ask", "Show the next of several questions", "Asked",
        "next_ask",
    ),
    Command(
        "review.open", ("r",), "review", "The candidate's diff against the best", "Review",
        "review", hint="r",
    ),
    Command(
        "review.keep", ("K",), "keep", "Keep this candidate", "Review",
        "answer('keep')", "review", hint="K",
    ),
    Command(
        "review.reject", ("D",), "discard", "Discard this candidate", "Review",
        "answer('reject')", "review", hint="D",
    ),
    Command(
        "review.back", ("B",), "send back", "Send it back with the comment and what is left out",
        "Review", "answer('back')", "review", hint="B",
    ),
    Command(
        "review.comment", ("c",), "comment", "A comment that goes with the answer", "Review",
        "comment", "review", hint="c",
    ),
    Command(
        "review.leave_out", ("x",), "leave out", "Leave this hunk out, or take it in again",
        "Review", "leave_out", "review", hint="x",
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
        "review.split", ("s",), "split", "Old and new side by side, or in one column", "Review",
        "split", "review", hint="s",
    ),
    Command(
        "review.words", ("w",), "words", "Mark the words that changed, or not", "Review",
        "words", "review", hint="w",
    ),
    Command(
        "review.less", ("left_curly_bracket",), "less", "Fewer lines around each change", "Review",
        "context(-3)", "review",
    ),
    Command(
        "review.more", ("right_curly_bracket",), "more", "More lines around each change", "Review",
        "context(3)", "review",
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
        "pane.next", ("tab",), "next pane", "Focus the next pane; shift+tab the one before",
        "Panes", "app.focus_next", hint="tab",
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
        "chart.cycle", ("c",), "chart unit", "The chart's unit: ratio over the seed, or time",
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
        "app.stray", ("E",), "strays", "What libraries wrote past the screen", "Workbench",
        "app.strays", "everywhere",
    ),
    Command(
        "app.suspend", ("ctrl+z",), "suspend", "Stop for a while: the shell's fg goes on",
        "Workbench", "app.suspend_process", "everywhere",
    ),
    Command(
        "app.quit", ("q", "ctrl+q"), "quit", "Leave; a run under way can be resumed", "Workbench",
        "app.leave", hint="q",
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
        if command.id == "run.pause" and state is not None and state.paused:
            label = "go on"
        pairs.append((command.hint, label))
    return pairs

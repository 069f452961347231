"""The one registry of what a person can do: keys, footer, palette, ``:`` line, help and the
page of keys come from it.

Pure data. An action's name is a Textual action of the screen that the command belongs to,
or of the app where it begins with ``app.``. Which keys a command has now is told by the
keymap that is worn (`keymap.py`); the keys here are those of the default one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from akg_tui.tui import keymap
from akg_tui.tui.language import tr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from akg_tui.core.state import RunState

Where = Literal["deck", "review", "everywhere"]

THEMES, KEYMAPS, LANGUAGES = "$themes", "$keymaps", "$languages"


@dataclass(frozen=True)
class Argument:
    """What a command takes on the ``:`` line, given to its action as its last parameter.

    `choices` are words, or one of `THEMES`, `KEYMAPS`, `LANGUAGES` for those that there are
    now. A `free` argument is any text; without one the command asks for it.
    """

    name: str
    choices: tuple[str, ...] = ()
    free: bool = False


@dataclass(frozen=True)
class Command:
    """Something to do. With a `hint` the footer offers it."""

    id: str
    keys: tuple[str, ...]
    label: str
    help: str
    group: str
    action: str
    where: Where = "deck"
    hint: str = ""
    argument: Argument | None = None

    @property
    def keys_now(self) -> tuple[str, ...]:
        """The keys that the keymap of now gives it."""
        return keymap.keys_of(self.id, self.keys)

    @property
    def shown_key(self) -> str:
        """Its keys as help writes them; empty where it has none."""
        return f" {tr('or')} ".join(keymap.shown(key) for key in self.keys_now)


COPIES = ("view", "pane", "kernel", "best")
EXPORTS = ("svg", "text")

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
        "run.mode_to", (), "mode to", "A mode of supervision by its name", "Run",
        "app.mode_named", "everywhere", argument=Argument("mode", ("auto", "review", "step")),
    ),
    Command(
        "run.tell", (), "tell", "A hint to the agent, on this line", "Run",
        "app.tell", "everywhere", argument=Argument("text", free=True),
    ),
    Command(
        "run.stop", (), "stop", "End the run; its best kernel is measured afresh and reported",
        "Run", "app.stop_run", "everywhere",
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
        "pane.down", ("down",), "down", "One row on", "Panes", "move('down')", "everywhere",
    ),
    Command(
        "pane.up", ("up",), "up", "One row back", "Panes", "move('up')", "everywhere",
    ),
    Command(
        "pane.page_down", ("pagedown",), "page on", "One page on", "Panes",
        "move('page_down')", "everywhere",
    ),
    Command(
        "pane.page_up", ("pageup",), "page back", "One page back", "Panes",
        "move('page_up')", "everywhere",
    ),
    Command(
        "log.follow", ("f",), "follow", "Keep the newest row of the log in sight", "Panes",
        "follow", hint="f",
    ),
    Command(
        "chart.cycle", ("c",), "chart unit", "The chart's unit: ratio over the seed, or time",
        "Panes", "cycle", hint="c",
    ),
    Command(
        "copy.view", ("y",), "copy", "Copy to the clipboard what the focused pane shows now",
        "Copy and export", "app.copy('view')", "everywhere",
        argument=Argument("what", COPIES, free=True),
    ),
    Command(
        "copy.pane", ("Y",), "copy pane", "Copy all rows of the focused pane, without tags",
        "Copy and export", "app.copy('pane')", "everywhere",
    ),
    Command(
        "copy.kernel", (), "copy kernel", "Copy the kernel under work, without tags",
        "Copy and export", "app.copy('kernel')", "everywhere",
    ),
    Command(
        "export.screen", (), "export screen", "Write the screen to the run folder",
        "Copy and export", "app.export('screen')", "everywhere",
        argument=Argument("format", EXPORTS),
    ),
    Command(
        "export.pane", ("X",), "export pane", "Write the focused pane to the run folder",
        "Copy and export", "app.export('pane')", "everywhere",
        argument=Argument("format", EXPORTS),
    ),
    Command(
        "look.theme", (), "theme", "Change the colours", "Look", "app.theme_named", "everywhere",
        argument=Argument("name", (THEMES,)),
    ),
    Command(
        "look.keymap", (), "keymap", "Change the keys", "Look", "app.keymap_named", "everywhere",
        argument=Argument("name", (KEYMAPS,)),
    ),
    Command(
        "look.language", (), "language", "Change the language", "Look", "app.language_named",
        "everywhere", argument=Argument("name", (LANGUAGES,)),
    ),
    Command(
        "look.glyphs", (), "glyphs", "Signs of Unicode, or of ASCII only", "Look",
        "app.glyphs_named", "everywhere", argument=Argument("name", ("unicode", "ascii")),
    ),
    Command(
        "look.motion", (), "motion", "Redraw up to 30 times a second, or at most 4 times", "Look",
        "app.motion_named", "everywhere", argument=Argument("name", ("full", "reduced")),
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
        "app.line", ("colon",), "command line", "Type a command with its argument", "Workbench",
        "app.command_line", "everywhere", hint=":",
    ),
    Command(
        "app.quit", ("q", "ctrl+q"), "quit", "Leave; a run under way can be resumed", "Workbench",
        "app.leave", hint="q",
    ),
)  # fmt: skip


_ADDED: list[Command] = []


def add(*commands: Command) -> None:
    """Declare commands from the module that carries them out. Once for each id."""
    known = {command.id for command in every()}
    for command in commands:
        if command.id in known:
            raise ValueError(f"the command {command.id} is declared twice")
        known.add(command.id)
        _ADDED.append(command)


def every() -> tuple[Command, ...]:
    """All commands."""
    return (*COMMANDS, *_ADDED)


def at(where: Where) -> tuple[Command, ...]:
    """The commands of one place, those that are everywhere included."""
    return tuple(c for c in every() if c.where in (where, "everywhere"))


def meet(one: Where, other: Where) -> bool:
    """Whether commands of two places can be on screen together."""
    return one == other or "everywhere" in (one, other)


def defaults() -> dict[str, tuple[str, ...]]:
    """The keys of the default keymap."""
    return {command.id: command.keys for command in every()}


def clashes(commands: Iterable[Command]) -> list[tuple[Command, Command, str]]:
    """Pairs of commands that one key would call, the key's chord being the first's.

    A key that begins the other's chord clashes with it too.
    """
    listed = list(commands)
    found: list[tuple[Command, Command, str]] = []
    for number, one in enumerate(listed):
        for other in listed[number + 1 :]:
            if meet(one.where, other.where):
                found += [
                    (one, other, key)
                    for key in one.keys_now
                    if any(keymap.covers(key, their) for their in other.keys_now)
                ]
    return found


def groups() -> dict[str, list[Command]]:
    """All commands by group, in the order in which help shows them."""
    grouped: dict[str, list[Command]] = {}
    for command in every():
        grouped.setdefault(command.group, []).append(command)
    return grouped


def footer(where: Where, state: RunState | None) -> list[tuple[str, str]]:
    """Key and label of what the footer offers now, the most needed first."""
    over = state is not None and bool(state.finished)
    pairs: list[tuple[str, str]] = []
    for command in at(where):
        keys = command.keys_now
        if not command.hint or not keys or (over and command.group == "Run"):
            continue
        label = tr(command.label)
        if command.id == "run.pause" and state is not None and state.paused:
            label = tr("go on")
        pairs.append((keymap.shown(keys[0]), label))
    return pairs

"""The one registry of what a person can do: keys, footer, palette, ``:`` line, help and the
page of keys come from it.

Pure data. An action's name is a Textual action of the screen that the command belongs to,
or of the app where it begins with ``app.``. Which keys a command has now is told by the
keymap in use (`keymap.py`); the keys here are those of the default one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from akg_tui.view.controls import keymap, panes
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from akg_tui.core.state import RunState

Where = Literal["deck", "agents", "review", "past", "rounds", "runs", "everywhere"]

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


SUBAGENTS = "Subagents"
ASKED = "Asked"
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
        "run.gates", ("M",), "gates", "Set the gates one by one: plan, edit, keep, ask, script",
        "Run", "gates", hint="M",
    ),
    Command(
        "run.rules", (), "rules", "The rules that answer in your place; x ends one", "Run",
        "gates",
    ),
    Command(
        "run.revoke", (), "revoke", "End a rule by its number: what it approves is asked again",
        "Run", "app.revoke", "everywhere", argument=Argument("rule", free=True),
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
        "run.limits", (), "limits", "Other limits from now on, as rounds=40 hours=2 cost=5", "Run",
        "app.limits", argument=Argument("limits", free=True),
    ),
    Command(
        "run.replan", (), "replan", "Call for a new plan; the reason goes to the agent", "Run",
        "app.demand('replan')", argument=Argument("reason", free=True),
    ),
    Command(
        "run.diagnose", (), "diagnose", "Call for a diagnosis; the reason goes to the agent",
        "Run", "app.demand('diagnose')", argument=Argument("reason", free=True),
    ),
    Command(
        "plan.adopt", (), "adopt", "Take a hand edit of PLAN.md over, after a question", "Plan",
        "app.adopt",
    ),
    Command(
        "run.report", ("R",), "report", "Write the run's report", "Run", "app.report",
    ),
    Command(
        "run.hint", ("i",), "hint", "Write a hint to the agent; enter sends, esc leaves", "Run",
        "hint", hint="i",
    ),
    Command(
        "ask.keep", ("alt+y", "ctrl+g y"), "yes",
        "Answer the card with yes: keep, approve, this choice", ASKED, "answer('keep')",
    ),
    Command(
        "ask.reject", ("alt+n", "ctrl+g n"), "no", "Answer the card with no: reject", ASKED,
        "answer('reject')",
    ),
    Command(
        "ask.always", ("alt+a", "ctrl+g a"), "always",
        "Answer the card with yes, and all such requests after it by a rule", ASKED,
        "answer('always')",
    ),
    Command(
        "ask.see", ("alt+d", "ctrl+g d"), "see it",
        "What the card asks about: the diff, the script", ASKED, "see",
    ),
    Command(
        "ask.write", ("alt+w", "ctrl+g w"), "write", "Write an answer to the agent's question",
        ASKED, "reply",
    ),
    Command(
        "ask.choice", ("alt+down", "ctrl+g down"), "choice", "Mark the next choice", ASKED,
        "choice(1)",
    ),
    Command(
        "ask.choice_back", ("alt+up", "ctrl+g up"), "choice before", "Mark the choice before",
        ASKED, "choice(-1)",
    ),
    Command(
        "ask.next", ("alt+s", "ctrl+g s"), "next ask", "Show the next of several questions", ASKED,
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
    *(
        Command(f"pane.{each.id}", (each.key,), each.title, each.help, "Panes",
                f"pane('{each.id}')")
        for each in panes.PANES
    ),
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
        "chart.cycle", ("c",), "chart unit",
        "The chart's unit: ratio, time, tokens, roofline; or the other table of attempts",
        "Panes", "cycle", hint="c",
    ),
    Command(
        "past.enter", ("T",), "past", "Time travel: look at any moment of the run", "Time",
        "app.travel", hint="T",
    ),
    Command(
        "past.live", ("L",), "live", "Back from the past to what is true now", "Time",
        "app.live", "past", hint="L",
    ),
    Command(
        "past.next", ("right",), "event", "The next event", "Time",
        "app.past('event', 1)", "past", hint="← →",
    ),
    Command("past.previous", ("left",), "event back", "The event before", "Time",
            "app.past('event', -1)", "past"),
    Command(
        "past.next_round", ("shift+right",), "round", "The end of the next round", "Time",
        "app.past('round', 1)", "past", hint="⇧← ⇧→",
    ),
    Command(
        "past.previous_round", ("shift+left",), "round back", "The end of the round before",
        "Time", "app.past('round', -1)", "past",
    ),
    Command(
        "past.play", ("space",), "play", "Play from here, or stand still", "Time",
        "app.past('play')", "past", hint="space",
    ),
    Command(
        "past.faster", ("plus",), "faster", "Play faster: 1×, 4×, 16×", "Time",
        "app.past('speed', 1)", "past", hint="+ -",
    ),
    Command("past.slower", ("minus",), "slower", "Play slower", "Time",
            "app.past('speed', -1)", "past"),
    Command("past.on", ("pagedown",), "on", "A twentieth of the run on", "Time",
            "app.past('page', 1)", "past"),
    Command("past.back", ("pageup",), "back", "A twentieth of the run back", "Time",
            "app.past('page', -1)", "past"),
    Command("past.first", ("home",), "first", "The first event", "Time",
            "app.past('edge', -1)", "past"),
    Command("past.last", ("end",), "last", "The last event", "Time",
            "app.past('edge', 1)", "past"),
    Command(
        "past.fork", ("F",), "fork here", "A new run from the round that is looked at", "Time",
        "app.fork", "past", hint="F",
    ),
    Command(
        "past.compare", ("v",), "compare rounds", "Two rounds side by side, with measurements",
        "Time", "app.rounds", hint="v",
    ),
    Command(
        "run.undo", ("u",), "undo KEEP", "Take the last KEEP back; the attempt stays in history",
        "Run", "app.undo", hint="u",
    ),
    Command(
        "rounds.right", ("right",), "right side", "Another round on the right", "Compare",
        "side('right', 1)", "rounds", hint="← →",
    ),
    Command("rounds.right_back", ("left",), "right back", "The round before on the right",
            "Compare", "side('right', -1)", "rounds"),
    Command(
        "rounds.left", ("shift+right",), "left side", "Another round on the left", "Compare",
        "side('left', 1)", "rounds", hint="⇧← ⇧→",
    ),
    Command("rounds.left_back", ("shift+left",), "left back", "The round before on the left",
            "Compare", "side('left', -1)", "rounds"),
    Command("rounds.next", ("n",), "next change", "The next change", "Compare",
            "hunk(1)", "rounds", hint="n"),
    Command("rounds.previous", ("p",), "previous", "The change before", "Compare",
            "hunk(-1)", "rounds", hint="p"),
    Command("rounds.fold", ("z",), "whole", "The whole kernel, or the changes only", "Compare",
            "fold", "rounds", hint="z"),
    Command("rounds.close", ("escape", "q"), "close", "Back", "Compare",
            "close", "rounds", hint="esc"),
    Command("runs.open", ("enter",), "open", "Look at the run; steer it where it is at work",
            "Runs", "open", "runs", hint="enter"),
    Command("runs.resume", ("r",), "resume", "Go on with the run", "Runs",
            "resume", "runs", hint="r"),
    Command("runs.new", ("n",), "new", "Begin a run: of a sample, of a task, of your kernel",
            "Runs", "new", "runs", hint="n"),
    Command("runs.filter", ("slash",), "find", "Show the runs that have some words", "Runs",
            "filter", "runs", hint="/"),
    Command("runs.sort", ("s",), "sort", "By the newest, the best, the name or the state", "Runs",
            "sort", "runs", hint="s"),
    Command("runs.mark", ("space",), "mark", "Mark a run, to compare two", "Runs",
            "mark", "runs", hint="space"),
    Command("runs.compare", ("c",), "compare", "The best kernels of the two marked runs", "Runs",
            "compare", "runs", hint="c"),
    Command("runs.fork", ("F",), "fork", "A new run from one of its rounds", "Runs",
            "fork", "runs", hint="F"),
    Command("runs.report", ("R",), "report", "Write the run's report", "Runs",
            "report", "runs", hint="R"),
    Command("runs.discard", ("D",), "discard", "Move the run to the trash, after a question",
            "Runs", "discard", "runs", hint="D"),
    Command("runs.clear", ("escape",), "all", "Show all runs again, none marked", "Runs",
            "clear", "runs"),
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
        "look.theme", (), "theme", "Change the colours", "Look", "app.setting('theme')",
        "everywhere", argument=Argument("name", (THEMES,)),
    ),
    Command(
        "look.keymap", (), "keymap", "Change the keys", "Look", "app.setting('keymap')",
        "everywhere", argument=Argument("name", (KEYMAPS,)),
    ),
    Command(
        "look.language", (), "language", "Change the language", "Look", "app.setting('lang')",
        "everywhere", argument=Argument("name", (LANGUAGES,)),
    ),
    Command(
        "look.glyphs", (), "glyphs", "Signs of Unicode, or of ASCII only", "Look",
        "app.setting('glyphs')", "everywhere", argument=Argument("name", ("unicode", "ascii")),
    ),
    Command(
        "look.motion", (), "motion", "Redraw up to 30 times a second, or at most 4 times", "Look",
        "app.setting('motion')", "everywhere", argument=Argument("name", ("full", "reduced")),
    ),
    Command(
        "look.save", (), "save looks", "Keep theme, keys, language, signs, motion, layout and "
        "order of the runs for the next start, in your config.toml", "Look", "app.save_settings",
        "everywhere",
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
        "app.messages", (), "messages", "What the workbench has told you, the newest last",
        "Workbench", "app.messages", "everywhere",
    ),
    Command(
        "app.suspend", ("ctrl+z",), "suspend", "Stop for a while: the shell's fg goes on",
        "Workbench", "app.suspend_process", "everywhere",
    ),
    Command(
        "app.line", ("colon",), "command line", "Type a command with its argument", "Workbench",
        "app.command_line", "everywhere", hint=":",
    ),
    Command(
        "app.quit", ("q", "ctrl+q"), "quit", "Leave; a run under way can be resumed", "Workbench",
        "app.leave", hint="q",
    ),
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
    Command("pane.above", ("shift+up",), "above", "The pane above", "Panes", "beside('up')"),
    Command("pane.below", ("shift+down",), "below", "The pane below", "Panes", "beside('down')"),
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
    Command(
        "subagent.peek", ("o",), "peek",
        "A subagent in a drawer over the right side, or the drawer away", SUBAGENTS,
        "subagent('drawer')", hint="o",
    ),
    Command(
        "subagent.tile", ("t",), "tile", "A subagent in a tile of its own, or the tile away",
        SUBAGENTS, "subagent('tile')", hint="t",
    ),
    Command(
        "subagent.full", ("O",), "full", "A subagent on the whole deck, or as it was before",
        SUBAGENTS, "subagent('full')", hint="O",
    ),
    Command(
        "subagent.message", ("m",), "message", "Write to this subagent alone; it reads it next",
        SUBAGENTS, "subagent('message')", "agents", hint="m",
    ),
    Command(
        "subagent.stop", ("x",), "stop subagent", "Stop this subagent, after a question",
        SUBAGENTS, "subagent('stop')", "agents", hint="x",
    ),
    Command(
        "subagent.next", ("greater_than_sign",), "next subagent",
        "The subagent that began after this one, in its place", SUBAGENTS, "subagent('next')",
        "agents", hint="< >",
    ),
    Command(
        "subagent.previous", ("less_than_sign",), "subagent before",
        "The subagent that began before this one, in its place", SUBAGENTS,
        "subagent('previous')", "agents",
    ),
    Command(
        "subagent.close", ("escape",), "close", "Close this popout; the subagent works on",
        SUBAGENTS, "subagent('close')", "agents", hint="esc",
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


_ADDED: list[Command] = []
_BY_ID = {command.id: command for command in COMMANDS}


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


def within(where: Where) -> tuple[Command, ...]:
    """The commands of a place within a place: by name they are had in all of it, their keys
    count where the focus is in them.
    """
    return tuple(c for c in every() if where == "deck" and c.where == "agents")


def meet(one: Where, other: Where) -> bool:
    """Whether one key cannot be had by a command of each of two places.

    The past is a place within the deck, and so are its agents: with the focus there, their
    keys go before the deck's, and with the focus elsewhere they are not there. Those of the
    past go before the ones that are everywhere too.
    """
    return one == other or ("everywhere" in (one, other) and "past" not in (one, other))


def _clash(one: Command, other: Command) -> bool:
    """Whether one key for both would be one too many. A key that answers the card has no other
    meaning in the review either: that may close under the finger that is going to press it.
    """
    answers = ASKED in (one.group, other.group) and "review" in (one.where, other.where)
    return answers or meet(one.where, other.where)


def key_of(command_id: str) -> str:
    """The first key of a command as a person reads it; empty where it has none."""
    keys = _command(command_id).keys_now
    return keymap.shown(keys[0]) if keys else ""


def chord_of(command_id: str) -> str:
    """The first chord of a command, keys one after the other, as a person reads it; empty
    where it has none.
    """
    keys = next((key for key in _command(command_id).keys_now if " " in key), "")
    return keymap.shown(keys) if keys else ""


def way_to(command_id: str) -> str:
    """How a person calls a command now: its first key, or its name on the ``:`` line."""
    return key_of(command_id) or f":{_command(command_id).label.replace(' ', '-')}"


def named(command_id: str, title: str) -> str:
    """The title of what a command goes to, behind its key where it has one."""
    return f"{key_of(command_id)} {title}".lstrip()


def _command(command_id: str) -> Command:
    return _BY_ID.get(command_id) or next(c for c in _ADDED if c.id == command_id)


def defaults() -> dict[str, tuple[str, ...]]:
    """The keys of the default keymap."""
    return {command.id: command.keys for command in every()}


def clashes(commands: Iterable[Command]) -> list[tuple[Command, Command, str]]:
    """Pairs of commands that one key would call, the key's chord being the first's.

    A key that begins the other's chord clashes with it too.
    """
    listed = list(commands)
    # Chords that clash begin with the same key: only those are compared, as this is looked at
    # before the first frame.
    alike: dict[str, list[tuple[int, int, str]]] = {}
    for number, command in enumerate(listed):
        for place, key in enumerate(command.keys_now):
            alike.setdefault(key.partition(" ")[0], []).append((number, place, key))
    found = {
        (one, other, place): key
        for keys in alike.values()
        for one, place, key in keys
        for other, _, their in keys
        if one < other and _clash(listed[one], listed[other]) and keymap.covers(key, their)
    }
    return [(listed[one], listed[other], found[one, other, k]) for one, other, k in sorted(found)]


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
    for command in _footed(where):
        keys = command.keys_now
        if not command.hint or not keys or (over and command.group == "Run"):
            continue
        label = tr(command.label)
        if command.id == "run.pause" and state is not None and _held(state):
            label = tr("go on")
        pairs.append((keymap.shown(keys[0]), label))
    return pairs


def _footed(where: Where) -> tuple[Command, ...]:
    """What the footer may offer. Among the agents their own keys come first."""
    if where != "agents":
        return tuple(c for c in at(where) if c.group != SUBAGENTS)
    own = tuple(c for c in every() if c.group == SUBAGENTS)
    taken = {key for command in within("deck") for key in command.keys_now}
    deck = (c for c in at("deck") if c.group != SUBAGENTS)
    return (*own, *(c for c in deck if not taken & set(c.keys_now)))


def _held(state: RunState) -> bool:
    """Whether the pause key would let the run go on."""
    return state.paused or bool(state.api_failure)

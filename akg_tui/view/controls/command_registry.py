"""The only registry of commands, from which keys, footer, palette, ``:`` line, help and the
page of keys are made.

Pure data. An action's name is a Textual action of the screen that the command belongs to,
or of the app where it begins with ``app.``. The keymap in use (`keymap.py`) gives a command
its keys; the keys here are those of the default keymap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from akg_tui.view.controls import keymap, panes
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from akg_tui.core.state import RunState

Where = Literal["deck", "agents", "review", "past", "rounds", "runs", "everywhere"]

THEMES, KEYMAPS, LANGUAGES = "$themes", "$keymaps", "$languages"


@dataclass(frozen=True)
class Argument:
    """The argument of a command on the ``:`` line, passed to its action as the last parameter.

    `choices` are words, or one of `THEMES`, `KEYMAPS`, `LANGUAGES` for the names available at
    run time. A `free` argument is any text; a command called without it asks for it.
    """

    name: str
    choices: tuple[str, ...] = ()
    free: bool = False


@dataclass(frozen=True)
class Command:
    """A command of the workbench. The footer shows a `footed` command."""

    id: str
    keys: tuple[str, ...]
    label: str
    help: str
    action: str
    group: str
    where: Where = "deck"
    footed: bool = False
    argument: Argument | None = None

    @property
    def name(self) -> str:
        """The name of the command on the ``:`` line: its label with hyphens for blanks."""
        return self.label.replace(" ", "-")

    @property
    def keys_now(self) -> tuple[str, ...]:
        """The keys of the command in the keymap in use."""
        return keymap.keys_of(self.id, self.keys)

    @property
    def shown_key(self) -> str:
        """The keys of the command as help writes them; empty where it has none."""
        return f" {tr('or')} ".join(keymap.shown(key) for key in self.keys_now)


SUBAGENTS = "Subagents"
ASKED = "Asked"
COPIES = ("view", "pane", "kernel", "best")

_run = partial(Command, group="Run")
_plan = partial(Command, group="Plan")
_ask = partial(Command, group=ASKED)
_review = partial(Command, group="Review", where="review")
_pane = partial(Command, group="Panes")
_past = partial(Command, group="Time", where="past")
_rounds = partial(Command, group="Compare", where="rounds")
_runs = partial(Command, group="Runs", where="runs")
_copy = partial(Command, group="Copy and export", where="everywhere")
_look = partial(Command, group="Look", where="everywhere")
_app = partial(Command, group="Workbench", where="everywhere")
_subagent = partial(Command, group=SUBAGENTS, where="agents")

COMMANDS: tuple[Command, ...] = (
    _run("run.pause", ("space",), "pause", "Pause after the work under way, or go on", "pause",
         footed=True),
    _run("run.step", ("n",), "step", "Take one transition, in mode step or while paused", "step",
         footed=True),
    _run("run.mode", ("m",), "mode", "Next mode of supervision: auto, review, step", "mode",
         footed=True, argument=Argument("mode", ("auto", "review", "step"))),
    _run("run.gates", ("M",), "gates",
         "Set the gates one by one: plan, edit, keep, ask, script; end rules that answer for you",
         "gates", footed=True),
    _run("run.stop", (), "stop", "End the run; its best kernel is measured afresh and reported",
         "app.stop_run", where="everywhere"),
    _run("run.detach", (), "detach",
         "Leave; the run goes on without this terminal",
         "app.detach"),
    _run("run.take", (), "take", "Steer the run in place of the process that steers it now",
         "app.steering('take')"),
    _run("run.give", (), "hand over", "Steer the run no longer: any other process may",
         "app.steering('give')"),
    _run("run.skip_compile", ("S",), "skip compile",
         "Leave torch.compile out, which is measured after the first KEEP", "app.skip_compile"),
    _run("run.new", (), "new",
         "A new session: the agent begins a new conversation, tokens count from zero",
         "app.new_session"),
    _run("run.limits", (), "limits", "Other limits from now on, as rounds=40 hours=+2 cost=none",
         "app.limits", argument=Argument("limits", free=True)),
    _run("run.policy", ("P",), "policy",
         "When the run ends: limits with what is used of them, goals; each can be changed",
         "app.policy", footed=True),
    _run("run.more", ("plus",), "more", "More rounds; a run that is over goes on as the same run",
         "app.more", argument=Argument("rounds", free=True)),
    _run("run.replan", (), "replan", "Call for a new plan; the reason goes to the agent",
         "app.demand('replan')", argument=Argument("reason", free=True)),
    _run("run.diagnose", (), "diagnose", "Call for a diagnosis; the reason goes to the agent",
         "app.demand('diagnose')", argument=Argument("reason", free=True)),
    _plan("plan.remeasure", (), "remeasure",
          "Measure a kernel again that was not proved faster, by its item or its attempt",
          "app.remeasure", argument=Argument("item", free=True)),
    _plan("plan.adopt", (), "adopt", "Take a hand edit of PLAN.md over, after a question",
          "app.adopt"),
    _run("run.report", ("R",), "report", "Write the run's report", "app.report"),
    _run("run.hint", ("i",), "hint", "Write a hint to the agent; enter sends, esc leaves", "hint",
         footed=True, argument=Argument("text", free=True)),
    _ask("ask.keep", ("alt+y", "ctrl+g y"), "yes",
         "Answer the card with yes: keep, approve, this choice", "answer('keep')"),
    _ask("ask.reject", ("alt+n", "ctrl+g n"), "no", "Answer the card with no: reject",
         "answer('reject')"),
    _ask("ask.always", ("alt+a", "ctrl+g a"), "always",
         "Answer the card with yes, and all such requests after it by a rule", "answer('always')"),
    _ask("ask.see", ("alt+d", "ctrl+g d"), "see it",
         "Show the diff or the script that the card asks about", "see"),
    _ask("ask.write", ("alt+w", "ctrl+g w"), "write", "Write an answer to the agent's question",
         "reply"),
    _ask("ask.choice", ("alt+down", "ctrl+g down"), "choice", "Mark the next choice", "choice(1)"),
    _ask("ask.choice_back", ("alt+up", "ctrl+g up"), "choice before", "Mark the choice before",
         "choice(-1)"),
    _ask("ask.next", ("alt+s", "ctrl+g s"), "next ask", "Show the next of several questions",
         "next_ask"),
    _review("review.open", ("r",), "review", "The candidate's diff against the best", "review",
            where="deck", footed=True),
    _review("review.keep", ("K",), "keep", "Keep this candidate", "answer('keep')", footed=True),
    _review("review.reject", ("D",), "discard", "Discard this candidate", "answer('reject')",
            footed=True),
    _review("review.back", ("B",), "send back",
            "Send it back with a comment and what is left out", "send_back", footed=True),
    _review("review.comment", ("c",), "comment", "A comment that goes with the answer", "comment",
            footed=True),
    _review("review.leave_out", ("x",), "leave out", "Leave this hunk out, or take it in again",
            "leave_out", footed=True),
    _review("review.next", ("n",), "next hunk", "The next change", "hunk(1)", footed=True),
    _review("review.previous", ("p",), "previous", "The change before", "hunk(-1)", footed=True),
    _review("review.split", ("s",), "split", "Old and new side by side, or in one column", "split",
            footed=True),
    _review("review.less", ("left_curly_bracket",), "less", "Fewer lines around each change",
            "context(-3)"),
    _review("review.more", ("right_curly_bracket",), "more", "More lines around each change",
            "context(3)"),
    _review("review.close", ("escape", "q"), "close", "Leave without an answer", "close",
            footed=True),
    *(_pane(f"pane.{each.id}", (each.key,), each.title, each.help, f"pane('{each.id}')")
      for each in panes.PANES),
    _pane("pane.next", ("tab",), "next pane", "Focus the next pane", "cycle_pane(1)", footed=True),
    _pane("pane.zoom", ("z",), "zoom", "Give the focused pane all the room, or take it back",
          "zoom", footed=True),
    _pane("pane.home", ("g",), "top", "The first row", "edge('home')"),
    _pane("pane.end", ("G",), "bottom", "The last row", "edge('end')"),
    _pane("pane.down", ("down",), "down", "One row on", "move('down')", where="everywhere"),
    _pane("pane.up", ("up",), "up", "One row back", "move('up')", where="everywhere"),
    _pane("pane.page_down", ("pagedown",), "page on", "One page on", "move('page_down')",
          where="everywhere"),
    _pane("pane.page_up", ("pageup",), "page back", "One page back", "move('page_up')",
          where="everywhere"),
    _pane("log.follow", ("f",), "follow", "Keep the newest row of the log in sight", "follow",
          footed=True),
    _pane("chart.cycle", ("c",), "chart unit",
          "The chart by attempts, by tokens or of one case; or another table of attempts",
          "cycle", footed=True),
    _past("past.enter", ("T",), "past", "Time travel: look at any moment of the run", "app.travel",
          where="deck", footed=True),
    _past("past.live", ("L",), "live", "Back from the past to what is true now", "app.live",
          footed=True),
    _past("past.next", ("right",), "event", "The next event", "app.past('event', 1)", footed=True),
    _past("past.previous", ("left",), "event back", "The event before", "app.past('event', -1)"),
    _past("past.next_round", ("shift+right",), "round", "The end of the next round",
          "app.past('round', 1)", footed=True),
    _past("past.previous_round", ("shift+left",), "round back", "The end of the round before",
          "app.past('round', -1)"),
    _past("past.on", ("pagedown",), "on", "A twentieth of the run on", "app.past('page', 1)"),
    _past("past.back", ("pageup",), "back", "A twentieth of the run back", "app.past('page', -1)"),
    _past("past.first", ("home",), "first", "The first event", "app.past('edge', -1)"),
    _past("past.last", ("end",), "last", "The last event", "app.past('edge', 1)"),
    _past("past.fork", ("F",), "fork here", "A new run from the round that is looked at",
          "app.fork", footed=True),
    _past("past.compare", ("v",), "compare rounds", "Two rounds side by side, with measurements",
          "app.rounds", where="deck", footed=True),
    _run("run.undo", ("u",), "undo KEEP", "Take the last KEEP back; the attempt stays in history",
         "app.undo", footed=True),
    _rounds("rounds.right", ("right",), "right side", "Another round on the right",
            "side('right', 1)", footed=True),
    _rounds("rounds.right_back", ("left",), "right back", "The round before on the right",
            "side('right', -1)"),
    _rounds("rounds.left", ("shift+right",), "left side", "Another round on the left",
            "side('left', 1)", footed=True),
    _rounds("rounds.left_back", ("shift+left",), "left back", "The round before on the left",
            "side('left', -1)"),
    _rounds("rounds.next", ("n",), "next change", "The next change", "hunk(1)", footed=True),
    _rounds("rounds.previous", ("p",), "previous", "The change before", "hunk(-1)", footed=True),
    _rounds("rounds.fold", ("z",), "whole", "The whole kernel, or the changes only", "fold",
            footed=True),
    _rounds("rounds.close", ("escape", "q"), "close", "Back", "close", footed=True),
    _runs("runs.open", ("enter",), "open", "Look at the run; steer it where it is at work", "open",
          footed=True),
    _runs("runs.resume", ("r",), "resume", "Go on with the run", "resume", footed=True),
    _runs("runs.new", ("n",), "new", "Begin a run: of a sample, of a task, of your kernel", "new",
          footed=True),
    _runs("runs.detach", ("d",), "detach",
          "Go on with the run in an engine that needs no terminal; one at work leaves its own",
          "detach", footed=True),
    _runs("runs.demo", ("t",), "demo", "Tune a bundled sample; needs no key and no GPU", "demo"),
    _runs("runs.filter", ("slash",), "find", "Show the runs that have some words", "filter",
          footed=True),
    _runs("runs.sort", ("s",), "sort", "By the newest, the best, the name or the state", "sort",
          footed=True),
    _runs("runs.report", ("R",), "report", "Write the run's report", "report", footed=True),
    _runs("runs.discard", ("D",), "discard", "Move the run to the trash, after a question",
          "discard", footed=True),
    _runs("runs.clear", ("escape",), "all", "Show all runs again", "clear"),
    _copy("copy.view", ("y",), "copy", "Copy to the clipboard what the focused pane shows now",
          "app.copy('view')", argument=Argument("what", COPIES)),
    _copy("copy.pane", ("Y",), "copy pane", "Copy all rows of the focused pane",
          "app.copy('pane')"),
    _copy("export.screen", ("X",), "export screen",
          "Write a picture of the screen, as SVG, to the run folder", "app.export"),
    _look("look.theme", (), "theme", "Change the colours", "app.setting('theme')",
          argument=Argument("name", (THEMES,))),
    _look("look.keymap", (), "keymap", "Change the keys", "app.setting('keymap')",
          argument=Argument("name", (KEYMAPS,))),
    _look("look.language", (), "language", "Change the language", "app.setting('lang')",
          argument=Argument("name", (LANGUAGES,))),
    _look("look.glyphs", (), "glyphs", "Signs of Unicode, or of ASCII only",
          "app.setting('glyphs')", argument=Argument("name", ("unicode", "ascii"))),
    _look("look.motion", (), "motion", "Redraw up to 30 times a second, or at most 4 times",
          "app.setting('motion')", argument=Argument("name", ("full", "reduced"))),
    _app("app.help", ("question_mark", "f1"), "help", "All keys", "app.keys", footed=True),
    _app("app.palette", ("ctrl+p",), "palette", "Find a command by its name", "app.command_palette",
         footed=True),
    _app("app.stray", ("E",), "strays", "Show the output of libraries that bypassed the screen",
         "app.strays"),
    _app("app.messages", (), "messages", "List all messages of the workbench, the newest last",
         "app.messages"),
    _app("app.suspend", ("ctrl+z",), "suspend", "Stop for a while: the shell's fg goes on",
         "app.suspend_process"),
    _app("app.line", ("colon",), "command line", "Type a command with its argument",
         "app.command_line", footed=True),
    _app("app.quit", ("q", "ctrl+q"), "quit", "Leave; a run under way can be resumed", "app.leave",
         where="deck", footed=True),
    _pane("pane.previous", ("shift+tab",), "pane before", "Focus the pane before",
          "cycle_pane(-1)"),
    _pane("pane.layout", ("w",), "layout", "Next layout: deck, kernel, agent, numbers", "preset",
          footed=True),
    _pane("pane.open", ("enter",), "unfold", "Unfold what is picked, or fold it again", "open"),
    _pane("pane.find", ("slash",), "find", "Find words in the pane; :120 goes to a line", "find",
          footed=True),
    _pane("pane.forward", ("right_square_bracket",), "next change",
          "The next change in the kernel, the next reply in the log", "turn(1)"),
    _pane("pane.back", ("left_square_bracket",), "change before",
          "The change before in the kernel, the reply before in the log", "turn(-1)"),
    _pane("source.file", ("N",), "next file", "The next file of a kernel that has several", "file"),
    _pane("source.code", ("C",), "instructions",
          "From a line of the kernel to its instructions, and back", "code"),
    _subagent("subagent.message", ("m",), "message",
              "Write to this subagent alone; it reads it next", "subagent('message')", footed=True),
    _subagent("subagent.stop", ("x",), "stop subagent", "Stop this subagent, after a question",
              "subagent('stop')", footed=True),
    _subagent("subagent.next", ("greater_than_sign",), "next subagent",
              "The subagent that began after this one, in its place", "subagent('next')",
              footed=True),
    _subagent("subagent.previous", ("less_than_sign",), "subagent before",
              "The subagent that began before this one, in its place", "subagent('previous')"),
    _subagent("subagent.close", ("escape",), "close",
              "Back from the log of a subagent to the agents", "subagent('close')", footed=True),
    _plan("plan.add", ("a",), "add", "A new plan item", "plan('add')"),
    _plan("plan.edit", ("e",), "edit", "Other words for the picked item", "plan('edit')"),
    _plan("plan.drop", ("x",), "drop", "Drop the picked item", "plan('drop')"),
    _plan("plan.up", ("K",), "earlier", "Try the picked item earlier", "plan('up')"),
    _plan("plan.down", ("J",), "later", "Try the picked item later", "plan('down')"),
    _plan("plan.pin", ("p",), "pin", "Pin the picked item: it comes next, only you drop it",
          "plan('pin')"),
)  # fmt: skip

_BY_ID = {command.id: command for command in COMMANDS}


def at(where: Where) -> tuple[Command, ...]:
    """Return the commands of one place, including those available everywhere."""
    return tuple(c for c in COMMANDS if c.where in (where, "everywhere"))


def within(where: Where) -> tuple[Command, ...]:
    """Return the commands of the places inside a place: callable by name in all of it, by key
    only while the focus is in the inner place.
    """
    return tuple(c for c in COMMANDS if where == "deck" and c.where == "agents")


def _clash(one: Command, other: Command) -> bool:
    """Return whether two commands cannot share a key.

    The past and the agents are places within the deck: with the focus there, their keys
    override those of the deck; with the focus elsewhere, their keys are inactive. Keys of the
    past also override those available everywhere. A key that answers the card has no other
    meaning in the review, because the review may close just before the key is pressed.
    """
    places = one.where, other.where
    answers = ASKED in (one.group, other.group) and "review" in places
    return answers or one.where == other.where or ("everywhere" in places and "past" not in places)


def command(command_id: str) -> Command:
    """Return the command with this id."""
    return _BY_ID[command_id]


def key_of(command_id: str) -> str:
    """Return the first key of a command in readable form; empty where it has none."""
    keys = _BY_ID[command_id].keys_now
    return keymap.shown(keys[0]) if keys else ""


def chord_of(command_id: str) -> str:
    """Return the first chord of several keys of a command in readable form; "" without one."""
    keys = next((key for key in _BY_ID[command_id].keys_now if " " in key), "")
    return keymap.shown(keys) if keys else ""


def way_to(command_id: str) -> str:
    """Return the first key of a command, or without keys its name on the ``:`` line."""
    return key_of(command_id) or f":{_BY_ID[command_id].name}"


def named(command_id: str, title: str) -> str:
    """Return a title with the first key of its command before it, if the command has keys."""
    return f"{key_of(command_id)} {title}".lstrip()


def defaults() -> dict[str, tuple[str, ...]]:
    """Return the keys of the default keymap by command id."""
    return {command.id: command.keys for command in COMMANDS}


def clashes() -> list[tuple[Command, Command, str]]:
    """Return pairs of commands that share a key now, and the chord of the first command.

    A key that begins a chord of another command clashes with that command too.
    """
    # Clashing chords begin with one key: only such chords are compared, as this runs before
    # the first frame.
    alike: dict[str, list[tuple[int, int, str]]] = {}
    for number, command in enumerate(COMMANDS):
        for place, key in enumerate(command.keys_now):
            alike.setdefault(key.partition(" ")[0], []).append((number, place, key))
    found = {
        (one, other, place): key
        for keys in alike.values()
        for one, place, key in keys
        for other, _, their in keys
        if one < other and _clash(COMMANDS[one], COMMANDS[other]) and keymap.covers(key, their)
    }
    return [(COMMANDS[a], COMMANDS[b], found[a, b, place]) for a, b, place in sorted(found)]


def groups() -> dict[str, list[Command]]:
    """Return all commands by group, in the order in which help shows them."""
    grouped: dict[str, list[Command]] = {}
    for command in COMMANDS:
        grouped.setdefault(command.group, []).append(command)
    return grouped


_OF_PANE = {
    "plan": ("plan.add", "plan.edit", "plan.drop", "plan.down", "plan.up", "plan.pin", "pane.open"),
    "log": ("log.follow", "pane.open", "pane.forward", "pane.find"),
    "chart": ("chart.cycle",),
    "attempts": ("pane.open", "chart.cycle"),
    "source": ("pane.forward", "source.code"),
    "asm": ("source.code", "pane.forward", "pane.find"),
}
"""The commands that the footer shows before those of all panes while a pane has the focus."""

_BY_USE = (
    "run.pause", "run.step", "run.hint", "run.mode", "pane.next", "pane.zoom", "app.quit",
    "past.enter", "run.policy", "run.undo", "past.compare", "pane.find", "pane.layout",
    "run.gates", "app.line", "app.palette", "log.follow", "chart.cycle", "review.open",
    "app.help",
)  # fmt: skip
"""The other commands in the footer of the deck, the most used first: the last fall away first. Of
help, which is last, the footer names the key where anything has fallen away.
"""


def footer(
    where: Where, state: RunState | None, pane: str = "", *, empty: bool = False
) -> list[tuple[str, str]]:
    """Return key and label of the commands in the footer, the most used of the moment first; what
    would be refused at this moment is left out.

    `pane` is the pane of the deck that has the focus; `empty`: the list of runs has no run.
    """
    own = tuple(_BY_ID[name] for name in (_OF_PANE.get(pane, ()) if where == "deck" else ()))
    listed = tuple(dict.fromkeys((*_of_the_moment(where, state), *own, *_footed(where))))
    idle = _idle(state) if state is not None else set()
    if empty:
        idle = {c.id for c in COMMANDS if c.where == "runs" and c.id != "runs.new"}
    pairs: list[tuple[str, str]] = []
    for command in listed:
        if command.id in idle or not (keys := command.keys_now):
            continue
        label = tr(command.label)
        if command.id == "run.pause" and state is not None and _held(state):
            label = tr("go on")
        if command.id == "run.undo" and state is not None and state.undo_queued:
            label = tr("take undo back")
        pairs.append((keymap.shown(keys[0]), label))
    return pairs


def _of_the_moment(where: Where, state: RunState | None) -> tuple[Command, ...]:
    """Return the commands of the deck that the state of the run asks for, the most urgent first."""
    if where != "deck" or state is None:
        return ()
    if state.finished:
        return (_BY_ID["run.more"],)
    ids = ("review.open",) if _waits_for_review(state) else ()
    stepping = ("run.step",) if state.mode == "step" and not state.paused else ()
    then = ("run.step",) if state.paused else ()
    if _compiles(state):
        then = (*then, "run.skip_compile")
    return tuple(_BY_ID[name] for name in (*ids, *stepping, "run.pause", *then))


def _compiles(state: RunState) -> bool:
    from akg_tui.core.events import COMPILED  # not imported for the first screen, which has no run

    return state.running is not None and state.running.purpose in COMPILED


def _idle(state: RunState) -> set[str]:
    """Return the ids of commands that would be refused in this state."""
    found: set[str] = set()
    if state.finished:
        found |= {c.id for c in COMMANDS if c.group == "Run"}
        if _can_go_on(state):
            found.discard("run.more")
    if not (state.paused or state.mode == "step"):
        found.add("run.step")
    if not state.former:
        found.add("run.undo")
    if state.work_blob == state.standing_blob:
        found.add("review.open")
    if not _waits_for_review(state):
        found |= {"review.keep", "review.reject", "review.back", "review.comment"}
    if _reads_no_comment(state):
        found.add("review.back")
    return found


def _waits_for_review(state: RunState) -> bool:
    gate = state.gate
    return gate is not None and not gate.answer and gate.kind in ("keep", "edit")


def _footed(where: Where) -> tuple[Command, ...]:
    """Return the commands that the footer shows in a place, the most used first; with `where`
    agents, their own come first.
    """
    if where not in ("deck", "agents"):
        return tuple(c for c in at(where) if c.footed and c.group != SUBAGENTS)
    rank = {name: number for number, name in enumerate(_BY_USE)}
    footed = [c for c in at("deck") if c.footed and c.group != SUBAGENTS]
    deck = sorted(footed, key=lambda c: rank.get(c.id, len(rank)))
    if where == "deck":
        return tuple(deck)
    own = tuple(c for c in COMMANDS if c.footed and c.group == SUBAGENTS)
    taken = {key for command in within("deck") for key in command.keys_now}
    return (*own, *(c for c in deck if not taken & set(c.keys_now)))


def _held(state: RunState) -> bool:
    """Return whether the pause key would resume the run."""
    return state.paused or bool(state.api_failure)


def _can_go_on(state: RunState) -> bool:
    from akg_tui.core.user_commands import can_go_on  # not imported for the first screen either

    return can_go_on(state)


def _reads_no_comment(state: RunState) -> bool:
    # Not imported for the first screen, which has no run.
    from akg_tui.core.task import SWEEP

    return state.agent == SWEEP

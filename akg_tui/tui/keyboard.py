"""Puts the registry's keys on screens: bindings for single keys, a small machine for chords.

Owns which command wins where two want one key. Draws nothing and carries out nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from textual.binding import Binding, BindingsMap, BindingType
from textual.dom import DOMNode
from textual.widgets import Input

from akg_tui.tui.textual_internals import merged_bindings, set_bindings
from akg_tui.view.controls import keymap as km
from akg_tui.view.controls.command_registry import COMMANDS, Command, Where, at, clashes, defaults
from akg_tui.view.controls.settings_file import line_of, read_toml

# What the app binds itself: for when no screen of a run is there, and for the way to the past.
APPS = (
    *("app.help", "app.palette", "app.quit", "app.stray", "app.suspend"),
    *("past.enter", "past.live", "past.fork", "past.compare", "run.undo"),
)


def folders(config: Path) -> tuple[Path, ...]:
    """Where keymaps lie; the person's own go before those that ship."""
    return km.BUNDLED, config / "keymaps"


def apply_keymap(
    name: str, places: Sequence[Path], own: Mapping[str, object], config: Path | None
) -> list[str]:
    """Use the keymap `name` with a person's `own` keys (of the file `config`) over it.

    Returns what was wrong: bad lines, and every key that two commands wanted.
    """
    path = km.find(name, places)
    if path is None:
        known = ", ".join(km.names(places))
        return [f"there is no keymap {name}; there are: {known}"]
    ids = list(defaults())
    loaded, faults = km.load(path, ids, places)
    mine: dict[str, tuple[str, ...]] = {}
    lines: dict[str, int] = {}
    if own and config is not None:
        mine, lines, bad = km.read_keys(config, read_toml(config)[0], own, ids)
        faults += bad
    km.use(replace(loaded, name=name, keys={**loaded.keys, **mine}))
    stated = [*((command, config) for command in lines), *((c, path) for c in loaded.lines)]
    return faults + _settle(dict(reversed(stated)))


def _settle(stated: Mapping[str, Path | None]) -> list[str]:
    """Take each key that two commands want from one of them: what a file says goes first."""
    told: list[str] = []
    for one, other, key in clashes():
        if not any(km.covers(key, their) for their in other.keys_now) or key not in one.keys_now:
            continue  # settled with an earlier one
        winner, loser = (one, other) if one.id in stated or other.id not in stated else (other, one)
        path = stated.get(winner.id)
        where = ""
        if path is not None:
            where = f"{path}: line {line_of(read_toml(path)[0], winner.id)}: "
        told.append(
            f"{where}the key {km.shown(key)} is given to {one.id} and to {other.id}; "
            f"{winner.id} has it"
        )
        taken = winner.keys_now
        left = tuple(k for k in loser.keys_now if not any(km.covers(k, t) for t in taken))
        used = km.current()
        km.use(replace(used, keys={**used.keys, loser.id: left}))
    return told


def bindings(where: Where | None) -> list[BindingType]:
    """The bindings of a screen, from the registry, for the keymap in use; the app's for None."""
    return _bound([c for c in COMMANDS if c.id in APPS] if where is None else at(where))


def _bound(commands: Sequence[Command]) -> list[BindingType]:
    own = [key for c in commands if c.where == "past" for key in c.keys_now]
    keyed = [
        (command, key)
        for command in commands
        for key in command.keys_now
        if command.where == "past" or not any(km.covers(key, each) for each in own)
    ]
    made: list[BindingType] = [
        Binding(key, command.action, command.label, show=False, id=command.id)
        for command, key in keyed
        if " " not in key
    ]
    first_keys = {key.split(" ")[0] for _, key in keyed if " " in key}
    made += [
        Binding(key, f"app.chord({key!r})", "", show=False, id=_CHORD, priority=_first(key))
        for key in sorted(first_keys)
    ]
    return made


def _first(key: str) -> bool:
    """Whether a chord that this key begins goes before what has the focus: where the key is of
    no use on a line that is being written. What follows it in one burst is then heard too.
    """
    return key.startswith(("ctrl+", "alt+")) and key not in _LINES_OWN


def bind_within(widget: DOMNode, where: Where) -> None:
    """Put the keys of a place within a screen on a widget of it: they count while it has the
    focus, and call the screen's actions.
    """
    merged = merged_bindings(widget)
    keys = BindingsMap() if merged is None else merged.copy()
    for binding in _bound([c for c in COMMANDS if c.where == where]):
        assert isinstance(binding, Binding)
        action = binding.action if "." in binding.action else f"screen.{binding.action}"
        bound = Binding(binding.key, action, binding.description, show=False, id=binding.id)
        keys.key_to_bindings[binding.key] = [bound]
    set_bindings(widget, keys)


_CHORD = "keyboard.chord"
_LINES_OWN = frozenset(
    key for each in Input.BINDINGS if isinstance(each, Binding) for key in each.key.split(",")
)
CHORD_S = 3.0  # between two keys of a chord


def rekey(node: DOMNode, where: Where | None) -> None:
    """Bind the keys of the keymap of now on the app, or on a screen or widget with commands.

    Textual's own way to quit is left out: it would leave a run without a question.
    """
    fresh = BindingsMap(bindings(where))
    merged = merged_bindings(node)
    for key, bound in merged.key_to_bindings.items() if merged is not None else ():
        if foreign := [each for each in bound if each.action != "quit"]:
            fresh.key_to_bindings.setdefault(key, []).extend(foreign)
    set_bindings(node, fresh)


@dataclass
class Chords:
    """The chord being typed. `feed` a key to learn what became of it. One that is not gone on
    with for `CHORD_S` is forgotten: what is typed then is text again.
    """

    pending: str = ""
    since: float = 0.0

    def begin(self, key: str, now: float) -> None:
        self.pending, self.since = key, now

    def waits(self, now: float) -> bool:
        """Whether the next key belongs to a chord. `now`: in seconds."""
        if not 0 <= now - self.since <= CHORD_S:
            self.pending = ""
        return bool(self.pending)

    def feed(self, key: str, commands: Sequence[Command]) -> Command | None:
        """The command that the chord calls with this key; None while it may go on, or when
        it leads nowhere (then nothing is pending any more).
        """
        typed = f"{self.pending} {key}"
        for command in commands:
            if typed in command.keys_now:
                self.pending = ""
                return command
        longer = any(k.startswith(f"{typed} ") for c in commands for k in c.keys_now)
        self.pending = typed if longer else ""
        return None

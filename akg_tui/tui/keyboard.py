"""Puts the registry's keys on screens: bindings for single keys, a state machine for chords.

Decides which of two commands gets a key that both claim. Draws nothing, runs no command.
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

# Commands that the app itself binds: some work without a run on screen, some open the past.
APPS = (
    *("app.help", "app.palette", "app.quit", "app.stray", "app.suspend"),
    *("past.enter", "past.live", "past.fork", "past.compare", "run.undo"),
)


def folders(config: Path) -> tuple[Path, ...]:
    """Return the folders of keymaps: the bundled ones, then the person's own, which win."""
    return km.BUNDLED, config / "keymaps"


def apply_keymap(
    name: str, places: Sequence[Path], own: Mapping[str, object], config: Path | None
) -> list[str]:
    """Use the keymap `name`, with the person's `own` keys from the file `config` over it.

    Return the faults: bad lines, and every key that two commands claim.
    """
    path = km.find(name, places)
    if path is None:
        known = ", ".join(km.names(places))
        return [f"there is no keymap {name}; there are: {known}"]
    ids = list(defaults())
    loaded, faults = km.load(path, ids, places)
    mine: dict[str, tuple[str, ...]] = {}
    if own and config is not None:
        mine, bad = km.read_keys(config, own, ids)
        faults += bad
    km.use(replace(loaded, name=name, keys={**loaded.keys, **mine}))
    stated = [*((command, config) for command in mine), *((c, path) for c in loaded.stated)]
    return faults + _settle(dict(reversed(stated)))


def _settle(stated: Mapping[str, Path | None]) -> list[str]:
    """Leave each key that two commands claim to one of them; keys from a file win."""
    told: list[str] = []
    for one, other, key in clashes():
        if not any(km.covers(key, their) for their in other.keys_now) or key not in one.keys_now:
            continue  # settled with an earlier clash
        winner, loser = (one, other) if one.id in stated or other.id not in stated else (other, one)
        path = stated.get(winner.id)
        why = f"the key {km.shown(key)} is given to {one.id} and to {other.id}; {winner.id} has it"
        told.append(why if path is None else km.fault(path, "keys", winner.id, why))
        taken = winner.keys_now
        left = tuple(k for k in loser.keys_now if not any(km.covers(k, t) for t in taken))
        used = km.current()
        km.use(replace(used, keys={**used.keys, loser.id: left}))
    return told


def bindings(where: Where | None) -> list[BindingType]:
    """Return the bindings of a screen for the keymap in use; those of the app for None."""
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
    """Return whether a chord that starts with this key has priority over the focused widget: only
    if the key does nothing on an input line. The rest of the chord is then read even in one burst.
    """
    return key.startswith(("ctrl+", "alt+")) and key not in _LINES_OWN


def bind_within(widget: DOMNode, where: Where) -> None:
    """Bind the keys of a place within a screen on a widget of that place. They work while the
    widget has the focus, and call actions of the screen.
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
CHORD_S = 3.0  # longest time between two keys of a chord


def rekey(node: DOMNode, where: Where | None) -> None:
    """Bind the keys of the current keymap on the app, or on a screen or widget with commands.

    Textual's own quit binding is left out: it would leave a run without a question.
    """
    fresh = BindingsMap(bindings(where))
    merged = merged_bindings(node)
    for key, bound in merged.key_to_bindings.items() if merged is not None else ():
        if foreign := [each for each in bound if each.action != "quit"]:
            fresh.key_to_bindings.setdefault(key, []).extend(foreign)
    set_bindings(node, fresh)


@dataclass
class Chords:
    """The chord being typed. `feed` each key to get the command of a complete chord. A chord
    without a next key for `CHORD_S` is dropped: later keys are plain text again.
    """

    pending: str = ""
    since: float = 0.0

    def begin(self, key: str, now: float) -> None:
        self.pending, self.since = key, now

    def waits(self, now: float) -> bool:
        """Return whether the next key belongs to a chord; `now` in seconds."""
        if not 0 <= now - self.since <= CHORD_S:
            self.pending = ""
        return bool(self.pending)

    def feed(self, key: str, commands: Sequence[Command]) -> Command | None:
        """Return the command of the chord with this key; None if the chord is incomplete or
        unknown. After an unknown chord nothing is pending.
        """
        typed = f"{self.pending} {key}"
        for command in commands:
            if typed in command.keys_now:
                self.pending = ""
                return command
        longer = any(k.startswith(f"{typed} ") for c in commands for k in c.keys_now)
        self.pending = typed if longer else ""
        return None

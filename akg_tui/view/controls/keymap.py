"""Keymaps: TOML files that assign keys to commands and override the keys of the registry.

Owns the notation of keys, the format of a file, and the keymap in use. A bad file or line is
reported by name and line; all others count. Refers to commands only by id.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from akg_tui.view.controls.settings_file import keymap_file, quoted

BUNDLED = Path(__file__).parent / "keymaps"
DEFAULT = "default"

_NAMED = frozenset(
    ("escape", "enter", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup",
     "pagedown", "up", "down", "left", "right", *(f"f{n}" for n in range(1, 25)))
)  # fmt: skip
_MODIFIERS = frozenset({"ctrl", "alt", "shift", "super", "meta", "hyper"})
# Keys for which a terminal sends the code of another key.
_SAME_CODE = {
    "ctrl+h": "backspace", "ctrl+i": "tab", "ctrl+j": "enter", "ctrl+m": "enter",
    "ctrl+left_square_bracket": "escape",
}  # fmt: skip
_UNICODE_NAMES = {
    "solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at",
    "hyphen_minus": "minus", "plus_sign": "plus", "low_line": "underscore",
}  # fmt: skip
_SHOWN = {"escape": "esc", "pagedown": "pgdn", "pageup": "pgup", "delete": "del"}


class BadKey(ValueError):
    """A key that does not exist or that no terminal sends."""


@dataclass(frozen=True)
class Keymap:
    """Keys by command id. A command that is not in `keys` has the keys of the registry.

    `stated` are the commands that the file itself names.
    """

    name: str
    about: str = ""
    path: Path | None = None
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stated: tuple[str, ...] = ()


_current = Keymap(DEFAULT)


def use(keymap: Keymap) -> None:
    """Set the keymap in use."""
    global _current  # noqa: PLW0603 - one keyboard, one keymap
    _current = keymap


def current() -> Keymap:
    """Return the keymap in use."""
    return _current


def keys_of(command: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the chords that call a command now."""
    return _current.keys.get(command, default)


def chord(text: str) -> str:
    """Return a chord with Textual's names of keys, one blank between them. Raises `BadKey`."""
    keys = [_key(word) for word in text.split()]
    if not keys:
        raise BadKey("an empty key")
    return " ".join(keys)


def _key(word: str) -> str:
    *modifiers, base = _parts(word)
    if len(base) == 1:
        base = _name_of(base)
    elif base not in _NAMED and base not in _symbols():
        raise BadKey(f"no key is called {word!r}")
    if unknown := [m for m in modifiers if m not in _MODIFIERS]:
        raise BadKey(f"no modifier is called {unknown[0]!r} (in {word!r})")
    key = "+".join([*modifiers, base])
    if key in _SAME_CODE:
        raise BadKey(f"a terminal cannot tell {word} from {_SAME_CODE[key]}")
    return key


def _parts(word: str) -> list[str]:
    if word == "+" or word.endswith("++"):
        return [*word[:-1].rstrip("+").split("+"), "+"] if len(word) > 1 else ["+"]
    return word.split("+")


@lru_cache(maxsize=256)
def _name_of(character: str) -> str:
    if character.isalnum():
        return character
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    if not name:
        raise BadKey(f"no key writes {character!r}")
    return _UNICODE_NAMES.get(name, name)


@lru_cache(maxsize=1)
def _symbols() -> dict[str, str]:
    """Return the printable symbols of ASCII by their names."""
    return {_name_of(c): c for c in map(chr, range(0x21, 0x7F)) if not c.isalnum()}


def shown(chord_: str) -> str:
    """Return a chord in readable form: ``^x ^c``, ``alt+y``, ``?``, ``g g``."""
    return " ".join(_shown_key(key) for key in chord_.split(" "))


def _shown_key(key: str) -> str:
    *modifiers, base = key.split("+")
    base = _symbols().get(base, _SHOWN.get(base, base))
    if re.fullmatch(r"f\d+", base):
        base = base.upper()
    if modifiers == ["ctrl"]:
        return f"^{base}"
    return "+".join([*modifiers, base])


def covers(one: str, other: str) -> bool:
    """Return whether two chords exclude each other: they are equal, or one begins the other."""
    return one == other or one.startswith(f"{other} ") or other.startswith(f"{one} ")


def load(path: Path, known: Iterable[str], bases: Iterable[Path]) -> tuple[Keymap, list[str]]:
    """Load the keymap of a file; return it with its faults, each with its line.

    `known` are the command ids; `bases` are the folders that are searched for the keymap
    named in ``base``.
    """
    faults: list[str] = []
    if path.parent == BUNDLED:
        content = tomllib.loads(path.read_text("utf-8"))
    else:
        from msgspec.structs import asdict

        from akg_tui.store.user_files.reader import settings_at

        found, faults = settings_at(path, keymap_file(DEFAULT))
        content = asdict(found)
    keys: dict[str, tuple[str, ...]] = {}
    base = content.get("base", DEFAULT)
    if base != DEFAULT:
        under = find(base, bases)
        if under is None or under == path:
            why = f"there is no keymap {base!r} to base it on"
            faults.append(fault(path, "base", why))
        else:
            keys.update(load(under, known, ())[0].keys)
    own, bad = read_keys(path, content.get("keys", {}), known)
    keys.update(own)
    return Keymap(path.stem, content.get("about", ""), path, keys, tuple(own)), [*faults, *bad]


def fault(path: Path, *field: str) -> str:
    """Return a fault in words; the last of `field` is why."""
    from akg_tui.store.user_files.reader import fault_at

    return fault_at(path, field[:-1], field[-1])


def read_keys(
    path: Path, table: Mapping[str, object], known: Iterable[str]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Read a file's table of keys: return chords by command, and faults."""
    ids = set(known)
    keys: dict[str, tuple[str, ...]] = {}
    faults: list[str] = []
    for command, value in table.items():
        wanted = [value] if isinstance(value, str) else value
        why = ""
        if command not in ids:
            why = f"no command is called {command!r}"
        elif not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
            why = 'needs a key like "n", or a list of them'
        else:
            try:
                keys[command] = tuple(chord(each) for each in wanted)
            except BadKey as error:
                why = str(error)
        if why:
            faults.append(fault(path, "keys", command, why))
    return keys, faults


def find(name: str, folders: Iterable[Path]) -> Path | None:
    """Return the file of a keymap, or None; a later folder overrides an earlier one."""
    found = [path for folder in folders if (path := folder / f"{name}.toml").is_file()]
    return found[-1] if found else None


def names(folders: Iterable[Path]) -> list[str]:
    """Return the names of all keymaps, the default first."""
    found = {path.stem for folder in folders for path in folder.glob("*.toml")} - {DEFAULT}
    return [DEFAULT, *sorted(found)]


def as_toml(name: str, about: str, keys: Mapping[str, Iterable[str]]) -> str:
    """Return the text of a keymap file with these keys."""

    def value(chords: Iterable[str]) -> str:
        listed = [quoted(shown_for_file(each)) for each in chords]
        return listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"

    rows = [f"{quoted(command)} = {value(chords)}" for command, chords in keys.items()]
    return "\n".join([f"about = {quoted(about)}", "", "[keys]", *rows, ""])


def shown_for_file(chord_: str) -> str:
    """Return a chord in the notation of a file: symbols as characters."""
    return re.sub(r"\w+", lambda key: _symbols().get(key[0], key[0]), chord_)

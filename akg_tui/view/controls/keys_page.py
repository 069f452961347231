"""All commands with their keys: as a table for a terminal, as a documentation page, as TOML.

Made from the registry and the bundled keymaps; `docs/keys.md` is the output of `markdown`.
"""

from __future__ import annotations

from akg_tui.view.controls import keymap as km
from akg_tui.view.controls.command_registry import COMMANDS, Command, defaults, groups

_PLACES = {"deck": "", "agents": "the panes of agents", "review": "review", "everywhere": ""}

_HEAD = """\
# Keys and commands

Made by `akg-tui keys --markdown` from the registry of commands; do not edit it by hand.

A command is called by its key, by its name in the palette, or by its name on the `:` line. Keys
with a blank between them are pressed one after the other. In the workbench `?` lists the keys that
count at this moment. `akg-tui keys` prints them, `akg-tui keys --toml` writes a keymap to begin
your own with ([looks.md](looks.md)).
"""


def _typed(command: Command) -> str:
    argument = command.argument
    if argument is None:
        return f":{command.name}"
    words = "|".join(argument.choices) if len(argument.choices) > 1 else argument.name.upper()
    return f":{command.name} {words}"


def table() -> str:
    """Return a table for a terminal: group, keys, name on the ``:`` line, help."""
    cells = {command.id: (_keys_of(command), _typed(command)) for command in COMMANDS}
    keys_wide, typed_wide = (max(map(len, column)) for column in zip(*cells.values(), strict=True))
    rows: list[str] = []
    for group, members in groups().items():
        rows += ["", group] if rows else [group]
        for command in members:
            keys, typed = cells[command.id]
            place = _PLACES.get(command.where, command.where)
            about = f"in {place}: {command.help}" if place else command.help
            rows.append(f"  {keys:<{keys_wide}}  {typed:<{typed_wide}}  {about}")
    return "\n".join(rows) + "\n"


def _keys_of(command: Command) -> str:
    return " ".join(f"[{km.shown(key)}]" for key in command.keys_now) or "-"


def toml() -> str:
    """Return the keymap in use as a complete file."""
    keys = {command.id: command.keys_now for command in COMMANDS}
    return km.as_toml(km.current().name, km.current().about or "all keys as they are now", keys)


def markdown() -> str:
    """Return the documentation page: every command with its keys in each bundled keymap."""
    names = km.names((km.BUNDLED,))
    maps = {name: _keys_in(name) for name in names}
    head = f"| What it does | `:` line | {' | '.join(names)} |"
    parts = [_HEAD, head, f"|---|---|{'---|' * len(names)}"]
    for group, members in groups().items():
        parts.append(f"| **{group}** | |{' |' * len(names)}")
        for command in members:
            place = _PLACES.get(command.where, command.where)
            about = command.help
            if place:
                about = f"In {place}: {about[0].lower()}{about[1:]}"
            cells = [_cell(maps[name][command.id]) for name in names]
            typed = _typed(command).replace("|", "\\|")
            parts.append(f"| {about} | `{typed}` | {' | '.join(cells)} |")
    return "\n".join(parts) + "\n"


def _keys_in(name: str) -> dict[str, tuple[str, ...]]:
    path = km.find(name, (km.BUNDLED,))
    assert path is not None
    keymap, _ = km.load(path, defaults(), (km.BUNDLED,))
    return {**defaults(), **keymap.keys}


def _cell(keys: tuple[str, ...]) -> str:
    shown = [f"`` {km.shown(key)} ``" if "`" in key else f"`{km.shown(key)}`" for key in keys]
    return " or ".join(shown).replace("|", "\\|")

"""The user's preferences: theme, keymap, language, signs, motion, layout, order of the runs.

Each is taken from the options, else the environment, else ``config.toml``. A faulty value is
reported with file and line and ignored; all other values count. Reads files and writes none.
"""

from __future__ import annotations

import locale
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from akg_tui.core.sanitize import Said
from akg_tui.store.user_files.user_folders import config_folder
from akg_tui.view.controls.deck_layout import PRESETS
from akg_tui.view.language import LANGUAGES, language_of

GLYPHS = ("unicode", "ascii")
MOTIONS = ("full", "reduced")
LAYOUTS = tuple(PRESETS)
SORTS = (Said("newest"), Said("best"), Said("name"), Said("state"))

NAMES = ("theme", "keymap", "lang", "glyphs", "motion", "layout", "sort")
"""The settings that an option or the environment may state too: all but the tables of the file."""
VARIABLES = {name: f"AKG_TUI_{name.upper()}" for name in NAMES}

Notice = Literal["ask", "keep", "fail", "end"]
"""What is told to a user who looks elsewhere: a request, a KEEP, a failure, the end of a run."""


@dataclass(frozen=True)
class Notify:
    """The table ``[notify]``: the kinds of notices, and the ways they take.

    With `always` notices are sent also while the terminal has the focus, for a terminal that does
    not report it.
    """

    bell: bool = True
    desktop: bool = True
    title: bool = True
    always: bool = False
    on: tuple[Notice, ...] = get_args(Notice)


@dataclass(frozen=True)
class Preferences:
    """The preferences; an empty value leaves the choice to the workbench.

    `layout` is the layout of the deck, `sort` the order of the list of runs. `keys` is the unparsed
    table ``[keys]`` of ``config.toml``.
    """

    theme: str = ""
    keymap: str = ""
    lang: str = ""
    glyphs: str = ""
    motion: str = ""
    layout: str = ""
    sort: str = ""
    no_colour: bool = False
    notify: Notify = Notify()
    keys: Mapping[str, object] = field(default_factory=dict)
    config: Path | None = None
    faults: tuple[str, ...] = ()


_CHOICES = {
    "lang": tuple(LANGUAGES),
    "glyphs": GLYPHS,
    "motion": MOTIONS,
    "layout": LAYOUTS,
    "sort": SORTS,
}


def preferences(
    options: Mapping[str, str | None] | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    utf8: bool | None = None,
) -> Preferences:
    """Read the preferences. `utf8`: whether the terminal's encoding is UTF-8, if known."""
    path = config_folder(environment) / "config.toml"
    chosen, faults = _from_file(path) if path.is_file() else ({}, [])
    for name, variable in VARIABLES.items():
        value = environment.get(variable)
        if value and (why := _refused(name, value)):
            faults.append(f"{variable}: {why}")
        elif value:
            chosen[name] = value
    chosen.update({name: value for name, value in (options or {}).items() if value})
    if environment.get("TEXTUAL_ANIMATIONS") == "none":
        chosen.setdefault("motion", "reduced")
    if not (utf8_terminal(environment) if utf8 is None else utf8):
        # Text that a terminal cannot show must not be sent to it, whatever the preferences.
        chosen.update(glyphs="ascii", lang="en")
    chosen.setdefault("lang", language_of(environment))
    return Preferences(
        **chosen,
        no_colour=bool(environment.get("NO_COLOR")),
        config=path if path.is_file() else None,
        faults=tuple(faults),
    )


def _from_file(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the sound values of the file, and its faults."""
    from msgspec.structs import asdict

    from akg_tui.store.user_files.reader import fault_at, settings_at
    from akg_tui.view.controls.settings_file import config_file

    config, faults = settings_at(path, config_file(NAMES, Notify))
    chosen = {"keys": config.keys, "notify": Notify(**asdict(config.notify))}
    for name in NAMES:
        value = getattr(config, name)
        if value and (why := _refused(name, value)):
            faults.append(fault_at(path, (name,), why))
        elif value:
            chosen[name] = value
    return chosen, faults


def _refused(name: str, value: str) -> str:
    choices = _CHOICES.get(name)
    if choices and value not in choices:
        return f"{value!r} is unknown, expected one of: {', '.join(choices)}"
    return ""


def utf8_terminal(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the locale sets UTF-8 as the encoding of output."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if value := environment.get(name):
            _, _, encoding = value.partition(".")
            if encoding:
                return encoding.split("@")[0].lower().replace("-", "") == "utf8"
            # ``C`` and ``POSIX`` mean ASCII, but containers set them on UTF-8 terminals: the
            # code below follows Python's interpretation (PEP 538, 540).
            break
    return locale.getpreferredencoding(do_setlocale=False).lower().replace("-", "") == "utf8"

"""The user's preferences: theme, keymap, language, signs, motion, layout, borders, order of runs.

Each is taken from the options, else the environment, else ``config.toml``. A faulty value is
reported with file and line and ignored; all other values count. Reads files and writes none.
"""

from __future__ import annotations

import locale
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from akg_tui.memory.memory_config import read_table
from akg_tui.store.user_folders import config_folder
from akg_tui.view.controls.deck_layout import PRESETS
from akg_tui.view.controls.pane_borders import read_borders
from akg_tui.view.controls.settings_file import line_of, read_toml
from akg_tui.view.language import LANGUAGES, language_of, marked

GLYPHS = ("unicode", "ascii")
MOTIONS = ("full", "reduced")
LAYOUTS = tuple(PRESETS)
SORTS = (marked("newest"), marked("best"), marked("name"), marked("state"))

TAGS = ("on", "off")
PICTURES = ("on", "off")

NAMES = (
    "theme",
    "keymap",
    "lang",
    "glyphs",
    "motion",
    "layout",
    "sort",
    "borders",
    "tags",
    "pictures",
)
VARIABLES = {name: f"AKG_TUI_{name.upper()}" for name in NAMES}


NOTICES = ("ask", "keep", "fail", "end")
"""What is told to a user who looks elsewhere: a request, a KEEP, a failure, the end of a run."""


@dataclass(frozen=True)
class Notify:
    """The table ``[notify]``: the kinds of notices, the ways they take, and the hook command.

    With `always` notices are sent also while the terminal has the focus, for a terminal that does
    not report it.
    """

    bell: bool = True
    desktop: bool = True
    title: bool = True
    always: bool = False
    on: tuple[str, ...] = NOTICES
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preferences:
    """The preferences; an empty value leaves the choice to the workbench.

    `layout` is the layout of the deck, `sort` the order of the list of runs, `borders` what
    `read_borders` reads, `tags` whether kernels are shown with hashline tags, `pictures` whether
    the chart is a picture in terminals that have them. `keys` is the
    unparsed table ``[keys]`` of ``config.toml``; `options` are those of the command line, which
    override the file, also after later changes of the file.
    """

    theme: str = ""
    keymap: str = ""
    lang: str = ""
    glyphs: str = ""
    motion: str = ""
    layout: str = ""
    sort: str = ""
    borders: str = ""
    tags: str = ""
    pictures: str = ""
    no_colour: bool = False
    notify: Notify = Notify()
    keys: Mapping[str, object] = field(default_factory=dict)
    config: Path | None = None
    faults: tuple[str, ...] = ()
    options: Mapping[str, str | None] = field(default_factory=dict)


_CHOICES = {
    "lang": tuple(LANGUAGES),
    "glyphs": GLYPHS,
    "motion": MOTIONS,
    "layout": LAYOUTS,
    "sort": SORTS,
    "tags": TAGS,
    "pictures": PICTURES,
}


def preferences(
    options: Mapping[str, str | None] | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    utf8: bool | None = None,
) -> Preferences:
    """Read the preferences. `utf8`: whether the terminal's encoding is UTF-8, if known."""
    path = config_folder(environment) / "config.toml"
    text, raw, faults = read_toml(path) if path.is_file() else ("", {}, [])
    chosen = _from_file(path, text, raw, faults)
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
    for name, why in read_table(raw.get("memory", {}))[1]:
        line = line_of(text, name, "memory") if name else line_of(text, "memory")
        faults.append(f"{path}: line {line}: {why}")
    keys = raw.get("keys", {})
    if not isinstance(keys, dict):
        faults.append(f"{path}: line {line_of(text, 'keys')}: keys is not a table")
        keys = {}
    return Preferences(
        **chosen,
        no_colour=bool(environment.get("NO_COLOR")),
        notify=_notify(path, text, raw.get("notify", {}), faults),
        keys=keys,
        config=path if path.is_file() else None,
        faults=tuple(faults),
        options=options or {},
    )


def _from_file(
    path: Path, text: str, raw: Mapping[str, object], faults: list[str]
) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for name, value in raw.items():
        where = f"{path}: line {line_of(text, name)}"
        if name in ("keys", "notify", "memory"):
            continue
        if name not in VARIABLES:
            faults.append(
                f"{where}: no setting {name!r}; there are: {', '.join(NAMES)}, keys, notify, memory"
            )
        elif not isinstance(value, str):
            faults.append(f"{where}: {name} needs a name in quotes")
        elif why := _refused(name, value):
            faults.append(f"{where}: {why}")
        else:
            chosen[name] = value
    return chosen


def _notify(path: Path, text: str, raw: object, faults: list[str]) -> Notify:
    """Return the settings of the table ``[notify]``; a faulty one is reported and ignored."""
    if not isinstance(raw, dict):
        faults.append(f"{path}: line {line_of(text, 'notify')}: notify is not a table")
        return Notify()
    chosen: dict[str, Any] = {}
    for name, value in raw.items():
        words = isinstance(value, list) and all(isinstance(each, str) for each in value)
        if name in ("bell", "desktop", "title", "always"):
            why = "" if isinstance(value, bool) else f"{name} is true or false"
        elif name == "on":
            known = words and set(value) <= set(NOTICES)
            why = "" if known else f"on is a list of: {', '.join(NOTICES)}"
        elif name == "command":
            right = words and (not value or value[0])
            why = "" if right else 'command is a list of words, such as ["notify-send", "akg-tui"]'
        else:
            why = f"no setting {name!r}; there are: {', '.join(Notify.__dataclass_fields__)}"
        if why:
            faults.append(f"{path}: line {line_of(text, name, 'notify')}: {why}")
        else:
            chosen[name] = tuple(value) if words else value
    return Notify(**chosen)


def _refused(name: str, value: str) -> str:
    choices = _CHOICES.get(name)
    if name == "borders":
        try:
            read_borders(value)
        except ValueError as error:
            return f"borders cannot be read: {error}"
    if choices and value not in choices:
        return f"{name} cannot be {value!r}; it can be: {', '.join(choices)}"
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

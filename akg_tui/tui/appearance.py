"""Settings that change while the workbench runs: theme, keys, language, signs, motion, layout.

Writes the person's `config.toml` only on request, and only settings that differ from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui import resources
from akg_tui.store.user_files.user_folders import config_folder
from akg_tui.tui.keyboard import apply_keymap, folders, rekey
from akg_tui.tui.themes import (
    DEFAULT,
    AsciiOnly,
    BadTheme,
    Inks,
    NoColour,
    find,
    load_all,
    user_folder,
)
from akg_tui.tui.widgets.painted import FaultShowing
from akg_tui.view import language
from akg_tui.view.controls import keymap as km
from akg_tui.view.controls.command_registry import KEYMAPS, LANGUAGES, THEMES, Argument, way_to
from akg_tui.view.controls.pane_borders import borders_text, read_borders
from akg_tui.view.controls.preferences import (
    GLYPHS,
    LAYOUTS,
    MOTIONS,
    SORTS,
    TAGS,
    VARIABLES,
    Preferences,
    preferences,
    utf8_terminal,
)
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.app import App
    from textual.dom import DOMNode
    from textual.filter import LineFilter

    from akg_tui.tui.pull_clock import PullClock
    from akg_tui.view.controls.deck_layout import Borders

WATCH_S = 1.0


DEFAULTS = {
    "theme": DEFAULT,
    "keymap": km.DEFAULT,
    "lang": language.ENGLISH,
    "glyphs": GLYPHS[0],
    "motion": MOTIONS[0],
    "layout": LAYOUTS[0],
    "sort": SORTS[0],
    "borders": "",
    "tags": TAGS[1],
}
"""The settings that can change, each with its value if no preference is set."""


def files_signature() -> tuple[tuple[str, int, int], ...]:
    """Return path, mtime in ns and size of the settings file and each theme and keymap file."""
    config = config_folder()
    folders_ = (resources.themes(), config / "themes", config / "keymaps")
    found: list[tuple[str, int, int]] = []
    for path in (config / "config.toml", *(each for f in folders_ for each in f.glob("*.toml"))):
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((str(path), status.st_mtime_ns, status.st_size))
    return tuple(found)


class Appearance:
    """Applies a theme, a keymap, a language, signs, motion and layout to the app.

    Parameters
    ----------
    app : App
        The app whose colours, bindings and words change. It finds the `action_*` methods here.
    clock : PullClock
        The clock; reduced motion slows its pace.
    theme : str, optional
        Name of a theme; it overrides the preferred theme.
    wanted : Preferences, optional
        If None, preferences are read from the environment and the person's files.
    say : callable
        Shows a message to the person.
    open_line : callable
        Opens the ``:`` line with a text, to ask for an argument.
    """

    def __init__(
        self,
        app: App[int],
        clock: PullClock,
        theme: str | None,
        wanted: Preferences | None,
        *,
        say: Callable[[str], None],
        open_line: Callable[[str], None],
    ) -> None:
        self._app = app
        self._clock = clock
        self._say = say
        self._open_line = open_line
        self.wanted = preferences() if wanted is None else wanted
        self._previewed = ""
        self.filters: list[LineFilter] = []
        faults = list(self.wanted.faults)
        self._asked_theme = theme or self.wanted.theme or DEFAULT
        system = app.console.color_system or ""
        self._colours = {"standard": 16, "256": 256}.get(system)  # None: 24-bit colours
        folders_ = _theme_folders()
        first = find(self._asked_theme, folders_, self._colours)
        first = first or find(DEFAULT, folders_, self._colours)
        if first is None:
            _, bad = load_all(folders_)
            raise BadTheme(f"the default theme {DEFAULT} cannot be used: {'; '.join(bad)}")
        self.themes = {first.name: first}
        self.borders: Borders = {}
        self.tags = False  # whether people see the agent's hashline tags
        self._app.register_theme(first.for_textual())
        km.use(km.Keymap(km.DEFAULT))
        for name, default in DEFAULTS.items():
            value = first.name if name == "theme" else getattr(self.wanted, name) or default
            faults += self._use(name, value)
        self.faults = faults

    def _use(self, name: str, value: str) -> list[str]:
        """Apply a value of a setting. Return the faults."""
        match name:
            case "theme":
                self.apply_theme(value)
            case "keymap":
                places, wanted = folders(config_folder()), self.wanted
                faults = apply_keymap(value, places, wanted.keys, wanted.config)
                self.rekey()
                return faults
            case "lang":
                language.speak(value)
            case "glyphs":
                self.filters = [NoColour()] if self.wanted.no_colour else []
                if value == "ascii":
                    self.filters.append(AsciiOnly())
            case "motion" if (reduced := value == "reduced") != self._clock.pace.reduced:
                self._clock.pace.reduced = reduced
                self._app.animation_level = "none" if reduced else "full"
            case "layout":
                self.deck_layout = value
            case "sort":
                self.runs_sort = value
            case "borders":
                self.borders = read_borders(value)
            case "tags":
                self.tags = value == "on"
        return []

    def read_all_themes(self) -> list[str]:
        """Read all themes; the first frame needed only one. Return the faults."""
        faults = self._read_themes()
        if self._asked_theme not in self.themes:
            known = ", ".join(sorted(self.themes))
            faults.append(f"there is no theme {self._asked_theme}; there are: {known}")
        elif self.themes[self._asked_theme] != self.inks.theme:
            self.apply_theme(self._asked_theme)  # a file whose `name` differs from its file name
        return faults

    def _read_themes(self) -> list[str]:
        """Read all themes again; keep the theme in use even if its file is gone or bad."""
        shown = self.inks.theme
        found, faults = load_all(_theme_folders(), self._colours)
        self.themes = {shown.name: shown, **found}
        for each in self.themes.values():
            self._app.register_theme(each.for_textual())
        return faults

    def watch_files(self) -> None:
        """Check the files for changes every `WATCH_S` seconds. Call when the app runs."""
        self._files = files_signature()
        self._app.set_interval(WATCH_S, self.read_changed_files, name="settings files")

    def read_changed_files(self) -> None:
        """Apply the files if any has changed on disk."""
        if self._files != files_signature():
            self.read_settings_again()

    def read_settings_again(self, told: str = "") -> None:
        """Apply the person's files again; show `told`, else the faults, else that it was done."""
        self._files = files_signature()
        before, self.wanted = self.wanted, preferences(self.wanted.options)
        faults = [*self.wanted.faults, *self._read_themes()]
        # The files of the theme and of the keymap in use may have changed too.
        in_use = {"theme": self._app.theme, "keymap": km.current().name}
        for name, default in DEFAULTS.items():
            asked = getattr(self.wanted, name)
            changed = asked != getattr(before, name)
            if name in in_use:
                known = asked in self.themes if name == "theme" else bool(asked)
                faults += self._use(name, asked if changed and known else in_use[name])
            elif changed:
                self._use(name, asked or default)
        self.reword()
        again = "; ".join(faults) if faults else tr("your settings were read again")
        self._say(told or again)

    def apply_theme(self, name: str) -> None:
        """Change the theme at once."""
        self.inks = Inks(self.themes[name])
        # Without hues the focus is shown by the frame and the title of a pane.
        colourless = self.wanted.no_colour or self.themes[name].grey
        self._app.set_class(colourless, "-colourless")
        same = self._app.theme == name
        self._app.theme = name
        if same:
            self._app.refresh_css(animate=False)

    def preview(self, theme: str) -> None:
        """Show a theme while it is selected in a list; ``""`` restores the theme in use before."""
        if theme and theme in self.themes:
            self._previewed = self._previewed or self._app.theme
            self.apply_theme(theme)
        elif not theme and self._previewed:
            self.apply_theme(self._previewed)
            self._previewed = ""

    def action_setting(self, name: str, value: str = "") -> None:
        """Apply a value of a setting; without `value`, ask for one on the ``:`` line."""
        if name == "theme":
            self._previewed = ""
        fixed = {"glyphs": GLYPHS, "motion": MOTIONS}.get(name, (value,))
        known = {"theme": sorted(self.themes), "lang": list(language.LANGUAGES)}.get(name, [value])
        if not value or value not in fixed:
            self._open_line("language " if name == "lang" else f"{name} ")
        elif value not in known:
            names = ", ".join(known)
            self._say(
                tr("there is no theme {name}; there are: {known}", name=value, known=names)
                if name == "theme"
                else tr("there is no language {name}; there are: {known}", name=value, known=names)
            )
        else:
            faults = self._use(name, value)
            told = {
                "theme": tr("theme {name}", name=value),
                "keymap": tr("keymap {name}", name=value),
                "lang": language.LANGUAGES.get(value, ""),
                "glyphs": tr("signs: {name}", name=value),
                "motion": tr("motion: {name}", name=value),
            }[name]
            if name in ("keymap", "lang", "glyphs"):
                self.reword()
            self._say("; ".join(faults) or self.with_save_hint(name, told))

    def action_tags(self) -> None:
        """Show the agent's hashline tags beside the lines of kernels, or hide them."""
        self._use("tags", TAGS[1 if self.tags else 0])
        self.reword()
        told = tr("with the agent's tags") if self.tags else tr("without the agent's tags")
        self._say(self.with_save_hint("tags", told))

    def rekey(self) -> None:
        """Bind the keys of the current keymap, on the app and every screen and widget with keys."""
        rekey(self._app, None)
        if self._app.is_running:
            for node in self._nodes():
                if hasattr(node, "rekey"):
                    node.rekey()
            self._app.screen.refresh_bindings()

    def _nodes(self) -> Iterator[DOMNode]:
        """Yield all screens, each with its widgets that have words or keys."""
        for screen in self._app.screen_stack:
            yield screen
            yield from screen.walk_children(FaultShowing)

    def reword(self) -> None:
        """Rewrite every word on screen, in another language or with other keys."""
        for node in self._nodes():
            if hasattr(node, "reword"):
                node.reword()
        self._app.refresh_css(animate=False)
        self._clock.now()

    def choices(self, argument: Argument) -> list[str]:
        """Return the values that are allowed for an argument now."""
        match argument.choices:
            case (kind,) if kind == THEMES:
                return sorted(self.themes)
            case (kind,) if kind == KEYMAPS:
                return km.names(folders(config_folder()))
            case (kind,) if kind == LANGUAGES:
                return list(language.LANGUAGES)
            case words:
                return list(words)

    def sent(self, codes: str) -> str:
        """Return control codes with the signs that are allowed in this terminal."""
        from akg_tui.view.glyphs import ascii_twin  # not for the first screen

        ascii_only = any(isinstance(each, AsciiOnly) for each in self.filters)
        return ascii_twin(codes) if ascii_only else codes

    def current_settings(self) -> dict[str, str]:
        """Return the settings in use, with the names and values of ``config.toml``."""
        ascii_only = any(isinstance(each, AsciiOnly) for each in self.filters)
        return {
            "theme": self._previewed or self._app.theme,
            "keymap": km.current().name,
            "lang": language.spoken(),
            "glyphs": GLYPHS[ascii_only],
            "motion": MOTIONS[self._clock.pace.reduced],
            "layout": self.deck_layout,
            "sort": self.runs_sort,
            "borders": borders_text(self.borders),
            "tags": TAGS[0 if self.tags else 1],
        }

    def with_save_hint(self, setting: str, told: str) -> str:
        """Return `told`, with the key that saves `setting` if the next start would not have it."""
        if self.current_settings()[setting] == self._at_start(self.wanted)[setting]:
            return told
        keeps = tr("{key} keeps it", key=way_to("look.save"))
        return f"{told}; {keeps}"

    def unsaved(self) -> dict[str, str]:
        """Return the settings in use that the next start would not have."""
        environment = {k: v for k, v in os.environ.items() if k not in VARIABLES.values()}
        theirs = self._at_start(preferences(environment=environment))
        # A terminal without UTF-8 forces these two settings: they were not chosen.
        forced = () if utf8_terminal(environment) else ("lang", "glyphs")
        return {
            name: value
            for name, value in self.current_settings().items()
            if value != theirs[name] and name not in forced
        }

    def _at_start(self, asked: Preferences) -> dict[str, str]:
        """Return the settings after a start with these preferences; defaults for unknown values."""
        known = {"theme": self.themes, "keymap": km.names(folders(config_folder()))}
        return {
            name: value
            if (value := getattr(asked, name)) and value in known.get(name, (value,))
            else default
            for name, default in DEFAULTS.items()
        }

    def action_save_settings(self) -> None:
        self._app.run_worker(self._save_settings(), name="save the settings")

    async def _save_settings(self) -> None:
        from akg_tui.view.controls.settings_file import NotWritten, write_settings

        path = config_folder() / "config.toml"
        chosen = self.unsaved()
        if not chosen:
            self._say(tr("nothing to keep: the next start looks like this anyway"))
            return
        try:
            await asyncio.to_thread(write_settings, path, chosen)
        except NotWritten as error:
            self._say(tr("not kept: {why}", why=error))
            return
        names = ", ".join(f"{name} {value}" for name, value in chosen.items())
        told = tr("kept in {path}: {names}", path=path, names=names)
        before = [VARIABLES[name] for name in chosen if os.environ.get(VARIABLES[name])]
        if before:
            told += f"; {tr('the environment goes before it ({names})', names=', '.join(before))}"
        self.read_settings_again(told)


def _theme_folders() -> tuple[Path, ...]:
    return resources.themes(), user_folder()

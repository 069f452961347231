"""Settings that change while the workbench runs: theme, keys, language, signs, motion, layout.

Reads the person's `config.toml`; a message says what to write there to keep a setting.
"""

from __future__ import annotations

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
from akg_tui.view.controls.command_registry import KEYMAPS, LANGUAGES, THEMES, Argument
from akg_tui.view.controls.preferences import (
    GLYPHS,
    LAYOUTS,
    MOTIONS,
    SORTS,
    Preferences,
    preferences,
)
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.app import App
    from textual.dom import DOMNode
    from textual.filter import LineFilter

    from akg_tui.tui.pull_clock import PullClock

DEFAULTS = {
    "theme": DEFAULT,
    "keymap": km.DEFAULT,
    "lang": language.ENGLISH,
    "glyphs": GLYPHS[0],
    "motion": MOTIONS[0],
    "layout": LAYOUTS[0],
    "sort": SORTS[0],
}
"""The settings that can change, each with its value if no preference is set."""


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
        self._all_themes_read = False
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
        return []

    def read_all_themes(self) -> None:
        """Read all themes, unless that was done: the first screen needs only one."""
        if self._all_themes_read:
            return
        self._all_themes_read = True
        self.faults += self._read_themes()
        if self._asked_theme not in self.themes:
            known = ", ".join(sorted(self.themes))
            self.faults.append(f"there is no theme {self._asked_theme}; there are: {known}")
        elif self.themes[self._asked_theme] != self.inks.theme:
            self.apply_theme(self._asked_theme)  # a file whose `name` differs from its file name

    def _read_themes(self) -> list[str]:
        """Read all themes again; keep the theme in use even if its file is gone or bad."""
        shown = self.inks.theme
        found, faults = load_all(_theme_folders(), self._colours)
        self.themes = {shown.name: shown, **found}
        for each in self.themes.values():
            self._app.register_theme(each.for_textual())
        return faults

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
        if not value:
            self._open_line("language " if name == "lang" else f"{name} ")
            return
        bad: list[str] = []
        if name == "theme":
            self._previewed = ""
            # A file may have been changed since.
            bad = [each for each in self._read_themes() if f"{value}.toml" in each]
            if value not in self.themes:
                known = ", ".join(sorted(self.themes))
                gone = tr("there is no theme {name}; there are: {known}", name=value, known=known)
                self._say("; ".join(bad) or gone)
                return
        faults = bad + self._use(name, value)
        told = {
            "theme": tr("theme {name}", name=value),
            "keymap": tr("keymap {name}", name=value),
            "lang": language.LANGUAGES.get(value, ""),
            "glyphs": tr("signs: {name}", name=value),
            "motion": tr("motion: {name}", name=value),
        }[name]
        if name in ("keymap", "lang", "glyphs"):
            self.reword()
        self._say("; ".join(faults) or self.with_way_to_keep(name, value, told))

    def with_way_to_keep(self, name: str, value: str, told: str) -> str:
        """Return `told`, with the line of ``config.toml`` that keeps a value for the next start."""
        if value == (getattr(self.wanted, name) or DEFAULTS[name]):
            return told
        from akg_tui.view.run_rows import home_path  # not for the first screen

        path = home_path(config_folder() / "config.toml")
        keeps = tr("{row} in {path} keeps it", row=f'{name} = "{value}"', path=path)
        return f"{told}; {keeps}"

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
                self.read_all_themes()
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


def _theme_folders() -> tuple[Path, ...]:
    return resources.themes(), user_folder()

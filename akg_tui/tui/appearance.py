"""Settings that change while the workbench runs: theme, keys, language, signs, motion, layout.

Writes the person's `config.toml` only on request, and only the settings that it lacks.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui import resources
from akg_tui.tui.keyboard import Keyed, Reworded, apply_keymap, folders, rekey
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
from akg_tui.view import language
from akg_tui.view.controls import keymap as km
from akg_tui.view.controls.command_registry import KEYMAPS, LANGUAGES, THEMES, Argument, way_to
from akg_tui.view.controls.preferences import (
    GLYPHS,
    LAYOUTS,
    MOTIONS,
    SORTS,
    VARIABLES,
    Preferences,
    config_folder,
    preferences,
    utf8_terminal,
)
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App
    from textual.filter import LineFilter

    from akg_tui.tui.pull_clock import PullClock

WATCH_S = 1.0


class WatchedFiles:
    """The files of settings, themes and keymaps, and whether one of them has changed."""

    def __init__(self) -> None:
        self._seen = self._signature()

    def changed(self) -> bool:
        """Whether a file was written, came or went since the last time."""
        now = self._signature()
        changed, self._seen = now != self._seen, now
        return changed

    @staticmethod
    def _signature() -> tuple[tuple[str, int, int], ...]:
        config = config_folder()
        found: list[tuple[str, int, int]] = []
        folders_ = (resources.themes(), config / "themes", config / "keymaps")
        paths: Iterable[Path] = [config / "config.toml"]
        for path in (*paths, *(each for f in folders_ for each in f.glob("*.toml"))):
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((str(path), status.st_mtime_ns, status.st_size))
        return tuple(found)


class Appearance:
    """Applies a theme, a keymap, a language, signs, motion and layout to the app.

    Parameters
    ----------
    app : App
        Its colours, bindings and words are changed. It offers the `action_*` methods as its own.
    clock : PullClock
        Its pace follows the motion.
    theme : str, optional
        Name of a theme, over the preferred one.
    wanted : Preferences, optional
        Read from the environment and the person's files where it is None.
    say : callable
        Tells the person something.
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
        self.deck_layout = self.wanted.layout or LAYOUTS[0]
        self.runs_sort = self.wanted.sort or SORTS[0]
        clock.pace.reduced = self.wanted.motion == "reduced"
        faults = list(self.wanted.faults)
        self._asked_theme = theme or self.wanted.theme or DEFAULT
        first = find(self._asked_theme, _theme_folders()) or find(DEFAULT, _theme_folders())
        if first is None:
            _, bad = load_all(_theme_folders())
            raise BadTheme(f"the default theme {DEFAULT} cannot be used: {'; '.join(bad)}")
        self.themes = {first.name: first}
        self._app.register_theme(first.for_textual())
        self.inks = Inks(first)
        self._app.theme = first.name
        language.speak(self.wanted.lang or language.ENGLISH)
        self._set_filters(ascii_only=self.wanted.glyphs == "ascii")
        if self.wanted.motion == "reduced":
            self._app.animation_level = "none"
        km.use(km.Keymap(km.DEFAULT))
        faults += self._apply_keymap(self.wanted.keymap or km.DEFAULT)
        self.rekey()
        self.faults = faults

    def read_all_themes(self) -> list[str]:
        """Read all themes; the first frame waited for one only. Returns what was wrong."""
        faults = self._read_themes()
        if self._asked_theme not in self.themes:
            known = ", ".join(sorted(self.themes))
            faults.append(f"there is no theme {self._asked_theme}; there are: {known}")
        elif self.themes[self._asked_theme] != self.inks.theme:
            self.apply_theme(self._asked_theme)  # a file that calls itself otherwise
        return faults

    def _read_themes(self) -> list[str]:
        """All themes of the folders anew; the one in use stays if its file is gone, or bad."""
        shown = self.inks.theme
        found, faults = load_all(_theme_folders())
        self.themes = {shown.name: shown, **found}
        for each in self.themes.values():
            self._app.register_theme(each.for_textual())
        return faults

    def watch_files(self) -> None:
        """Look for changed files from now on. Called when the app runs."""
        self._files = WatchedFiles()
        self._app.set_interval(WATCH_S, self.read_changed_files, name="settings files")

    def read_changed_files(self) -> None:
        """Apply what has changed on disk."""
        if self._files.changed():
            self.read_settings_again()

    def read_settings_again(self, told: str = "") -> None:
        """Apply what the person's files say now, and say `told`, or what is wrong in them."""
        self._files.changed()
        before = self.wanted
        self.wanted = preferences(before.options)
        faults = list(self.wanted.faults)
        faults += self._read_themes()
        name = self._app.theme
        if self.wanted.theme != before.theme and self.wanted.theme in self.themes:
            name = self.wanted.theme
        self.apply_theme(name)
        keys = km.current().name
        if self.wanted.keymap and self.wanted.keymap != before.keymap:
            keys = self.wanted.keymap
        faults += self._apply_keymap(keys)
        self.rekey()
        if self.wanted.lang != before.lang:
            language.speak(self.wanted.lang or language.ENGLISH)
        if self.wanted.glyphs != before.glyphs:
            self._set_filters(ascii_only=self.wanted.glyphs == "ascii")
        if self.wanted.motion != before.motion:
            self._set_motion(reduced=self.wanted.motion == "reduced")
        if self.wanted.layout != before.layout:
            self.deck_layout = self.wanted.layout or LAYOUTS[0]
        if self.wanted.sort != before.sort:
            self.runs_sort = self.wanted.sort or SORTS[0]
        self.reword()
        again = "; ".join(faults) if faults else tr("your settings were read again")
        self._say(told or again)

    def apply_theme(self, name: str) -> None:
        """Change the theme at once."""
        self.inks = Inks(self.themes[name])
        same = self._app.theme == name
        self._app.theme = name
        if same:
            self._app.refresh_css(animate=False)

    def preview(self, theme: str) -> None:
        """Show a theme while it is selected in a list; ``""`` goes back to the one before."""
        if theme and theme in self.themes:
            self._previewed = self._previewed or self._app.theme
            self.apply_theme(theme)
        elif not theme and self._previewed:
            self.apply_theme(self._previewed)
            self._previewed = ""

    def action_theme_named(self, name: str = "") -> None:
        self._previewed = ""
        if not name:
            self._open_line("theme ")
        elif name in self.themes:
            self.apply_theme(name)
            self._say(self.with_save_hint("theme", tr("theme {name}", name=name)))
        else:
            known = ", ".join(sorted(self.themes))
            self._say(tr("there is no theme {name}; there are: {known}", name=name,
                                known=known))  # fmt: skip

    def action_keymap_named(self, name: str = "") -> None:
        if not name:
            self._open_line("keymap ")
            return
        faults = self._apply_keymap(name)
        self.rekey()
        self.reword()
        told = self.with_save_hint("keymap", tr("keymap {name}", name=name))
        self._say("; ".join(faults) if faults else told)

    def action_language_named(self, name: str = "") -> None:
        if not name:
            self._open_line("language ")
        elif name not in language.LANGUAGES:
            known = ", ".join(language.LANGUAGES)
            self._say(tr("there is no language {name}; there are: {known}", name=name,
                                known=known))  # fmt: skip
        else:
            language.speak(name)
            self._say(self.with_save_hint("lang", language.LANGUAGES[name]))
            self.reword()

    def action_glyphs_named(self, name: str = "") -> None:
        if name not in ("unicode", "ascii"):
            self._open_line("glyphs ")
            return
        self._set_filters(ascii_only=name == "ascii")
        self._app.refresh_css(animate=False)
        self._say(self.with_save_hint("glyphs", tr("signs: {name}", name=name)))

    def action_motion_named(self, name: str = "") -> None:
        if name not in ("full", "reduced"):
            self._open_line("motion ")
            return
        self._set_motion(reduced=name == "reduced")
        self._say(self.with_save_hint("motion", tr("motion: {name}", name=name)))

    def _set_motion(self, *, reduced: bool) -> None:
        self._app.animation_level = "none" if reduced else "full"
        self._clock.pace.reduced = reduced

    def _apply_keymap(self, name: str) -> list[str]:
        return apply_keymap(name, folders(config_folder()), self.wanted.keys, self.wanted.config)

    def rekey(self) -> None:
        """Bind the keys of the keymap of now, on the app and on every screen that has any."""
        rekey(self._app)
        if not self._app.is_running:
            return
        for screen in self._app.screen_stack:
            rekey(screen)
            for widget in screen.query("*"):
                if isinstance(widget, Keyed):
                    widget.rekey()
        self._app.screen.refresh_bindings()

    def reword(self) -> None:
        """Every word on screen anew: in another language, or with other keys."""
        for screen in self._app.screen_stack:
            for node in (screen, *screen.walk_children()):
                if isinstance(node, Reworded):
                    node.reword()
        self._app.refresh_css(animate=False)
        self._clock.now()

    def _set_filters(self, *, ascii_only: bool) -> None:
        self.filters = []
        if self.wanted.no_colour:
            self.filters.append(NoColour())
        if ascii_only:
            self.filters.append(AsciiOnly())

    def choices(self, argument: Argument) -> list[str]:
        """What may stand for an argument, now."""
        match argument.choices:
            case (kind,) if kind == THEMES:
                return sorted(self.themes)
            case (kind,) if kind == KEYMAPS:
                return km.names(folders(config_folder()))
            case (kind,) if kind == LANGUAGES:
                return list(language.LANGUAGES)
            case words:
                return list(words)

    def current_settings(self) -> dict[str, str]:
        """The settings in use, as ``config.toml`` would say them."""
        ascii_only = any(isinstance(each, AsciiOnly) for each in self.filters)
        return {
            "theme": self._previewed or self._app.theme,
            "keymap": km.current().name,
            "lang": language.spoken(),
            "glyphs": GLYPHS[ascii_only],
            "motion": MOTIONS[self._clock.pace.reduced],
            "layout": self.deck_layout,
            "sort": self.runs_sort,
        }

    def with_save_hint(self, setting: str, told: str) -> str:
        """`told`, and how the setting chosen just now is kept, where a start would lack it."""
        if self.current_settings()[setting] == self._at_start(self.wanted)[setting]:
            return told
        keeps = tr("{key} keeps it", key=way_to("look.save"))
        return f"{told}; {keeps}"

    def unsaved(self) -> dict[str, str]:
        """The settings in use that the next start would not have."""
        environment = {k: v for k, v in os.environ.items() if k not in VARIABLES.values()}
        theirs = self._at_start(preferences(environment=environment))
        # Signs and language of a terminal that cannot show others were not chosen.
        forced = () if utf8_terminal(environment) else ("lang", "glyphs")
        return {
            name: value
            for name, value in self.current_settings().items()
            if value != theirs[name] and name not in forced
        }

    def _at_start(self, asked: Preferences) -> dict[str, str]:
        """The settings of a start with these preferences; a missing theme is the default one."""
        keymaps = km.names(folders(config_folder()))
        return {
            "theme": asked.theme if asked.theme in self.themes else DEFAULT,
            "keymap": asked.keymap if asked.keymap in keymaps else km.DEFAULT,
            "lang": asked.lang or language.ENGLISH,
            "glyphs": asked.glyphs or GLYPHS[0],
            "motion": asked.motion or MOTIONS[0],
            "layout": asked.layout or LAYOUTS[0],
            "sort": asked.sort or SORTS[0],
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
        self.read_settings_again(_told(path, chosen))


def _told(path: Path, chosen: dict[str, str]) -> str:
    names = ", ".join(f"{name} {value}" for name, value in chosen.items())
    told = tr("kept in {path}: {names}", path=path, names=names)
    before = [VARIABLES[name] for name in chosen if os.environ.get(VARIABLES[name])]
    if before:
        told += f"; {tr('the environment goes before it ({names})', names=', '.join(before))}"
    return told


def _theme_folders() -> tuple[Path, ...]:
    return resources.themes(), user_folder()

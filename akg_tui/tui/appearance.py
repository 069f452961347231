"""What a person can change about the workbench live: theme, keys, language, signs, motion, layout.

A look that was chosen live is offered where it was chosen, and written into the person's
`config.toml` when they say so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.actions import parse
from textual.events import DescendantFocus, Key
from textual.widgets import Input

from akg_tui import resources
from akg_tui.tui.keyboard import Chords, Keyed, folders, place_of, put_on, rekeyed
from akg_tui.tui.themes import (
    DEFAULT,
    AsciiOnly,
    BadTheme,
    Inked,
    Inks,
    NoColour,
    find,
    load_all,
    user_folder,
)
from akg_tui.view import language
from akg_tui.view.controls import keymap as km
from akg_tui.view.controls.command_registry import (
    KEYMAPS,
    LANGUAGES,
    THEMES,
    Argument,
    Command,
    at,
    way_to,
    within,
)
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
    from textual.app import App
    from textual.dom import DOMNode
    from textual.filter import LineFilter

    from akg_tui.tui.screens.run_screen import Watching
    from akg_tui.tui.widgets.approval_card import Ident

    _Base = App[int]
else:
    _Base = object

WATCH_S = 1.0


class Wardrobe:
    """The files that a look comes from, and whether one of them has changed."""

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


if TYPE_CHECKING:
    from pathlib import Path

    from textual.app import App
    from textual.filter import LineFilter

    from akg_tui.tui.pull_clock import PullClock
    from akg_tui.tui.themes import Theme

    _KeepingBase = App[int]
else:
    _KeepingBase = object


class Keeping(_KeepingBase):
    """An app whose look can be kept for the next start."""

    themes: dict[str, Theme]
    clock: PullClock
    wanted: Preferences
    deck_layout: str
    runs_sort: str
    _previewed: str
    _filters_of_ours: list[LineFilter]

    def worn(self) -> dict[str, str]:
        """How the workbench looks now, as ``config.toml`` would say it."""
        ascii_only = any(isinstance(each, AsciiOnly) for each in self._filters_of_ours)
        return {
            "theme": self._previewed or self.theme,
            "keymap": km.worn().name,
            "lang": language.spoken(),
            "glyphs": GLYPHS[ascii_only],
            "motion": MOTIONS[self.clock.pace.reduced],
            "layout": self.deck_layout,
            "sort": self.runs_sort,
        }

    def offered(self, setting: str, told: str) -> str:
        """`told`, and how the setting chosen just now is kept, where a start would lack it."""
        if self.worn()[setting] == self._at_start(self.wanted)[setting]:
            return told
        keeps = tr("{key} keeps it", key=way_to("look.save"))
        return f"{told}; {keeps}"

    def unkept(self) -> dict[str, str]:
        """What is worn now and the files of the person would not have at the next start."""
        environment = {k: v for k, v in os.environ.items() if k not in VARIABLES.values()}
        theirs = self._at_start(preferences(environment=environment))
        # Signs and language of a terminal that cannot show others were not chosen.
        forced = () if utf8_terminal(environment) else ("lang", "glyphs")
        return {
            name: value
            for name, value in self.worn().items()
            if value != theirs[name] and name not in forced
        }

    def _at_start(self, asked: Preferences) -> dict[str, str]:
        """What a start with these preferences would wear: what is not there is not worn."""
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

    def action_save_looks(self) -> None:
        self.run_worker(self._save_looks(), name="save the looks")

    async def _save_looks(self) -> None:
        from akg_tui.view.controls.settings_file import NotWritten, write_settings

        path = config_folder() / "config.toml"
        chosen = self.unkept()
        if not chosen:
            self.tell_person(tr("nothing to keep: the next start looks like this anyway"))
            return
        try:
            await asyncio.to_thread(write_settings, path, chosen)
        except NotWritten as error:
            self.tell_person(tr("not kept: {why}", why=error))
            return
        self.read_settings_again(_told(path, chosen))

    def read_settings_again(self, told: str) -> None:
        """Wear what the person's files say now."""
        raise NotImplementedError

    def tell_person(self, text: str) -> None:
        """Say something in the footer."""
        raise NotImplementedError


def _told(path: Path, chosen: dict[str, str]) -> str:
    names = ", ".join(f"{name} {value}" for name, value in chosen.items())
    told = tr("kept in {path}: {names}", path=path, names=names)
    before = [VARIABLES[name] for name in chosen if os.environ.get(VARIABLES[name])]
    if before:
        told += f"; {tr('the environment goes before it ({names})', names=', '.join(before))}"
    return told


class Dressed(Keeping, Inked, _Base):
    """An app that wears a theme, a keymap and a language."""

    answerable: Ident | None = None
    """What could be answered when the last key was pressed that went to no dialog and went on
    with no chord: a key that counts as typing had not counted yet.
    """
    vouched: Ident | None = None
    """While a command is carried out by its name or its chord: what was answerable when its
    line, the palette or the chord was begun.
    """
    typing = False
    _dressing: asyncio.Task[None] | None = None
    """Whether the last key may be part of something written."""

    def wall_clock(self) -> float:
        """Seconds since the epoch."""
        raise NotImplementedError

    def dress(self, theme: str | None, wanted: Preferences | None) -> list[str]:
        """Put everything on for the first time; what was wrong is returned."""
        self.wanted = preferences() if wanted is None else wanted
        self.chords = Chords()
        self._previewed = ""
        self._filters_of_ours = []
        self.deck_layout = self.wanted.layout or LAYOUTS[0]
        self.runs_sort = self.wanted.sort or SORTS[0]
        faults = list(self.wanted.faults)
        self._wished = theme or self.wanted.theme or DEFAULT
        worn = find(self._wished, _theme_folders()) or find(DEFAULT, _theme_folders())
        if worn is None:
            _, bad = load_all(_theme_folders())
            raise BadTheme(f"the default theme {DEFAULT} cannot be used: {'; '.join(bad)}")
        self.themes = {worn.name: worn}
        self.register_theme(worn.for_textual())
        self.inks = Inks(worn)
        self.theme = worn.name
        language.speak(self.wanted.lang or language.ENGLISH)
        self._set_filters(ascii_only=self.wanted.glyphs == "ascii")
        if self.wanted.motion == "reduced":
            self.animation_level = "none"
        km.wear(km.Keymap(km.DEFAULT))
        faults += self._put_keys_on(self.wanted.keymap or km.DEFAULT)
        self.rekey()
        return faults

    def take_all_themes(self) -> list[str]:
        """Read all themes but the one worn, which the first frame had to wait for; what was
        wrong is returned.
        """
        faults = self._read_themes()
        if self._wished not in self.themes:
            known = ", ".join(sorted(self.themes))
            faults.append(f"there is no theme {self._wished}; there are: {known}")
        elif self.themes[self._wished] != self.inks.theme:
            self.wear(self._wished)  # a file that calls itself otherwise
        return faults

    def _read_themes(self) -> list[str]:
        """All themes of the folders anew; the one worn stays if its file is gone, or bad."""
        worn = self.inks.theme
        found, faults = load_all(_theme_folders())
        self.themes = {worn.name: worn, **found}
        for each in self.themes.values():
            self.register_theme(each.for_textual())
        return faults

    def watch_wardrobe(self) -> None:
        """Look for changed files from now on. Called when the app runs."""
        self._wardrobe = Wardrobe()
        self.set_interval(WATCH_S, self.look_at_wardrobe, name="wardrobe")

    def look_at_wardrobe(self) -> None:
        """Wear what has changed on disk."""
        if self._wardrobe.changed():
            self.read_settings_again()

    def read_settings_again(self, told: str = "") -> None:
        """Wear what the person's files say now, and say `told`, or what is wrong in them."""
        self._wardrobe.changed()
        before = self.wanted
        self.wanted = preferences(before.options)
        faults = list(self.wanted.faults)
        faults += self._read_themes()
        name = self.theme
        if self.wanted.theme != before.theme and self.wanted.theme in self.themes:
            name = self.wanted.theme
        self.wear(name)
        keys = km.worn().name
        if self.wanted.keymap and self.wanted.keymap != before.keymap:
            keys = self.wanted.keymap
        faults += self._put_keys_on(keys)
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
        self._say_anew()
        again = "; ".join(faults) if faults else tr("your settings were read again")
        self.tell_person(told or again)

    def wear(self, name: str) -> None:
        """Change the theme at once."""
        self.inks = Inks(self.themes[name])
        same = self.theme == name
        self.theme = name
        if same:
            self.refresh_css(animate=False)

    def refresh_css(self, animate: bool = True) -> None:
        if not self.screen_stack:
            # Nothing stands yet: what is read for the first screen has these colours already.
            self.stylesheet.set_variables(self.get_css_variables())
            return
        if self._dressing is not None:
            self._dressing.cancel()
        self._dressing = asyncio.create_task(self._dress_anew())
        self._dressing.add_done_callback(self._dressed)

    def _dressed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._handle_exception(error)

    async def _dress_anew(self) -> None:
        """Textual's `refresh_css` in parts, between which keys are heard and nothing is painted.

        Besides, Textual counts a modal screen neither to the app's own nodes nor to the screens
        below it.
        """
        with self.batch_update():
            self.stylesheet.set_variables(self.get_css_variables())
            self.stylesheet.reparse()
            for screen in self.screen_stack:
                await asyncio.sleep(0)
                self.stylesheet.update(screen)
                screen._css_update_count = self._css_update_count
            await asyncio.sleep(0)
            self.stylesheet.update_nodes([self])
        self.screen.refresh(layout=True)

    def preview(self, theme: str) -> None:
        """Wear a theme while it is looked at in a list; ``""`` goes back to the one before."""
        if theme and theme in self.themes:
            self._previewed = self._previewed or self.theme
            self.wear(theme)
        elif not theme and self._previewed:
            self.wear(self._previewed)
            self._previewed = ""

    def action_theme_named(self, name: str = "") -> None:
        self._previewed = ""
        if not name:
            self.open_line("theme ")
        elif name in self.themes:
            self.wear(name)
            self.tell_person(self.offered("theme", tr("theme {name}", name=name)))
        else:
            known = ", ".join(sorted(self.themes))
            self.tell_person(tr("there is no theme {name}; there are: {known}", name=name,
                                known=known))  # fmt: skip

    def action_keymap_named(self, name: str = "") -> None:
        if not name:
            self.open_line("keymap ")
            return
        faults = self._put_keys_on(name)
        self.rekey()
        self._say_anew()
        told = self.offered("keymap", tr("keymap {name}", name=name))
        self.tell_person("; ".join(faults) if faults else told)

    def action_language_named(self, name: str = "") -> None:
        if not name:
            self.open_line("language ")
        elif name not in language.LANGUAGES:
            known = ", ".join(language.LANGUAGES)
            self.tell_person(tr("there is no language {name}; there are: {known}", name=name,
                                known=known))  # fmt: skip
        else:
            language.speak(name)
            self.tell_person(self.offered("lang", language.LANGUAGES[name]))
            self._say_anew()

    def action_glyphs_named(self, name: str = "") -> None:
        if name not in ("unicode", "ascii"):
            self.open_line("glyphs ")
            return
        self._set_filters(ascii_only=name == "ascii")
        self.refresh_css(animate=False)
        self.tell_person(self.offered("glyphs", tr("signs: {name}", name=name)))

    def action_motion_named(self, name: str = "") -> None:
        if name not in ("full", "reduced"):
            self.open_line("motion ")
            return
        self._set_motion(reduced=name == "reduced")
        self.tell_person(self.offered("motion", tr("motion: {name}", name=name)))

    def _set_motion(self, *, reduced: bool) -> None:
        self.animation_level = "none" if reduced else "full"
        self.clock.pace.reduced = reduced

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        if isinstance(event.widget, Input):
            event.widget.cursor_blink = not self.clock.pace.reduced

    def _put_keys_on(self, name: str) -> list[str]:
        return put_on(name, folders(config_folder()), self.wanted.keys, self.wanted.config)

    def rekey(self) -> None:
        """Bind the keys of the keymap worn now, on the app and on every screen that has any."""
        if self._merged_bindings is not None:
            self._bindings = rekeyed(self._merged_bindings)
        if not self.is_running:
            return
        from akg_tui.tui.screens.run_screen import Watching

        for screen in self.screen_stack:
            if screen._merged_bindings is not None:
                screen._bindings = rekeyed(screen._merged_bindings)
            if isinstance(screen, Watching):
                screen.rekey()
            for widget in screen.query("*"):
                if isinstance(widget, Keyed):
                    widget.rekey()
        self.screen.refresh_bindings()

    def _say_anew(self) -> None:
        """Every word on screen anew: in another language, or with other keys."""
        from akg_tui.tui.screens.run_screen import Watching
        from akg_tui.tui.widgets.painted import Guarded

        for screen in self.screen_stack:
            if isinstance(screen, Watching):
                screen.reword()
            for widget in screen.walk_children(Guarded):
                widget.reword()
        self.refresh_css(animate=False)
        self.clock.now()

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self._filters_of_ours]

    def _set_filters(self, *, ascii_only: bool) -> None:
        self._filters_of_ours = []
        if self.wanted.no_colour:
            self._filters_of_ours.append(NoColour())
        if ascii_only:
            self._filters_of_ours.append(AsciiOnly())

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

    def commands_here(self) -> tuple[Command, ...]:
        """The commands of the screen that a person looks at, dialogs left out."""
        screen = self.watched()
        merged = screen._merged_bindings if screen is not None else None
        where = place_of(merged) if merged is not None else None
        if where == "deck" and self.in_past:
            return tuple(dict.fromkeys((*at("past"), *at("deck"), *within("deck"))))
        return (*at(where or "everywhere"), *(within(where) if where else ()))

    @property
    def in_past(self) -> bool:
        """Whether a person looks at the past of a run."""
        raise NotImplementedError

    def watched(self) -> Watching | None:
        """The topmost screen that shows a run."""
        from akg_tui.tui.screens.run_screen import Watching

        for screen in reversed(self.screen_stack):
            if isinstance(screen, Watching):
                return screen
        return None

    async def carry_out(self, command: Command, argument: str = "") -> bool:
        """Do what a command says, on the screen that it belongs to; False if nobody can."""
        namespace, name, parameters = parse(command.action)
        if argument:
            parameters = (*parameters, argument)
        screen = self.watched()
        node: DOMNode = screen.holder_of(command.where) if screen is not None else self
        self.vouched, self.typing = self.answerable, False
        try:
            return await self.run_action((namespace, name, parameters), node)
        finally:
            self.vouched = None

    def action_chord(self, key: str) -> None:
        self.chords.begin(key, self.wall_clock())
        self.tell_person(f"{km.shown(key)} …")

    async def chord_key(self, event: Key) -> bool:
        """Whether a key went to the chord being typed."""
        now = self.wall_clock()
        if not self.chords.waits(now):
            return False
        if isinstance(self.focused, Input) and "+" not in self.chords.pending:
            self.chords.pending = ""  # a letter, and the line was opened by the mouse meanwhile
            return False
        self.chords.since = now
        typed = f"{self.chords.pending} {event.key}"
        command = self.chords.feed(event.key, self.commands_here())
        if command is not None:
            self.tell_person("")
            await self.carry_out(command)
        elif self.chords.pending:
            self.tell_person(f"{km.shown(typed)} …")
        else:
            keys = km.shown(typed)
            self.heard(event, any_key=True)
            self.tell_person(tr("no command has the keys {keys}", keys=keys))
        return True

    def action_command_line(self) -> None:
        self.open_line("")

    def action_command_palette(self) -> None:
        from akg_tui.tui.screens.command_line import Palette

        if not Palette.is_open(self.app):
            asks = tr("type to find a command")
            self.push_screen(Palette(placeholder=asks, id="--command-palette"))

    def open_line(self, text: str) -> None:
        """Open the ``:`` line with something written on it."""
        from textual.screen import ModalScreen

        from akg_tui.tui.screens.command_line import CommandLine

        if not isinstance(self.screen, ModalScreen):
            self.push_screen(CommandLine(text))

    def heard(self, event: Key, *, any_key: bool = False) -> None:
        """A key was pressed that may be part of something written."""
        raise NotImplementedError


def _theme_folders() -> tuple[Path, ...]:
    return resources.themes(), user_folder()

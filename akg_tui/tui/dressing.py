"""What a person can change about the workbench itself, live: theme, keys, language, signs,
motion, layout and order of the runs; and the same again when a file of theirs changes.

A mixin of the app. Knows nothing of the run. What cannot be worn is told in the footer and
what was worn stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.actions import parse
from textual.events import DescendantFocus, Key
from textual.widgets import Input

from akg_tui import resources
from akg_tui.tui import keymap as km
from akg_tui.tui import language
from akg_tui.tui.commands import (
    KEYMAPS,
    LANGUAGES,
    THEMES,
    Argument,
    Command,
    at,
    within,
)
from akg_tui.tui.keeping import Keeping
from akg_tui.tui.keyboard import Chords, Keyed, folders, place_of, put_on, rekeyed
from akg_tui.tui.language import tr
from akg_tui.tui.paint_filters import AsciiOnly, NoColour
from akg_tui.tui.preferences import (
    LAYOUTS,
    SORTS,
    Preferences,
    config_folder,
    preferences,
)
from akg_tui.tui.themes import (
    DEFAULT,
    BadTheme,
    Inked,
    Inks,
    find,
    load_all,
    user_folder,
)

if TYPE_CHECKING:
    from textual.app import App
    from textual.dom import DOMNode
    from textual.filter import LineFilter

    from akg_tui.tui.screens.watching import Watching
    from akg_tui.tui.widgets.askcard import Ident

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
        from akg_tui.tui.screens.watching import Watching

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
        from akg_tui.tui.screens.watching import Watching
        from akg_tui.tui.widgets.guarded import Guarded

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
        from akg_tui.tui.screens.watching import Watching

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
        from akg_tui.tui.screens.palette import Palette

        if not Palette.is_open(self.app):
            asks = tr("type to find a command")
            self.push_screen(Palette(placeholder=asks, id="--command-palette"))

    def open_line(self, text: str) -> None:
        """Open the ``:`` line with something written on it."""
        from textual.screen import ModalScreen

        from akg_tui.tui.screens.commandline import CommandLine

        if not isinstance(self.screen, ModalScreen):
            self.push_screen(CommandLine(text))

    def heard(self, event: Key, *, any_key: bool = False) -> None:
        """A key was pressed that may be part of something written."""
        raise NotImplementedError


def _theme_folders() -> tuple[Path, ...]:
    return resources.themes(), user_folder()

"""Keeping a look that was chosen live: it is offered where it was chosen, and written into the
person's ``config.toml`` when they say so.

A mixin of the app. Knows what is worn now and what the next start would wear; how a file is
changed is `settings_edit`'s.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from akg_tui.tui import keymap as km
from akg_tui.tui import language
from akg_tui.tui.commands import way_to
from akg_tui.tui.keyboard import folders
from akg_tui.tui.language import tr
from akg_tui.tui.paint_filters import AsciiOnly
from akg_tui.tui.preferences import (
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
from akg_tui.tui.themes import DEFAULT

if TYPE_CHECKING:
    from pathlib import Path

    from textual.app import App
    from textual.filter import LineFilter

    from akg_tui.tui.clock import PullClock
    from akg_tui.tui.themes import Theme

    _Base = App[int]
else:
    _Base = object


class Keeping(_Base):
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
        from akg_tui.tui.settings_edit import NotWritten, write_settings

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

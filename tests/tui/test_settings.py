"""The person's settings: options, environment and file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from akg_tui.view.controls.preferences import Preferences, config_folder, preferences, utf8_terminal

from .listing import listed
from .script import FakeHandle
from .stage import on_stage


def settings(text: str) -> Path:
    path = config_folder() / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def asked(options: dict[str, str | None] | None = None, **environment: str) -> Preferences:
    return preferences(options, {**os.environ, **environment})


def test_options_go_before_the_environment_and_that_before_the_file() -> None:
    settings('theme = "paper"\nkeymap = "vim"\nlang = "zh"\nmotion = "reduced"\n')
    found = asked({"theme": "tide", "keymap": None}, AKG_TUI_THEME="mono", AKG_TUI_KEYMAP="emacs")
    assert (found.theme, found.keymap, found.lang, found.motion) == (
        "tide", "emacs", "zh", "reduced",
    )  # fmt: skip
    assert found.faults == ()


def test_without_settings_nothing_is_chosen_but_the_language_of_the_locale() -> None:
    assert asked() == Preferences(lang="en")


def test_faults_name_file_and_line_and_cost_only_themselves() -> None:
    path = settings('theme = "paper"\n# a note\ncolour = "red"\nlang = "tlh"\nmotion = 3\n')
    found = asked(AKG_TUI_GLYPHS="runes")
    assert found.theme == "paper"
    assert found.faults == (
        f"{path}:3: colour: is not a known field, expected one of: "
        "theme, keymap, lang, glyphs, motion, layout, sort, "
        "keys, notify, memory",
        f"{path}:5: motion: 3 is not allowed, expected string",
        f"{path}:4: lang: 'tlh' is unknown, expected one of: en, zh",
        "AKG_TUI_GLYPHS: 'runes' is unknown, expected one of: unicode, ascii",
    )


@pytest.mark.parametrize(
    ("text", "line"), [('theme = "paper\n', 1), ("a = 1\nb 2\n", 2), ('theme = "x"\n[keys', 2)]
)
def test_a_file_that_is_no_toml_is_told_with_its_line(text: str, line: int) -> None:
    path = settings(text)
    (fault,) = asked().faults
    assert fault.startswith(f"{path}:{line}: ")


def test_a_file_that_is_no_text_is_told() -> None:
    settings("").write_bytes(b"theme = '\xff'")
    assert "not UTF-8 text at byte 9" in asked().faults[0]


@pytest.mark.parametrize(
    ("environment", "utf8"),
    [
        ({"LANG": "en_GB.UTF-8"}, True),
        ({"LANG": "zh_CN.utf8"}, True),
        ({"LANG": "zh_CN.GB18030"}, False),
        ({"LANG": "en_GB.UTF-8", "LC_ALL": "de_DE.ISO-8859-1@euro"}, False),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "x.latin1"}, True),
    ],
)
def test_the_locale_tells_whether_the_terminal_takes_utf8(
    environment: dict[str, str], utf8: bool
) -> None:
    assert utf8_terminal(environment) is utf8


def test_a_terminal_without_utf8_gets_ascii_and_english_whatever_is_preferred() -> None:
    settings('glyphs = "unicode"\nlang = "zh"\n')
    found = asked(LC_ALL="zh_CN.GB18030")
    assert (found.glyphs, found.lang) == ("ascii", "en")


async def test_the_workbench_wears_what_is_preferred_and_tells_what_it_cannot() -> None:
    settings('theme = "tide"\nlang = "zh"\nkeymap = "vi"\n')
    async with on_stage(FakeHandle(), (160, 40)) as stage:
        assert stage.app.theme == "tide"
        assert "there is no keymap vi; there are: default, emacs, vim" in stage.text()
        stage.handle.now += 10
        await stage.pull()
        assert "暂停" in stage.text()


async def test_a_theme_that_is_being_written_shows_when_it_is_chosen_again() -> None:
    folder = config_folder() / "themes"
    folder.mkdir(parents=True)
    ember = (Path(__file__).parents[2] / "themes" / "ember.toml").read_text()
    mine = folder / "mine.toml"
    mine.write_text(ember.replace('"ember"', '"mine"'))
    async with on_stage(FakeHandle(), (160, 40)) as stage:
        await stage.command("theme mine")
        before = stage.app.inks.style("text").color
        mine.write_text(ember.replace('"ember"', '"mine"').replace("#e8ddd0", "#ffffff"))
        await stage.command("theme mine")
        after = stage.app.inks.style("text").color
        assert (stage.app.theme, after != before) == ("mine", True)
        mine.write_text("broken")
        await stage.command("theme mine")
        assert stage.app.theme == "mine"
        assert stage.app.inks.style("text").color == after
        assert "mine.toml:1" in stage.text()


async def test_a_message_says_what_keeps_a_choice_for_the_next_start(tmp_path: Path) -> None:
    async with listed(tmp_path) as stage:
        await stage.press("s")
        assert 'by best; sort = "best" in ' in stage.app.notices.text()
    path = settings('theme = "paper"\n')
    async with on_stage(FakeHandle(), (200, 40)) as stage:
        await stage.command("theme chalk")
        assert f'theme chalk; theme = "chalk" in {path} keeps it' in stage.app.notices.text()
        await stage.press("w")
        assert f'layout = "kernel" in {path} keeps it' in stage.app.notices.text()
        await stage.command("theme paper")
        assert stage.app.notices.text().endswith("theme paper"), "the next start has it anyway"


async def test_a_layout_in_the_file_is_worn_and_a_wrong_order_is_told() -> None:
    path = settings('layout = "numbers"\nsort = "colour"\n')
    async with on_stage(FakeHandle(), (300, 60)) as stage:
        assert stage.deck.preset == "numbers"
        assert "plan" in stage.deck.shown
        assert "source" in stage.deck.shown, "the active pane always has a place"
        assert f"{path}:2: sort: 'colour' is unknown, expected one of: newest, best" in stage.text()

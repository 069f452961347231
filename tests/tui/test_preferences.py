from __future__ import annotations

import os
from pathlib import Path

import pytest

from akg_tui.tui.app import WorkbenchApp
from akg_tui.view.controls.preferences import Preferences, config_folder, preferences, utf8_terminal

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
        f"{path}: line 3: no setting 'colour'; there are: "
        "theme, keymap, lang, glyphs, motion, layout, sort, keys",
        f"{path}: line 4: lang cannot be 'tlh'; it can be: en, zh",
        f"{path}: line 5: motion needs a name in quotes",
        "AKG_TUI_GLYPHS: glyphs cannot be 'runes'; it can be: unicode, ascii",
    )


@pytest.mark.parametrize(
    ("text", "line"), [('theme = "paper\n', 1), ("a = 1\nb 2\n", 2), ('theme = "x"\n[keys', 2)]
)
def test_a_file_that_is_no_toml_is_told_with_its_line(text: str, line: int) -> None:
    path = settings(text)
    (fault,) = asked().faults
    assert fault.startswith(f"{path}: line {line}: ")


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


async def test_settings_that_change_on_disk_are_worn_at_once() -> None:
    path = settings('theme = "tide"\n')
    async with on_stage(FakeHandle(), (160, 40)) as stage:
        path.write_text('theme = "chalk"\n')
        stage.app.look_at_wardrobe()
        await stage.pull()
        assert stage.app.theme == "chalk"
        assert "your settings were read again" in stage.text()
        path.write_text("theme = ")
        stage.app.look_at_wardrobe()
        await stage.pull()
        assert stage.app.theme == "chalk"
        assert "config.toml: line 1" in stage.text()


async def test_language_signs_and_motion_follow_the_file_too() -> None:
    path = settings("")
    async with on_stage(FakeHandle(), (160, 40)) as stage:
        path.write_text('lang = "zh"\nglyphs = "ascii"\nmotion = "reduced"\n')
        stage.app.look_at_wardrobe()
        stage.handle.now += 10
        await stage.pull()
        assert stage.text().isascii()
        assert stage.app.clock.pace.reduced
        path.write_text('lang = "zh"\n')
        stage.app.look_at_wardrobe()
        stage.handle.now += 10
        await stage.pull()
        assert "暂停" in stage.text()
        assert not stage.app.clock.pace.reduced


async def test_an_option_goes_before_a_file_that_changes_later() -> None:
    path = settings("")
    handle = FakeHandle()

    async def open_run() -> FakeHandle:
        return handle

    wanted = preferences({"theme": "tide"}, os.environ)
    app = WorkbenchApp(open_run, wanted=wanted, clock=handle.clock)
    async with app.run_test() as pilot:
        await pilot.pause()
        path.write_text('theme = "chalk"\nmotion = "reduced"\n')
        app.look_at_wardrobe()
        assert app.theme == "tide"
        assert app.clock.pace.reduced


async def test_a_theme_that_is_being_written_shows_at_every_save() -> None:
    folder = config_folder() / "themes"
    folder.mkdir(parents=True)
    ember = (Path(__file__).parents[2] / "themes" / "ember.toml").read_text()
    mine = folder / "mine.toml"
    mine.write_text(ember.replace('"ember"', '"mine"'))
    async with on_stage(FakeHandle(), (160, 40)) as stage:
        await stage.press("colon", *"theme mine", "enter")
        before = stage.app.inks.style("text").color
        mine.write_text(ember.replace('"ember"', '"mine"').replace("#e8ddd0", "#ffffff"))
        stage.app.look_at_wardrobe()
        await stage.pull()
        after = stage.app.inks.style("text").color
        assert (stage.app.theme, after != before) == ("mine", True)
        mine.write_text("broken")
        stage.app.look_at_wardrobe()
        await stage.pull()
        assert stage.app.theme == "mine"
        assert stage.app.inks.style("text").color == after
        assert "mine.toml: line 1" in stage.text()
        mine.unlink()
        stage.app.look_at_wardrobe()
        await stage.pull()
        assert stage.app.theme == "mine"

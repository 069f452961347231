"""What was chosen live is kept in the person's own file, and nothing else of it changes."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Paste

from akg_tui.tui.app import WorkbenchApp
from akg_tui.view.controls.preferences import Preferences, config_folder, preferences, utf8_terminal
from akg_tui.view.controls.settings_file import NotWritten, write_settings

from .script import FakeHandle
from .stage import Stage, on_stage
from .test_runs import listed


def settings(text: str) -> Path:
    path = config_folder() / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def change(stage: Stage, path: Path, text: str) -> None:
    """Write a file of the person's, and let the workbench read it."""
    path.write_text(text)
    stage.app.appearance.read_changed_files()
    await stage.pull()


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
        "theme, keymap, lang, glyphs, motion, layout, sort, borders, tags, "
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


async def test_settings_that_change_on_disk_are_worn_at_once() -> None:
    path = settings('theme = "tide"\n')
    async with on_stage(FakeHandle(), (160, 40)) as stage:
        await change(stage, path, 'theme = "chalk"\n')
        assert stage.app.theme == "chalk"
        assert "your settings were read again" in stage.text()
        await change(stage, path, "theme = ")
        assert stage.app.theme == "chalk"
        assert "config.toml:1" in stage.text()


async def test_language_signs_and_motion_follow_the_file_too() -> None:
    path = settings("")
    async with on_stage(FakeHandle(), (160, 40)) as stage:
        path.write_text('lang = "zh"\nglyphs = "ascii"\nmotion = "reduced"\n')
        stage.app.appearance.read_changed_files()
        stage.handle.now += 10
        await stage.pull()
        assert stage.text().isascii()
        assert stage.app.clock.pace.reduced
        path.write_text('lang = "zh"\n')
        stage.app.appearance.read_changed_files()
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
        app.appearance.read_changed_files()
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
        await change(stage, mine, ember.replace('"ember"', '"mine"').replace("#e8ddd0", "#ffffff"))
        after = stage.app.inks.style("text").color
        assert (stage.app.theme, after != before) == ("mine", True)
        await change(stage, mine, "broken")
        assert stage.app.theme == "mine"
        assert stage.app.inks.style("text").color == after
        assert "mine.toml:1" in stage.text()
        mine.unlink()
        stage.app.appearance.read_changed_files()
        await stage.pull()
        assert stage.app.theme == "mine"


MINE = """\
# how I like it
theme = 'tide'  # cool at night
colour = "red"
about = '''
theme = "in a text"
[keys]
'''

# the keys of my hands
[keys]
"run.step" = "s"   # s is nearer

[theme_notes]
theme = "not this one"
"""


async def typed(stage: Stage, *lines: str) -> None:
    """Paste each on the `:` line and send it."""
    for each in lines:
        await stage.press("colon")
        stage.app.post_message(Paste(each))
        await stage.press("enter")
        await stage.pull()


async def test_what_was_chosen_live_is_worn_at_the_next_start() -> None:
    path = config_folder() / "config.toml"
    async with on_stage(FakeHandle(), (200, 40)) as stage:
        await typed(stage, "theme paper")
        assert "theme paper; :save-looks keeps it" in stage.text()
        await typed(stage, "keymap vim", "language zh", "glyphs ascii", "motion reduced")
        await stage.press("w")
        assert not path.exists()
        await typed(stage, "save-looks")
        assert tomllib.loads(path.read_text()) == {
            "theme": "paper", "keymap": "vim", "lang": "zh", "glyphs": "ascii",
            "motion": "reduced", "layout": "kernel",
        }  # fmt: skip
        told = path.read_text()
        await typed(stage, "save-looks")
        assert path.read_text() == told, "and there is nothing more to keep"
    async with on_stage(FakeHandle(), (200, 40)) as stage:
        others = {"sort": "newest", "borders": "", "tags": "off"}
        assert stage.app.appearance.current_settings() == {**tomllib.loads(told), **others}
        assert stage.deck.preset == "kernel"
        assert stage.text().isascii()


async def test_one_message_says_where_it_is_kept_and_a_second_time_there_is_nothing() -> None:
    async with on_stage(FakeHandle(), (200, 40)) as stage:
        await typed(stage, "save-looks")
        assert "nothing to keep: the next start looks like this anyway" in stage.text()
        assert not (config_folder() / "config.toml").exists()
        await typed(stage, "theme chalk", "save-looks")
        stage.app.appearance.read_changed_files()
        await stage.pull()
        assert f"kept in {config_folder() / 'config.toml'}: theme chalk" in stage.text()
        await typed(stage, "theme chalk")
        assert "keeps it" not in stage.text(), "it is kept already"


async def test_the_order_of_the_runs_is_offered_and_kept(tmp_path: Path) -> None:
    path = settings(MINE)
    async with listed(tmp_path) as stage:
        await stage.press("s", "s")
        await stage.shows("by name; :save-looks keeps it")
        await stage.press("colon", *"save-lo", "tab", "enter")
        await stage.until(lambda: 'sort = "name"' in path.read_text())
    async with listed(tmp_path) as stage:
        assert (stage.runs.sort, stage.app.theme) == ("name", "tide")
        # Another one, written by hand while it is looked at, is taken over at once.
        path.write_text(path.read_text().replace('"name"', '"state"'))
        stage.app.appearance.read_changed_files()
        assert stage.runs.sort == "state"


def test_comments_order_and_all_other_keys_stay_as_they_are() -> None:
    path = settings(MINE)
    path.chmod(0o640)
    write_settings(path, {"theme": "paper", "lang": "zh"})
    expected = MINE.replace("'tide'", '"paper"').replace("\n\n# the", '\nlang = "zh"\n\n# the')
    assert path.read_text() == expected
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in path.parent.iterdir()) == ["config.toml"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 'theme = "x"\n'),
        ('lang = "zh"', 'lang = "zh"\ntheme = "x"\n'),
        ('# a\r\nlang = "zh"\r\n', '# a\r\nlang = "zh"\r\ntheme = "x"\r\n'),
        ('theme = "a"\r\n', 'theme = "x"\r\n'),
        ('"theme" = "a#b" # c', '"theme" = "x" # c'),
        ("theme=3", 'theme="x"'),
        ('[keys]\n"run.step" = "s"\n', 'theme = "x"\n\n[keys]\n"run.step" = "s"\n'),
        ('theme = """\na"""\n', 'theme = "x"\n'),
        ("# mine\n[keys]\n", 'theme = "x"\n\n# mine\n[keys]\n'),
        ("a = [\n[1],\n]\n\n[keys]\n", 'a = [\n[1],\n]\ntheme = "x"\n\n[keys]\n'),
        ("[keys]\ntheme = 'a'\n", "theme = \"x\"\n\n[keys]\ntheme = 'a'\n"),
    ],
)
def test_a_setting_goes_where_a_person_would_write_it(text: str, expected: str) -> None:
    path = settings("")
    path.write_bytes(text.encode())
    write_settings(path, {"theme": "x"})
    assert path.read_bytes().decode() == expected


@hypothesis.settings(max_examples=40)
@given(st.text(st.characters(codec="utf-8"), max_size=12), st.sampled_from(("", MINE, 'theme="a"')))
def test_any_name_is_read_back_as_it_was_written(name: str, text: str) -> None:
    path = settings(text)
    before = tomllib.loads(text)
    write_settings(path, {"theme": name})
    assert tomllib.loads(path.read_bytes().decode()) == {**before, "theme": name}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'theme = "tide"\nlang = \n', ":2: "),
        (b"theme = '\xff'\n", ": is not UTF-8 text at byte 9"),
        (b'a = 1\n[theme]\nname = "x"\n', ": line 2: this can't be changed for you"),
    ],
)
def test_a_file_that_cannot_be_changed_is_refused_by_line_and_left_alone(
    data: bytes, told: str
) -> None:
    path = settings("")
    path.write_bytes(data)
    with pytest.raises(NotWritten, match=re.escape(f"{path}{told}")):
        write_settings(path, {"lang": "zh", "theme": "paper"})
    assert path.read_bytes() == data


async def test_a_broken_file_is_told_by_file_and_line_and_left_alone() -> None:
    path = settings('theme = "tide"\nlang = \n')
    async with on_stage(FakeHandle(), (300, 40)) as stage:
        await typed(stage, "theme paper", "save-looks")
        assert f"not kept: {path}:2: " in stage.text()
    assert path.read_text() == 'theme = "tide"\nlang = \n'


async def test_a_folder_that_cannot_be_written_is_told_and_the_look_stays() -> None:
    config_folder().parent.mkdir(parents=True, exist_ok=True)
    config_folder().write_text("a file where the folder should be")
    async with on_stage(FakeHandle(), (300, 40)) as stage:
        await typed(stage, "theme paper", "save-looks")
        assert "not kept: " in stage.text()
        assert "config.toml: " in stage.text()
        assert stage.app.theme == "paper"


def test_a_file_that_changes_meanwhile_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    path = settings('theme = "tide"\n')
    read = Path.read_bytes

    def read_and_changed(self: Path) -> bytes:
        data = read(self)
        if self == path:
            path.write_text('theme = "tide"\n# written by an editor just now\n')
        return data

    monkeypatch.setattr(Path, "read_bytes", read_and_changed)
    with pytest.raises(NotWritten, match="it was changed just now"):
        write_settings(path, {"theme": "paper"})
    assert "by an editor" in path.read_text()


def test_a_link_to_the_real_file_is_followed(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text('theme = "tide"\n')
    path = settings("")
    path.unlink()
    path.symlink_to(real)
    write_settings(path, {"theme": "paper"})
    assert path.is_symlink()
    assert real.read_text() == 'theme = "paper"\n'


async def test_options_and_environment_go_before_what_was_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AKG_TUI_THEME", "mono")
    monkeypatch.setenv("AKG_TUI_LAYOUT", "agent")
    async with on_stage(FakeHandle(), (300, 40)) as stage:
        assert (stage.app.theme, stage.deck.preset) == ("mono", "agent")
        await typed(stage, "theme paper", "save-looks")
        assert "; the environment goes before it (AKG_TUI_THEME, AKG_TUI_LAYOUT)" in stage.text()
        assert stage.app.theme == "paper", "nothing is put on that was not asked for"
    async with on_stage(FakeHandle()) as stage:
        assert stage.app.theme == "mono"
    monkeypatch.delenv("AKG_TUI_THEME")
    monkeypatch.delenv("AKG_TUI_LAYOUT")
    async with on_stage(FakeHandle()) as stage:
        assert (stage.app.theme, stage.deck.preset) == ("paper", "agent")


async def test_what_a_terminal_or_a_missing_file_forces_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = 'theme = "gone"\nkeymap = "gone"\nlang = "zh"\n'
    path = settings(text)
    monkeypatch.setitem(os.environ, "LC_ALL", "zh_CN.GB18030")
    async with on_stage(FakeHandle(), (300, 40)) as stage:
        assert stage.text().isascii()
        assert stage.app.appearance.unsaved() == {}
        await typed(stage, "motion reduced", "save-looks")
    assert path.read_text() == text + 'motion = "reduced"\n'


async def test_a_layout_in_the_file_is_worn_at_once_and_a_wrong_one_is_told() -> None:
    path = settings('layout = "numbers"\nsort = "colour"\n')
    async with on_stage(FakeHandle(), (300, 60)) as stage:
        assert stage.deck.preset == "numbers"
        assert "plan" in stage.deck.shown
        assert "source" in stage.deck.shown, "the active pane always has a place"
        assert f"{path}:2: sort: 'colour' is unknown, expected one of: newest, best" in stage.text()
        await change(stage, path, 'layout = "agent"\n')
        assert stage.deck.preset == "agent"
        assert "log" in stage.deck.shown

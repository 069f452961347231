from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui import resources
from akg_tui.tui.themes import DEFAULT, BadTheme, Inks, contrast, load, load_all, user_folder
from akg_tui.view.controls.settings_file import line_of

# Rules and empty bars carry no meaning, so they may be faint.
DECORATION = {"phase.rule", "progress.rest"}


def test_the_shipped_themes_are_good() -> None:
    themes, faults = load_all([resources.themes()])
    assert faults == []
    assert set(themes) == {DEFAULT, "tide", "paper", "chalk", "okabe", "ansi16", "mono"}
    assert sum(theme.dark for theme in themes.values()) >= 4
    assert [name for name, theme in themes.items() if not theme.dark] == ["chalk", "paper"]


# What the terminal makes of its sixteen colours is not known, so no contrast of theirs is.
COMPUTABLE = ["ember", "tide", "paper", "chalk", "okabe", "mono"]


@pytest.mark.parametrize("name", COMPUTABLE)
def test_every_text_of_a_shipped_theme_can_be_read(name: str) -> None:
    theme = load(resources.themes() / f"{name}.toml")
    pale: list[tuple[str, str, float]] = []
    for role, style in theme.roles.items():
        if style.color is None or role in DECORATION:
            continue
        grounds = ["ground", "raised"]
        if role.startswith("syn.") or role in ("number", "tag", "text"):
            grounds += ["moss_deep", "rust_deep"]  # changed lines
        if role in ("ask", "text", "strong", "muted", "faint", "key", "note"):
            grounds += ["gold_deep"]  # the card that asks, and lines to write on
        own = style.bgcolor.get_truecolor().hex if style.bgcolor else None
        for ground in [own] if own else [theme.palette[each] for each in grounds]:
            ratio = contrast(style.color.get_truecolor().hex, ground)
            if ratio < 4.5:
                pale.append((role, ground, ratio))
    assert pale == []


def test_the_sixteen_colours_of_the_terminal_are_sent_as_such() -> None:
    theme = load(resources.themes() / "ansi16.toml")
    assert theme.ansi
    colours = [c for s in theme.roles.values() for c in (s.color, s.bgcolor) if c is not None]
    assert colours
    assert all(colour.is_system_defined for colour in colours)


def test_the_palette_of_okabe_and_ito_tells_the_verdicts_apart_by_blue_and_orange() -> None:
    """Both ends of the one axis that every kind of colour vision keeps."""
    roles = load(resources.themes() / "okabe.toml").roles
    keep, fail = (roles[role].color for role in ("verdict.keep", "verdict.fail"))
    assert keep is not None
    assert fail is not None
    red, green, blue = keep.get_truecolor()
    assert blue > green > red
    red, green, blue = fail.get_truecolor()
    assert red > green > blue


def test_a_bad_theme_is_told_by_name_and_costs_only_itself(tmp_path: Path) -> None:
    good = (resources.themes() / "ember.toml").read_text()
    (tmp_path / "broken.toml").write_text("name = ")
    (tmp_path / "pale.toml").write_text(good.replace('"#14110f"', '"very dark"'))
    (tmp_path / "short.toml").write_text(good.replace('lilac = "#c9a6e8"', ""))
    (tmp_path / "typo.toml").write_text(good.replace('tag = "$lilac"', 'tug = "$lilac"'))
    (tmp_path / "odd.toml").write_text(good.replace('tag = "$lilac"', 'tag = "$nothing"'))
    themes, faults = load_all([resources.themes(), tmp_path])
    assert len(themes) == 7
    assert len(faults) == 5
    for fault, name in zip(faults, ["broken", "odd", "pale", "short", "typo"], strict=True):
        assert f"{name}.toml" in fault
    assert "tag = '$nothing'" in faults[1]
    assert "ground = 'very dark'" in faults[2]
    assert "lacks lilac" in faults[3]
    assert "line 1: " in faults[0]
    assert f"line {line_of(good, 'tag')}: " in faults[1]
    assert f"line {line_of(good, 'tag')}: no role is called 'tug'" in faults[4]


def test_a_role_that_a_theme_does_not_give_is_the_default_themes_in_its_own_colours(
    tmp_path: Path,
) -> None:
    good = (resources.themes() / "ember.toml").read_text()
    short = good.replace('tag = "$lilac"', "").replace("#c9a6e8", "#abcdef")
    (tmp_path / "mine.toml").write_text(short)
    colour = load(tmp_path / "mine.toml").roles["tag"].color
    assert colour is not None
    assert colour.get_truecolor().hex == "#abcdef"


def test_a_theme_of_the_user_covers_a_shipped_one(tmp_path: Path) -> None:
    text = (resources.themes() / "ember.toml").read_text().replace("the live thing glows", "mine")
    (tmp_path / "ember.toml").write_text(text)
    themes, _ = load_all([resources.themes(), tmp_path])
    assert themes["ember"].about.endswith("mine")


def test_the_users_folder_follows_the_convention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere")
    assert user_folder() == Path("/somewhere/akg_tui/themes")


def test_a_missing_file_is_a_bad_theme(tmp_path: Path) -> None:
    with pytest.raises(BadTheme, match=r"none\.toml"):
        load(tmp_path / "none.toml")


def test_nothing_unclean_is_painted() -> None:
    inks = Inks(load(resources.themes() / "ember.toml"))
    strip = inks.strip((("\x1b]0;x\x07", "text"), ("[red]", "tag|diff.added")))
    assert strip.text == "␛]0;x␇[red]"

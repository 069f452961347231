from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui import resources
from akg_tui.tui.themes import (
    DEFAULT,
    BadTheme,
    Inks,
    contrast,
    load,
    load_all,
    user_folder,
)

# Rules and empty bars carry no meaning, so they may be faint.
DECORATION = {"phase.rule", "progress.rest"}


def test_the_shipped_themes_are_good() -> None:
    themes, faults = load_all([resources.themes()])
    assert faults == []
    assert set(themes) >= {DEFAULT, "paper", "mono"}


@pytest.mark.parametrize("name", ["ember", "paper", "mono"])
def test_every_text_of_a_shipped_theme_can_be_read(name: str) -> None:
    theme = load(resources.themes() / f"{name}.toml")
    grounds = [theme.palette["ground"], theme.palette["raised"]]
    for role, style in theme.roles.items():
        if style.color is None or role in DECORATION:
            continue
        ink = style.color.get_truecolor().hex
        own = style.bgcolor.get_truecolor().hex if style.bgcolor else None
        for ground in [own] if own else grounds:
            assert contrast(ink, ground) >= (4.5 if ground != grounds[1] else 4.0), role


def test_a_bad_theme_is_told_by_name_and_costs_only_itself(tmp_path: Path) -> None:
    good = (resources.themes() / "ember.toml").read_text()
    (tmp_path / "broken.toml").write_text("name = ")
    (tmp_path / "pale.toml").write_text(good.replace('"#14110f"', '"very dark"'))
    (tmp_path / "short.toml").write_text(good.replace('tag = "$lilac"', ""))
    (tmp_path / "odd.toml").write_text(good.replace('tag = "$lilac"', 'tag = "$nothing"'))
    themes, faults = load_all([resources.themes(), tmp_path])
    assert set(themes) == {"ember", "paper", "mono"}
    assert len(faults) == 4
    for fault, name in zip(faults, ["broken", "odd", "pale", "short"], strict=True):
        assert f"{name}.toml" in fault
    assert "tag = '$nothing'" in faults[1]
    assert "ground = 'very dark'" in faults[2]
    assert "lacks tag" in faults[3]


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

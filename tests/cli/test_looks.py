from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from akg_tui.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "akg_tui"
    (folder / "keymaps").mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--theme", "neon"], "no theme 'neon'; there are: ansi16, chalk, ember, mono, okabe"),
        (["--keymap", "vi"], "no keymap 'vi'; there are: default, emacs, vim"),
    ],
)
def test_a_bad_option_is_told_before_anything_starts(
    words: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", *words]) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.glob("akg-demo/*/runs/*"))


def test_the_keys_of_a_keymap_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "--keymap", "emacs"]) == 0
    shown = capsys.readouterr().out
    assert "[^x ^c] [^q]" in shown
    assert ":quit" in shown


def test_a_keymap_to_begin_with_is_a_keymap(
    capsys: pytest.CaptureFixture[str], config: Path
) -> None:
    assert main(["keys", "--toml", "--keymap", "vim"]) == 0
    text = capsys.readouterr().out
    assert tomllib.loads(text)["keys"]["pane.down"] == ["j", "down"]
    (config / "keymaps" / "mine.toml").write_text(text)
    assert main(["keys", "--keymap", "mine"]) == 0
    listed = capsys.readouterr()
    assert "[j] [down]" in listed.out
    assert listed.err == ""


def test_a_keymap_with_a_clash_is_listed_and_the_clash_told(
    capsys: pytest.CaptureFixture[str], config: Path
) -> None:
    path = config / "keymaps" / "mine.toml"
    path.write_text('[keys]\n"run.hint" = "n"\n')
    assert main(["keys", "--keymap", "mine"]) == 0
    told = capsys.readouterr().err
    assert f"{path}:2: keys.run.hint: the key n is given to run.step and to run.hint" in told


def test_an_unknown_keymap_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "--keymap", "nano"]) == 2
    assert "no keymap 'nano'" in capsys.readouterr().err

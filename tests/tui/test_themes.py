"""What is left of every screen without colour, without Unicode, with little motion."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip
from textual.widgets import Input

from akg_tui import resources
from akg_tui.tui.pull_clock import SLOWEST, Pace
from akg_tui.tui.themes import DEFAULT, BadTheme, Inks, NoColour, contrast, load, load_all
from akg_tui.view.glyphs import ascii_twin
from akg_tui.view.spans import line

from .moments import keeping, under_evaluation
from .script import FakeHandle
from .stage import Stage, on_stage
from .terminal import COMMAND, PtyTerminal

ROOT = str(Path(__file__).parents[2])

# Rules and empty bars carry no meaning, and a band is a shade: none is read as text.
DECORATION = {"phase.rule", "progress.rest", "chart.band"}


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
        if role in ("ask", "text", "strong", "muted", "faint", "key", "note", "figure"):
            grounds += ["gold_deep"]  # the card that asks, and lines to write on
        if role.startswith(("chart.", "verdict.")):
            grounds += ["gold_deep"]  # the band of eager
        own = style.bgcolor.get_truecolor().hex if style.bgcolor else None
        for ground in [own] if own else [theme.palette[each] for each in grounds]:
            ratio = contrast(style.color.get_truecolor().hex, ground)
            if ratio < 4.5:
                pale.append((role, ground, ratio))
    assert pale == []


def terminal_colours(strips: list[Strip], system: ColorSystem) -> list[tuple[str, str]]:
    """The colour and the ground of the first cell of each strip, as a terminal shows them."""
    screen = pyte.Screen(20, len(strips))
    name = {ColorSystem.STANDARD: "standard", ColorSystem.EIGHT_BIT: "256"}.get(system, "truecolor")
    console = Console(color_system=name, force_terminal=True, _environ={})  # type: ignore[arg-type]
    pyte.Stream(screen).feed("\r\n".join(strip.render(console) for strip in strips))
    cells = [screen.buffer[row][0] for row in range(len(strips))]
    return [(cell.fg, cell.bg) for cell in cells]


@pytest.mark.parametrize(
    ("term", "ground"), [("xterm-256color", "ffffff"), ("xterm", "default")]
)  # fmt: skip
def test_the_workbench_asks_its_terminal_for_the_number_of_colours(
    tmp_path: Path, term: str, ground: str
) -> None:
    """`paper` in 256 colours has a white footer, and of sixteen the terminal's own ground."""
    terminal = PtyTerminal(
        COMMAND, tmp_path, TERM=term, COLORTERM="", AKG_TUI_THEME="paper", PYTHONPATH=ROOT
    )
    try:
        terminal.wait("akg-tui", "n new")
        assert terminal.ground(-1, 0) == ground
    finally:
        terminal.close()


def test_each_colour_of_256_is_sent_as_the_theme_chose_it() -> None:
    for name in COMPUTABLE:
        path = resources.themes() / f"{name}.toml"
        chosen = tomllib.loads(path.read_text())["palette256"]
        theme = load(path, 256)
        sent = {
            key: RichColor.parse(colour).downgrade(ColorSystem.EIGHT_BIT).number
            for key, colour in theme.palette.items()
        }
        assert sent == chosen
        grounds = {"added": "moss_deep", "removed": "rust_deep"}
        for role in theme.roles:
            ink = theme.roles[role].color
            if ink is None or role in DECORATION:
                continue
            for place in ("ground", "raised", *grounds.values()):
                own = theme.roles[role].bgcolor
                ground = own.get_truecolor().hex if own else theme.palette[place]
                changed = place in grounds.values()
                if changed and not role.startswith("syn."):
                    continue
                least = 3 if changed else 4.4  # a line of a kernel has few other grounds in 256
                assert contrast(ink.get_truecolor().hex, ground) >= least, (name, role, place)


def test_a_terminal_of_sixteen_colours_is_sent_its_own_with_every_theme() -> None:
    plain = load(resources.themes() / "ansi16.toml")
    for name in COMPUTABLE:
        theme = load(resources.themes() / f"{name}.toml", 16)
        assert theme.name == name
        assert theme.roles == plain.roles
    inks = Inks(theme)
    strips = [
        inks.strip(line(("x", role)))
        for role in (
            "diff.added",
            "diff.removed",
            "verdict.keep",
            "verdict.fail",
            "verdict.discard",
        )
    ]
    colours = terminal_colours(strips, ColorSystem.STANDARD)
    assert [fg for fg, _ in colours] == ["green", "red", "green", "red", "blue"]
    assert {bg for _, bg in colours} == {"default"}


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [("moss = 150", "moss = 7", "palette256.moss: 7 is not allowed, expected 16 or more"),
     ("moss = 150", "", "palette256: lacks moss")],
)  # fmt: skip
def test_a_bad_number_of_a_colour_is_told_with_its_line(
    tmp_path: Path, name: str, value: str, fault: str
) -> None:
    good = (resources.themes() / "ember.toml").read_text()
    (tmp_path / "mine.toml").write_text(good.replace(name, value))
    with pytest.raises(BadTheme, match=re.escape(fault)):
        load(tmp_path / "mine.toml")


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
    tag = good.splitlines().index('tag = "$lilac"') + 1
    assert [fault.partition(".toml:")[2].split(" ", 2)[:2] for fault in faults] == [
        ["1:", "not"],
        [f"{tag}:", "roles.tag:"],
        ["7:", "palette.ground:"],
        ["6:", "palette:"],
        [f"{tag}:", "roles.tug:"],
    ]


def test_a_role_that_a_theme_does_not_give_is_the_default_themes_in_its_own_colours(
    tmp_path: Path,
) -> None:
    good = (resources.themes() / "ember.toml").read_text()
    short = good.replace('tag = "$lilac"', "").replace("#c9a6e8", "#abcdef")
    (tmp_path / "mine.toml").write_text(short)
    colour = load(tmp_path / "mine.toml").roles["tag"].color
    assert colour.get_truecolor().hex == "#abcdef"


def test_a_theme_of_the_user_covers_a_shipped_one(tmp_path: Path) -> None:
    text = (resources.themes() / "ember.toml").read_text().replace("the live thing glows", "mine")
    (tmp_path / "ember.toml").write_text(text)
    themes, _ = load_all([resources.themes(), tmp_path])
    assert themes["ember"].about.endswith("mine")


def test_a_missing_file_is_a_bad_theme(tmp_path: Path) -> None:
    with pytest.raises(BadTheme, match=r"none\.toml"):
        load(tmp_path / "none.toml")


def test_nothing_unclean_is_painted() -> None:
    inks = Inks(load(resources.themes() / "ember.toml"))
    strip = inks.strip((("\x1b]0;x\x07", "text"), ("[red]", "tag|diff.added")))
    assert strip.text == "␛]0;x␇[red]"


async def every_screen(stage: Stage) -> list[str]:
    shown = []
    for keys in ((), ("question_mark",), ("colon", "t"), ("r",)):
        await stage.press(*keys)
        shown.append(stage.text())
        await stage.press("escape")
    return shown


async def test_with_ascii_signs_no_screen_holds_anything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AKG_TUI_GLYPHS", "ascii")
    async with on_stage(keeping(), armed=True) as stage:
        for size in ((80, 24), (200, 60)):
            await stage.resize(*size)
            for shown in await every_screen(stage):
                assert shown.isascii(), next(c for c in shown if not c.isascii())
                assert {len(row) for row in shown.split("\n")} == {size[0]}
                assert "+-" in shown


async def test_ascii_signs_can_be_put_on_and_off_live() -> None:
    async with on_stage(under_evaluation()) as stage:
        await stage.command("glyphs ascii")
        assert stage.text().isascii()
        assert "v p1 FLAGS = -O3" in stage.text()
        await stage.command("glyphs unicode")
        assert "✓ p1 FLAGS = -O3" in stage.text()


@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp", "M"]), max_size=40))
def test_an_ascii_twin_is_as_wide_as_its_text(text: str) -> None:
    twin = ascii_twin(text)
    assert twin.isascii()
    assert len(twin) == cell_len(text)


def colours_of(stage: Stage) -> set[str]:
    return {
        str(colour)
        for strip in stage.app.screen._compositor.render_strips()
        for segment in strip
        if segment.style
        for colour in (segment.style.color, segment.style.bgcolor)
        if colour is not None and not colour.is_default
    }


@pytest.mark.parametrize("theme", ["paper", "ansi16"])
async def test_with_no_color_not_one_colour_is_sent(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("AKG_TUI_THEME", theme)
    async with on_stage(keeping(), armed=True) as stage:
        for keys in ((), ("question_mark",), ("colon", "t"), ("r",)):
            await stage.press(*keys)
            assert colours_of(stage) == set()
            await stage.press("escape")
        attributes = {
            (bool(s.style.bold), bool(s.style.reverse))
            for strip in stage.app.screen._compositor.render_strips()
            for s in strip
            if s.style
        }
        assert len(attributes) >= 3, "weight and reverse video still tell things apart"


@pytest.mark.parametrize(("theme", "no_color"), [("mono", ""), ("ember", "1")])
async def test_without_hues_the_frame_and_the_title_show_the_focus(
    theme: str, no_color: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("AKG_TUI_THEME", theme)
    async with on_stage(FakeHandle()) as stage:
        await stage.press("1")
        plan, log = stage.plan, stage.log
        assert (plan.styles.border_top[0], log.styles.border_top[0]) == ("heavy", "round")
        assert plan.styles.border_title_style.reverse
        assert not log.styles.border_title_style.reverse


def test_a_ground_that_stands_out_becomes_reverse_video_once() -> None:
    dark = Color.parse("#101010")

    def reversed_(style: str) -> bool:
        (segment,) = NoColour().apply([Segment("x", Style.parse(style))], dark)
        return bool(segment.style.reverse)

    assert reversed_("bold #101010 on #ff9e4f")
    assert reversed_("reverse #ff9e4f")
    assert not reversed_("#ffffff on #1c1815")
    assert not reversed_("reverse #101010 on #ff9e4f")


def test_with_reduced_motion_the_clock_pulls_at_its_slowest_from_the_start() -> None:
    full, reduced = Pace(), Pace()
    reduced.reduced = True
    assert sum(full.tick(0.0, 0) for _ in range(240)) == 240
    assert sum(reduced.tick(0.0, 0) for _ in range(240)) == 240 // SLOWEST


async def test_reduced_motion_reaches_clock_animations_and_cursor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AKG_TUI_MOTION", "reduced")
    async with on_stage(FakeHandle()) as stage:
        assert stage.app.clock.pace.reduced
        assert stage.app.animation_level == "none"
        await stage.press("i")
        assert stage.app.focused is not None
        assert not stage.deck.query_one("#hint", Input).cursor_blink
        await stage.press("escape", "colon", *"motion full", "enter")
        assert not stage.app.clock.pace.reduced

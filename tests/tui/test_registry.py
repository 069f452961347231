"""Every command of the registry: reachable, explained, and able to run."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from rich.segment import Segment
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Mode, Phase
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.screens.command_line import CommandLine, offers
from akg_tui.tui.screens.deck import Deck
from akg_tui.tui.screens.dialogs import Help
from akg_tui.tui.screens.review import Review
from akg_tui.tui.screens.runs import Runs
from akg_tui.view.controls import command_registry, keys_page
from akg_tui.view.controls.command_reading import read
from akg_tui.view.controls.command_registry import COMMANDS, Argument, Command, Where, at
from akg_tui.view.controls.help_rows import help_rows
from akg_tui.view.controls.preferences import config_folder
from akg_tui.view.spans import cells, plain
from benchmarks.gallery import pictures as gallery

from .listing import recorded
from .script import FakeHandle
from .stage import Stage, on_stage

ROOT = Path(__file__).parents[2]
# These end the run or the app, so they come last.
LAST = ("run.stop", "app.quit")
# It leaves the run to a process of its own: `tests/cli/test_detached.py`.
ELSEWHERE = "run.detach"
# These leave what is looked at: `test_naming_answers`.
LEAVING = ("ask.keep", "ask.always", "ask.reject", "review.keep", "review.reject", "review.close")


def asking(path: Path) -> FakeHandle:
    """A run whose first candidate waits for a review, in a folder that can be written."""
    return FakeHandle(mode=Mode.REVIEW, path=str(path)).work()


async def back_to(stage: Stage, screen: object) -> None:
    """Leave whatever a command has opened."""
    for _ in range(4):
        if stage.app.screen is screen and not isinstance(stage.app.focused, Input):
            return
        await stage.press("escape")
    assert stage.app.screen is screen


async def every_command_runs(stage: Stage, where: Where) -> None:
    screen = stage.app.screen
    ordered = sorted(at(where), key=lambda c: c.id in LAST)
    for command in ordered:
        if command.id in LEAVING or command.id == ELSEWHERE:
            continue
        words = [""]
        if command.argument and command.argument.choices:
            words += stage.app.appearance.choices(command.argument)[:2]
        for word in words:
            assert await stage.app.carry_out(command, word), f"nobody carries out {command.id}"
            await stage.pull()
            assert stage.app._exception is None, command.id
            if command.id not in LAST:
                await back_to(stage, screen)


@pytest.mark.parametrize(("where", "keys"), [("deck", ()), ("review", ("r",))])
async def test_every_command_of_the_deck_and_of_the_review_runs(
    tmp_path: Path, where: Where, keys: tuple[str, ...]
) -> None:
    async with on_stage(asking(tmp_path), armed=True) as stage:
        await stage.press(*keys)
        assert isinstance(stage.app.screen, Review) is (where == "review")
        await every_command_runs(stage, where)


@pytest.mark.parametrize(("where", "key"), [("past", "T"), ("rounds", "v")])
async def test_every_command_of_the_past_and_of_a_comparison_runs(
    tmp_path: Path, where: Where, key: str
) -> None:
    async with on_stage(FakeHandle(path=str(tmp_path)).work()) as stage:
        for command in (each for each in at(where) if each.where == where):
            if not stage.app.in_past:
                await stage.press(key)
            assert await stage.app.carry_out(command), f"nobody carries out {command.id}"
            await stage.pull()
            assert stage.app._exception is None, command.id
            await back_to(stage, stage.deck)


async def test_every_command_of_the_list_of_runs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runs, "_begun", lambda runs, request: None)  # no demo is tuned
    async with recorded(tmp_path) as stage:
        app, runs = stage.app, stage.runs
        for command in at("runs"):
            assert await app.carry_out(command), f"nobody carries out {command.id}"
            await gallery.pulled(app, stage.pilot)
            assert app._exception is None, command.id
            while app.screen is not runs or isinstance(app.focused, Input):
                await stage.pilot.press("q" if isinstance(app.screen, Deck) else "escape")
                await gallery.pulled(app, stage.pilot)


def test_every_place_of_the_registry_has_its_test_above() -> None:
    """Those of the subagents run in `test_subagents`."""
    tried: set[str] = {"deck", "review", "past", "rounds", "runs", "agents", "everywhere"}
    assert {command.where for command in COMMANDS} == tried == set(get_args(Where))


def reached(app: WorkbenchApp, where: Where) -> None:
    """Every command of a place is in the palette there, and on its keys."""
    bound = app.screen.active_bindings
    offered = {offer.command.id for offer in offers(app)}
    for command in at(where):
        in_palette = command.id in offered or command.id == "app.palette"
        assert in_palette, f"{command.id} is not in the palette"
        for chord in command.keys_now:
            first, _, rest = chord.partition(" ")
            one = bound.get(first)
            assert one is not None, f"{chord} does nothing in the {where}"
            moves = command.id.startswith(("pane.down", "pane.up", "pane.page"))
            action = f"app.chord({first!r})" if rest else command.action
            assert moves or one.binding.action == action, command.id


async def test_every_command_can_be_reached_by_key_or_palette_and_is_in_the_help(
    tmp_path: Path,
) -> None:
    async with on_stage(asking(tmp_path), armed=True) as stage:
        reached(stage.app, "deck")
        await stage.press("r")
        reached(stage.app, "review")
        await stage.press("escape", "T")
        reached(stage.app, "past")
    async with on_stage(FakeHandle(path=str(tmp_path)).work()) as stage:
        await stage.press("v")
        reached(stage.app, "rounds")
    async with recorded(tmp_path) as runs:
        reached(runs.app, "runs")
    shown = "\n".join(plain(row) for row in help_rows(200))
    for command in COMMANDS:
        assert command.help in shown
        assert all(key in shown for key in command.shown_key.split(" or ")), command.id
        assert command.keys_now or f":{command.name}" in shown, command.id


def test_ids_are_unique_and_names_on_the_line_are_unique_in_each_place() -> None:
    ids = [command.id for command in COMMANDS]
    assert len(ids) == len(set(ids))
    for where in ("deck", "review", "past", "rounds", "runs"):
        names = [command.name for command in at(where)]  # type: ignore[arg-type]
        assert len(names) == len(set(names)), where


def test_the_page_of_keys_is_the_one_that_the_registry_makes() -> None:
    page = (ROOT / "docs" / "keys.md").read_text()
    assert page == keys_page.markdown(), "run: akg-tui keys --markdown > docs/keys.md"
    assert all(command.help[1:] in page for command in COMMANDS)


async def test_the_footer_says_what_it_hides() -> None:
    async with on_stage(FakeHandle().to_phase(Phase.EVAL)) as stage:
        for width in (60, 80, 120, 200):
            await stage.resize(width, 30)
            row = stage.text().split("\n")[-1]
            pairs = command_registry.footer("deck", stage.handle.state, stage.deck.active)
            shown = sum(f"{key} {label}" in row for key, label in pairs)
            if shown < len(pairs):
                assert f"+{len(pairs) - shown} more: ?" in row
            assert cells(row.rstrip()) <= width


async def test_help_is_searched_by_typing_and_escape_clears_before_it_closes() -> None:
    async with on_stage(FakeHandle()) as stage:
        await stage.press("question_mark")
        assert isinstance(stage.app.screen, Help)
        assert "esc closes" in stage.text()
        await stage.press(*"zoom")
        assert "esc shows all" in stage.text()
        assert "Give the focused pane all the room" in stage.text()
        assert "Next mode of supervision" not in stage.text()
        await stage.press("escape")
        assert isinstance(stage.app.screen, Help)
        assert "Next mode of supervision" in stage.text()
        assert "esc closes" in stage.text()
        await stage.press(*"xyzzy")
        assert "no command holds these words" in stage.text()
        await stage.press("escape", "escape")
        assert not isinstance(stage.app.screen, ModalScreen)


async def test_a_command_with_its_argument_is_typed_completed_and_run() -> None:
    async with on_stage(FakeHandle(agent="claude").to_phase(Phase.EVAL)) as stage:
        await stage.press("colon", *"mod", "tab", *"st", "enter")
        assert stage.handle.state.mode is Mode.STEP
        await stage.press("colon", *"hint ", *"use q4", "enter")
        assert cmd.Hint("use q4") in stage.handle.sent
        await stage.press("colon", "up", "enter")
        assert stage.handle.sent.count(cmd.Hint("use q4")) == 2


async def test_a_theme_is_seen_while_it_is_completed_and_taken_back_by_escape() -> None:
    async with on_stage(FakeHandle()) as stage:
        await stage.press("colon", *"theme ", "tab", "tab")
        assert stage.app.theme == "chalk"
        await stage.press("escape")
        assert stage.app.theme == "ember"
        await stage.command("theme tide")
        assert stage.app.theme == "tide"


def painted(stage: Stage) -> list[list[Segment]]:
    """Every piece of the screen with its style."""
    return [list(strip) for strip in stage.app.screen._compositor.render_strips()]


def grounds(stage: Stage) -> set[str]:
    """The colours that anything on the screen on top stands on."""
    screen = stage.app.screen
    return {node.background_colors[1].hex for node in screen.walk_children(Widget) if node.display}


async def test_the_whole_screen_wears_a_theme_while_it_is_seen_and_the_old_one_after_escape() -> (
    None
):
    async with on_stage(FakeHandle()) as stage:
        before = painted(stage)
        await stage.press("ctrl+p", *"zoom")
        dark = grounds(stage)
        await stage.press("ctrl+u", *"theme: paper")
        paper = stage.app.appearance.themes["paper"].palette
        assert paper["raised"].upper() in grounds(stage)
        assert not dark & grounds(stage), "the palette itself is on paper too"
        assert stage.app.screen.styles.background.a == 0, "and nothing dims the deck behind"
        (deck,) = {s.bgcolor.name for s in (stage.deck.header.ground,) if s.bgcolor}
        assert deck == paper["raised"].lower()
        await stage.press("ctrl+u", *"zoom")
        assert stage.app.theme == "ember", "another command is under the cursor"
        assert grounds(stage) == dark
        await stage.press("ctrl+u", *"theme: paper")
        await stage.press("escape", "escape")
        assert stage.app.screen is stage.deck
        await stage.pull()
        assert painted(stage) == before


async def test_the_name_of_a_theme_is_no_markup_anywhere() -> None:
    folder = config_folder() / "themes"
    folder.mkdir(parents=True)
    text = (ROOT / "themes" / "ember.toml").read_text()
    text = text.replace('"ember"', r'"[red]odd[/]\u001b"').replace("dark and warm", "[b]warm")
    (folder / "odd.toml").write_text(text)
    async with on_stage(FakeHandle()) as stage:
        assert "[red]odd[/]\x1b" in stage.app.appearance.themes
        for keys in (("ctrl+p", *"[red]"), ("ctrl+p", *"odd")):
            await stage.press(*keys)
            assert "look: theme [red]odd[/]␛" in stage.text()
            assert "[b]warm" in stage.text()
            await stage.press("escape", "escape")
        await stage.press("colon", *"theme [")
        assert "[red]odd[/]␛" in stage.text()


async def test_what_cannot_be_run_is_told_on_the_line_which_stays_open() -> None:
    async with on_stage(FakeHandle()) as stage:
        for typed, told in (
            ("nonsense", "no command is called nonsense here"),
            ("theme neon", "theme can be: ansi16"),
            ("zoom now", "zoom takes no argument"),
        ):
            await stage.press("colon", *typed, "enter")
            assert isinstance(stage.app.screen, CommandLine)
            assert told in stage.text()
            await stage.press("escape")


def words(argument: Argument) -> list[str]:
    return list(argument.choices)


MODE = Command("a.mode", (), "mode", "", "mode", "A", argument=Argument("m", ("auto", "step")))
MOVE = Command("a.move", (), "move on", "", "move", "A")


@pytest.mark.parametrize(
    ("text", "command", "argument", "fault"),
    [
        ("", None, "", ""),
        ("mode step", MODE, "step", ""),
        ("mod st", MODE, "step", ""),
        ("a.mode", MODE, "", ""),
        ("move-on", MOVE, "", ""),
        ("mo", None, "", "mo may be: a.mode, a.move"),
        ("mode x", MODE, "x", "mode can be: auto, step"),
        ("x", None, "", "no command is called x here"),
    ],
)
def test_a_line_is_read(text: str, command: Command | None, argument: str, fault: str) -> None:
    reading = read(text, (MODE, MOVE), words)
    assert (reading.command, reading.argument, reading.fault) == (command, argument, fault)


def test_a_line_offers_what_it_may_become() -> None:
    assert [o for o, _ in read("", (MODE, MOVE), words).offers] == ["mode ", "move-on"]
    assert [o for o, _ in read("mode ", (MODE, MOVE), words).offers] == ["mode auto", "mode step"]
    assert [o for o, _ in read("mode s", (MODE, MOVE), words).offers] == ["mode step"]

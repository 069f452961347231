from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.binding import Binding

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Mode, Phase
from akg_tui.tui import keyboard
from akg_tui.tui.screens.command_line import offers
from akg_tui.view.controls import keymap as km
from akg_tui.view.controls import keys_page
from akg_tui.view.controls.command_registry import COMMANDS, clashes, defaults
from akg_tui.view.controls.preferences import config_folder

from .script import FakeHandle
from .stage import on_stage

SHIPPED = ("default", "vim", "emacs")


def mine(text: str, name: str = "mine") -> Path:
    """A keymap of the person's own."""
    folder = config_folder() / "keymaps"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def put_on(name: str) -> list[str]:
    return keyboard.apply_keymap(name, keyboard.folders(config_folder()), {}, None)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_keymap_has_no_fault_and_no_clash(name: str) -> None:
    assert put_on(name) == []
    assert clashes() == []


def test_a_keymap_that_is_written_out_is_read_back_the_same(tmp_path: Path) -> None:
    put_on("emacs")
    (tmp_path / "out.toml").write_text(keys_page.toml())
    again, faults = km.load(tmp_path / "out.toml", defaults(), ())
    assert faults == []
    assert dict(again.keys) == {command.id: command.keys_now for command in COMMANDS}


@pytest.mark.parametrize(
    ("written", "chord", "shown"),
    [
        ("?", "question_mark", "?"),
        ("ctrl+x ctrl+c", "ctrl+x ctrl+c", "^x ^c"),
        ("alt+<", "alt+less_than_sign", "alt+<"),
        ("g g", "g g", "g g"),
        ("+", "plus", "+"),
        ("alt++", "alt+plus", "alt++"),
        ("f5", "f5", "F5"),
        ("Escape".lower(), "escape", "esc"),
        ("é", "é", "é"),
    ],
)
def test_keys_are_written_as_people_write_them(written: str, chord: str, shown: str) -> None:
    assert km.chord(written) == chord
    assert km.shown(chord) == shown


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", "an empty key"),
        ("hyperspace", "no key is called 'hyperspace'"),
        ("control+x", "no modifier is called 'control'"),
        ("ctrl+i", "cannot tell ctrl+i from tab"),
        ("ctrl+m", "cannot tell ctrl+m from enter"),
    ],
)
def test_a_key_that_no_terminal_sends_is_refused(written: str, why: str) -> None:
    with pytest.raises(km.BadKey, match=why.replace("+", r"\+")):
        km.chord(written)


@given(st.lists(st.sampled_from([chr(c) for c in range(0x21, 0x7F)]), min_size=1, max_size=3))
def test_every_printable_key_survives_being_written_to_a_file(keys: list[str]) -> None:
    chord = km.chord(" ".join(keys))
    assert km.chord(km.shown_for_file(chord)) == chord


def test_faults_are_told_by_file_and_line_and_cost_only_themselves() -> None:
    path = mine(
        '[keys]\n"run.step" = "V"\n"run.stap" = "x"\n"run.mode" = 7\n"pane.zoom" = "ctrl+i"\n'
    )
    faults = put_on("mine")
    assert [f.removeprefix(f"{path}:").split(":")[0] for f in faults] == ["3", "4", "5"]
    assert "no command is called 'run.stap'" in faults[0]
    keys = {command.id: command.keys_now for command in COMMANDS}
    assert keys["run.step"] == ("V",)
    assert keys["run.mode"] == ("m",)


def test_a_file_that_is_no_toml_leaves_the_default_keys() -> None:
    path = mine('[keys]\n"run.step" = \n')
    (fault,) = put_on("mine")
    assert fault.startswith(f"{path}:2: ")
    assert {c.id: c.keys_now for c in COMMANDS} == defaults()


def test_a_clash_names_both_commands_and_the_file_wins() -> None:
    path = mine('[keys]\n\n"run.hint" = "n"\n')
    (fault,) = put_on("mine")
    assert fault == (
        f"{path}:3: keys.run.hint: the key n is given to run.step and to run.hint; run.hint has it"
    )
    keys = {command.id: command.keys_now for command in COMMANDS}
    assert (keys["run.hint"], keys["run.step"]) == (("n",), ())


def test_a_key_clashes_with_a_chord_that_it_begins_and_not_with_one_of_another_screen() -> None:
    mine('[keys]\n"pane.home" = "n x"\n"review.next" = "m"\n')
    (fault,) = put_on("mine")
    assert "run.step" in fault
    assert "pane.home" in fault


def test_on_the_strip_of_time_its_own_keys_go_before_those_that_are_everywhere() -> None:
    mine('[keys]\n"past.first" = "y"\n"copy.view" = "y"\n')
    assert put_on("mine") == []
    bound = {b.key: b.id for b in keyboard.bindings("past") if isinstance(b, Binding)}
    assert bound["y"] == "past.first"
    assert bound["pagedown"] == "past.on"
    deck = {b.key: b.id for b in keyboard.bindings("deck") if isinstance(b, Binding)}
    assert (deck["y"], deck["pagedown"]) == ("copy.view", "pane.page_down")


def test_a_keymap_may_be_based_on_another() -> None:
    mine('base = "vim"\n[keys]\n"run.step" = "s"\n')
    assert put_on("mine") == []
    keys = {command.id: command.keys_now for command in COMMANDS}
    assert keys["pane.down"] == ("j", "down")
    assert keys["run.step"] == ("s",)
    mine('base = "nano"\n', "other")
    (fault,) = put_on("other")
    assert ":1: base: there is no keymap 'nano'" in fault


def test_keys_in_the_settings_go_over_the_keymap(tmp_path: Path) -> None:
    config = config_folder() / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('keymap = "vim"\n[keys]\n"run.step" = "s"\n"run.hunt" = "x"\n')
    faults = keyboard.apply_keymap(
        "vim", keyboard.folders(config_folder()), {"run.step": "s", "run.hunt": "x"}, config
    )
    assert faults == [f"{config}:4: keys.run.hunt: no command is called 'run.hunt'"]
    assert next(c for c in COMMANDS if c.id == "run.step").keys_now == ("s",)


async def test_another_keymap_is_put_on_live_and_the_footer_follows() -> None:
    async with on_stage(FakeHandle().to_phase(Phase.EVAL, settled=2), (200, 60)) as stage:
        await stage.command("keymap emacs")
        await stage.press("4")
        stage.handle.now += 10
        await stage.pull()
        assert "^x 1 zoom" in stage.text()
        await stage.press("z")
        assert not stage.deck.zoomed
        await stage.press("ctrl+x")
        assert "^x …" in stage.text()
        await stage.press("1")
        assert stage.deck.zoomed
        await stage.press("ctrl+x", "x")
        assert "no command has the keys ^x x" in stage.text()


async def test_no_key_leaves_a_run_without_the_question() -> None:
    mine('[keys]\n"app.quit" = "Q"\n"app.palette" = "f2"\n')
    async with on_stage(FakeHandle().to_phase(Phase.EVAL)) as stage:
        await stage.press("colon", *"keymap mine", "enter", "ctrl+q", "ctrl+p")
        assert stage.app.screen is stage.deck
        assert not stage.handle.closed
        await stage.press("Q")
        assert "leave the run?" in stage.text()


async def test_a_chord_of_vim_moves_in_the_focused_pane_and_plain_keys_stay_text() -> None:
    async with on_stage(FakeHandle(agent="claude").to_phase(Phase.EVAL, settled=7)) as stage:
        await stage.press("colon", *"keymap vim", "enter", "4", "k", "k")
        log = stage.log
        assert not log.follow, "k picks the entry before, which is reading"
        await stage.press("g", "g")
        assert log.scroll_offset.y == 0
        await stage.press("i", *"ggjk", "enter")
        assert stage.handle.state.hints == ("ggjk",)


async def test_a_keymap_that_changed_on_disk_is_read_when_it_is_chosen_again() -> None:
    path = mine('[keys]\n"pane.zoom" = "Z"\n')
    async with on_stage(FakeHandle()) as stage:
        await stage.press("colon", *"keymap mine", "enter", "Z")
        assert stage.deck.zoomed
        path.write_text('[keys]\n"pane.zoom" = "ctrl+z"\n')
        await stage.press("colon", *"keymap mine", "enter", "Z")
        assert stage.deck.zoomed
        await stage.press("ctrl+z")
        assert not stage.deck.zoomed


REBOUND = {
    "run.pause": ("f5",), "run.step": ("f6",), "run.mode": ("f7",), "app.quit": ("f8",),
    "review.open": ("f9",), "past.live": ("f2",), "pane.plan": ("f3",), "pane.best": (),
    "review.keep": ("f4",), "past.previous_round": ("o",), "past.next_round": ("g o",),
}  # fmt: skip


async def test_the_screens_name_the_keys_of_the_keymap_that_is_worn() -> None:
    handle = FakeHandle(mode=Mode.REVIEW).work()
    async with on_stage(handle, (200, 60)) as stage:
        assert "KEEP of attempt 1 waits for you, r shows it" in stage.text()
        km.use(km.Keymap("mine", keys=REBOUND))
        stage.app.appearance.rekey()
        stage.app.appearance.reword()
        await stage.arm()
        shown = stage.text()
        assert "KEEP of attempt 1 waits for you, F9 shows it" in shown
        assert "╭─ F3 plan " in shown
        assert "╭─ best: the seed" in shown, "a pane without a key has a title without one"
        await stage.press("f9")
        handle.now += 1
        await stage.pull()
        assert "the run waits for you:  F4 keep  D discard" in stage.text()
        await stage.press("escape")
        handle.send(cmd.SetMode(Mode.STEP))
        handle.send(cmd.AnswerGate(handle.state.gate.gate, approve=True))  # type: ignore[union-attr]
        handle.work()
        await stage.pull()
        assert "F6 takes one step" in stage.text()
        assert "F7 changes the mode" in stage.text()
        handle.send(cmd.Pause())
        handle.work()
        await stage.pull()
        assert "PAUSED: F5 goes on" in stage.text()


async def test_a_keymap_put_on_reaches_the_past_and_so_do_chords_the_line_and_the_palette() -> None:
    async with on_stage(FakeHandle().work()) as stage:
        await stage.press("T")
        km.use(km.Keymap("mine", keys=REBOUND))
        stage.app.appearance.rekey()
        stage.app.appearance.reword()
        assert "not live: F2 live" in stage.text()
        last = stage.deck.timeline.view
        await stage.press("o", "o")
        before = stage.deck.timeline.view
        assert before.seq < last.seq
        await stage.press("g", "o")
        assert before.seq < stage.deck.timeline.view.seq
        await stage.press("T", "colon", *"first", "enter")
        assert stage.deck.timeline.view.seq == 1
        offered = {offer.command.id for offer in offers(stage.app)}
        assert {"past.first", "past.last", "pane.zoom"} <= offered
        await stage.press("f2")
        assert not stage.app.in_past
        assert "past.first" not in {offer.command.id for offer in offers(stage.app)}

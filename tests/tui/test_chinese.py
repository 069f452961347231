"""In Chinese every word that is the workbench's own is Chinese, on every screen.

The run of these tests writes its own words in capitals, so whatever stands there in small
letters is a sentence of the journal, a name or a key that stays in every language, or a slip.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.measurement import Interval, Progress
from akg_tui.core.phases import Gate, Mode, Phase
from akg_tui.core.sanitize import Said
from akg_tui.resources import sample_names
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.screens.runs import Runs
from akg_tui.view.spans import cells

from .script import KERNEL, PLANS, FakeHandle, Try
from .stage import Stage, on_stage

# Keys, commands of the `:` line, names of files, units, themes: the same in every language.
_NAMES = """
akg tui auto review step mode best view pane kernel svg text line full reduced ascii unicode
default vim emacs en zh deck agent numbers plan edit keep ask script space tab enter esc alt
up down left right shift pgup pgdn home end ctrl del min ms cpp torch triton row_softmax cpu zen4
sweep main token tokens roofline class get_inputs get_init_inputs reference.py kernel.py
mytask py toml trash fg to tell stop word akg-tui hint discard reject approve model modelnew
reference row softmax zen get init inputs wrong ab resume rules revoke config layout sort tmp
messages
limits rounds hours cost replan diagnose remeasure new md compile
attach detach take hand over hand-over
"""
NAMES = set(_NAMES.split())
TAG = re.compile(r"(\d+ +)[a-z]{2}\b")
WORD = re.compile(r"[A-Za-z]*[a-z][A-Za-z]+")
# A command and a value of a limit; elsewhere "more" and "none" are words that were left in English.
WRITTEN = re.compile(r":more(?= [A-Z])|=none\b")


class Shouting(FakeHandle):
    """A run whose agent and kernel write in capitals."""

    def __init__(self, mode: Mode = Mode.REVIEW) -> None:
        plans = [[_shouted(each) for each in plan] for plan in PLANS]
        super().__init__(mode=mode, plans=plans, kernel=KERNEL.upper(), path="RUNS/R1")

    def _reply(self, phase: Phase, text: str, calls: int) -> None:
        super()._reply(phase, text.upper(), calls)


def _shouted(each: Try) -> Try:
    found = each.measurement
    loud = {"message": found.message.upper(), "detail": found.detail.upper()}
    from msgspec.structs import replace as changed

    return replace(
        each, text=each.text.upper(), old=each.old.upper(), new=str(each.new).upper(),
        measurement=changed(found, **loud),
    )  # fmt: skip


def of_the_journal(handle: FakeHandle) -> set[str]:
    """The words of the journal: the agent's, reasons, names of tools and of kinds of events."""
    told: list[str] = []
    for record in handle.records:
        event = record.event
        told += [str(getattr(event, name, "")) for name in ("tool", "summary", "reason", "reasons")]
        told += re.findall(r"[A-Z][a-z]+", type(event).__name__)
        if isinstance(event, ev.PlanSubmitted):
            told += [item.rationale for item in event.items]
    whole = {word.lower() for text in told for word in WORD.findall(text)}
    # A long one may be broken where a row ends.
    return (
        whole
        | {w[at:] for w in whole for at in range(1, len(w))}
        | {w[:at] for w in whole for at in range(1, len(w))}
    )


def english(shown: str, allowed: set[str]) -> list[str]:
    """Words in small letters that nobody allows; names with marks in them are taken apart."""
    shown = re.sub(r"[a-z]+…", "", WRITTEN.sub("", TAG.sub(r"\1", shown)))
    return sorted({w for w in WORD.findall(shown) if w.lower() not in allowed})


async def walked(stage: Stage, *visits: Sequence[str]) -> None:
    """Look at what each visit's keys lead to, and come back."""
    allowed = NAMES | of_the_journal(stage.handle)
    home = stage.app.screen
    for keys in visits:
        for key in keys:
            await stage.press(key)
        shown = stage.text()
        assert english(shown, allowed) == [], f"{keys}\n{shown}"
        width = stage.app.size.width
        assert {cells(row) for row in shown.split("\n")} == {width}, keys
        for _ in range(3):
            if stage.app.screen is home and stage.deck.focused in stage.deck.panes.values():
                break
            await stage.press("escape")
        stage.handle.now += 10  # what a key came to has gone from the footer
        await stage.pull()


async def in_chinese(stage: Stage) -> None:
    stage.app.appearance.action_setting("lang", "zh")
    stage.handle.now += 10
    await stage.arm()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_on_the_deck_the_card_and_all_panes(size: tuple[int, int]) -> None:
    handle = Shouting().work()
    handle.send(cmd.AnswerGate(handle.state.gate.gate, approve=True))  # type: ignore[union-attr]
    handle.send(cmd.Hint("X"))
    handle.work()
    async with on_stage(handle, size) as stage:
        await in_chinese(stage)
        panes = [[str(number)] for number in range(1, 9)]
        await walked(
            stage, [], *panes, ["6", "c"], ["3", "c"], ["c"], ["c"], ["1", "down", "enter"]
        )


async def test_in_dialogs_messages_and_lines_to_write_on() -> None:
    async with on_stage(Shouting().work()) as stage:
        await in_chinese(stage)
        await walked(
            stage, ["M"], ["i"], ["q"], ["u"], ["v"], ["m"], ["w"], ["minus"], ["equals_sign"],
            ["space"], ["slash", "x", "enter"], ["b"], ["1", "a"], ["1", "K"], ["1", "e"],
            ["alt+w"], ["alt+s"], ["alt+down"], ["f"], ["E"], ["4", "right_square_bracket"],
        )  # fmt: skip


async def test_in_the_review_and_in_help() -> None:
    async with on_stage(Shouting().work()) as stage:
        await in_chinese(stage)
        await walked(stage, ["r"], ["r", "x"], ["r", "B"], ["r", "c"], ["question_mark"])
        await walked(stage, ["question_mark", "end"])


@pytest.mark.parametrize("gate", [Gate.PLAN, Gate.EDIT])
async def test_at_the_other_gates(gate: Gate) -> None:
    handle = Shouting(Mode.AUTO)
    assert handle.send(cmd.SetGate(gate, on=True)) is None
    handle.work()
    async with on_stage(handle) as stage:
        await in_chinese(stage)
        await walked(stage, [])


async def test_while_the_agent_asks_and_a_script_waits() -> None:
    handle = Shouting().to_phase(Phase.PLAN)
    assert handle.send(cmd.AskUser("Q", choices=("A", "B"), default="A")) is None
    handle.send(cmd.SetGate(Gate.SCRIPT, on=True))
    assert handle.send(cmd.RequestScript("AB" * 32, "X\nY")) is None
    async with on_stage(handle) as stage:
        await in_chinese(stage)
        await walked(stage, [], ["alt+s"], ["alt+d"], ["alt+n"])


async def test_in_the_past_while_evaluating_and_when_it_is_over() -> None:
    handle = Shouting(Mode.AUTO).to_phase(Phase.EVAL, settled=7)
    assert handle.send(cmd.StartEval(ev.Purpose.CANDIDATE, 8, handle.state.work_blob)) is None
    handle.live.show(Said("{what} evaluation", what="candidate"))
    handle.live.report(Progress("time", 5, 8, ratio=Interval(0.97, 0.93, 1.02, 0.95)))
    async with on_stage(handle, (200, 60)) as stage:
        await in_chinese(stage)
        await walked(stage, [])
        await stage.press("T", "shift+left", "shift+left")
        stage.handle.now += 10
        await stage.pull()
        assert english(stage.text(), NAMES | of_the_journal(handle)) == []
        await stage.press("L")
    async with on_stage(Shouting(Mode.AUTO).work()) as stage:
        await in_chinese(stage)
        await walked(stage, [], ["i"])


async def test_in_the_list_of_runs_and_where_a_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path.resolve()))
    monkeypatch.setenv("AKG_TUI_LANG", "zh")
    (tmp_path / "K").mkdir()
    app = WorkbenchApp(None, browse=tmp_path / "K")
    async with app.run_test(size=(120, 40)) as pilot:
        await app.workers.wait_for_complete()
        for keys in ([], ["r"], ["c"], ["s"], ["slash"], ["n"], ["n", "enter"]):
            await pilot.press(*keys)
            app.pull_now()
            await pilot.pause()
            shown = "\n".join(s.text for s in app.screen._compositor.render_strips())
            for name in sorted(sample_names(), key=len, reverse=True):
                shown = shown.replace(name, "")
            assert english(shown, NAMES) == [], shown
            while not isinstance(app.screen, Runs) or app.screen.focused is not app.screen.view:
                await pilot.press("escape")
                await pilot.pause()

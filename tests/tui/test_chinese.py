"""In Chinese every word that is the workbench's own is Chinese, on every screen.

The run of these tests writes its own words in capitals, so whatever stands there in small
letters is a sentence of the journal, a name or a key that stays in every language, a text that
has no translation yet, or a slip: a text that is not shown through `tr`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.measurement import Finding, Interval, Progress
from akg_tui.core.phases import Gate, Mode, Phase
from akg_tui.core.sanitize import Said
from akg_tui.resources import sample_names
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.screens.runs import Runs
from akg_tui.view.spans import cells

from .catalogue import lacking, texts
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
limits rounds hours cost replan diagnose adopt remeasure new md compile
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
    found = {w for w in WORD.findall(shown) if w.lower() not in allowed}
    return sorted(found - words_to_translate()) if found else []


def words_to_translate() -> set[str]:
    """The words of the texts that the catalogue lacks: `make lint` lists those texts."""
    return {w for each in lacking("zh", texts()) for w in WORD.findall(each.text)}


async def walked(stage: Stage, *visits: str) -> None:
    """Look at what each visit's keys lead to, and come back."""
    allowed = NAMES | of_the_journal(stage.handle)
    home = stage.app.screen
    for keys in visits:
        for key in keys.split():
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


def kept() -> FakeHandle:
    """At the second question, after a KEEP and a hint."""
    handle = Shouting().work()
    handle.send(cmd.AnswerGate(handle.state.gate.gate, approve=True))
    handle.send(cmd.Hint("X"))
    return handle.work()


def gated(gate: Gate) -> FakeHandle:
    handle = Shouting(Mode.AUTO)
    assert handle.send(cmd.SetGate(gate, on=True)) is None
    return handle.work()


def asking() -> FakeHandle:
    """The agent asks, and a script waits."""
    handle = Shouting().to_phase(Phase.PLAN)
    assert handle.send(cmd.AskUser("Q", choices=("A", "B"), default="A")) is None
    handle.send(cmd.SetGate(Gate.SCRIPT, on=True))
    assert handle.send(cmd.RequestScript("AB" * 32, "X\nY")) is None
    return handle


PANES = ("6 c", "3 c", "c", "c", "1 down enter")
LINES = "M,i,q,u,v,m,w,minus,equals_sign,space,slash x enter,b,1 a,1 K,1 e,alt+w,alt+s,alt+down,f,E"
WALKS: dict[str, tuple[Callable[[], FakeHandle], tuple[int, int], Sequence[str]]] = {
    # A run, the size of the terminal, and the keys of each visit.
    "small deck": (kept, (80, 24), ("", *"12345678", *PANES)),
    "large deck": (kept, (200, 60), ("", *"12345678", *PANES)),
    "dialogs and lines": (
        lambda: Shouting().work(), (120, 40), (*LINES.split(","), "4 right_square_bracket"),
    ),
    "review and help": (
        lambda: Shouting().work(), (120, 40),
        ("r", "r x", "r B", "r c", "question_mark", "question_mark end"),
    ),
    "plan": (lambda: gated(Gate.PLAN), (120, 40), ("",)),
    "edit": (lambda: gated(Gate.EDIT), (120, 40), ("",)),
    "question and script": (asking, (120, 40), ("", "alt+s", "alt+d", "alt+n")),
    "over": (lambda: Shouting(Mode.AUTO).work(), (120, 40), ("", "i")),
}  # fmt: skip


@pytest.mark.parametrize("name", WALKS)
async def test_on_the_deck_and_what_its_keys_open(name: str) -> None:
    begin, size, visits = WALKS[name]
    async with on_stage(begin(), size) as stage:
        await in_chinese(stage)
        await walked(stage, *visits)


async def test_while_evaluating_and_in_the_past() -> None:
    handle = Shouting(Mode.AUTO).to_phase(Phase.EVAL, settled=7)
    assert handle.send(cmd.StartEval(ev.Purpose.CANDIDATE, 8, handle.state.work_blob)) is None
    handle.live.show(Said("{what} evaluation", what="candidate"))
    handle.live.report(Progress("time", 5, 8, ratio=Interval(0.97, 0.93, 1.02, 0.95)))
    async with on_stage(handle, (200, 60)) as stage:
        await in_chinese(stage)
        await walked(stage, "")
        await stage.press("T", "shift+left", "shift+left")
        stage.handle.now += 10
        await stage.pull()
        assert english(stage.text(), NAMES | of_the_journal(handle)) == []


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


async def test_a_refusal_in_the_footer() -> None:
    async with on_stage(FakeHandle(mode=Mode.REVIEW).work(), (80, 24)) as stage:
        await in_chinese(stage)
        for command, told in (
            (cmd.Step(), "单步要在 step 模式或暂停时"),
            (cmd.UndoKeep(), "没有可撤销的 KEEP：最佳内核就是初版"),
            (cmd.SetMode(Mode.REVIEW), "模式已是 review"),
            (cmd.Unpause(), "运行没有暂停"),
            (cmd.DropItem("p77"), "没有 p77 这一项"),
        ):
            assert not stage.app.steer(command, "")
            await stage.pull()
            assert told in stage.text()
            assert {cells(row) for row in stage.text().split("\n")} == {80}


async def test_what_the_guard_warns_of_on_the_card() -> None:
    warned = Finding("look-around", 12, "sys.modules looks into the harness")
    tries = [replace(each, measurement=changed(each.measurement, findings=(warned,)))
             for each in PLANS[0]]  # fmt: skip
    async with on_stage(FakeHandle(mode=Mode.REVIEW, plans=[tries]).work(), (80, 24)) as stage:
        await in_chinese(stage)
        await stage.press("z")
        flat = "".join(stage.text().split()).replace("│", "")
        assert "静态检查警告：第12行：sys.moduleslooksintotheharness（look-around）" in flat


async def test_a_reason_of_the_journal_if_it_has_no_values() -> None:
    async with on_stage(FakeHandle().to_phase(Phase.EDIT, settled=2)) as stage:
        await in_chinese(stage)
        await stage.press("4", "z")
        assert "── EDIT 下一项" in stage.text()

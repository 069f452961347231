"""Whatever a person asks for too early, too late or wrongly is refused in Chinese.

Every command is sent to a run in each of its states; what core answers is put as the footer
puts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from msgspec.structs import replace as changed

from akg_tui.agent.tools.registry import allowed, own_tools
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.decide import _DECIDE
from akg_tui.core.measurement import Finding
from akg_tui.core.phases import Gate, Mode, Phase
from akg_tui.view.language import retold, speak
from akg_tui.view.spans import cells

from .script import PLANS, FakeHandle, faster
from .stage import on_stage
from .test_chinese import NAMES, english

ITEM = ev.PlannedItem("p99", "LANES = 2", "FEWER LANES LEAVE MORE REGISTERS FREE")
WHY = "FEWER LANES BEFORE THE REST"
TOOLS = {*(tool for phase in Phase for tool in allowed(own_tools(), phase))}


def requests(handle: FakeHandle) -> list[cmd.Command]:
    """Each command at least once, most of them in a form that can never be taken."""
    policy = handle.state.task.policy
    every_gate = [cmd.SetGate(gate, on=on) for gate in Gate for on in (True, False)]
    items = [cmd.DropItem("p1"), cmd.DropItem("p77"), cmd.PinItem("p1"), cmd.PinItem("p77")]
    again = [cmd.Remeasure(what) for what in ("p1", "p2", "p77", "1", "2", "3", "77", "X")]
    revisions = [
        cmd.RevisePlan("X", drop=("p2",)),
        cmd.RevisePlan(WHY),
        *(cmd.RevisePlan(WHY, drop=(what,)) for what in ("p1", "p77", "X Y")),
        *(cmd.RevisePlan(WHY, reopen=(what,)) for what in ("p1", "p2")),
        cmd.RevisePlan(WHY, drop=("p2",), reopen=("p2",)),
        cmd.RevisePlan(WHY, order=("p77",)),
    ]
    return [
        *revisions,
        *(cmd.SetMode(mode) for mode in Mode),
        *every_gate,
        *items,
        *again,
        cmd.StartEval(ev.Purpose.FINAL, 77, "AB"),
        cmd.FinishEval(faster(1.0)),
        cmd.AcceptBaseline("AB"),
        cmd.Settle("AB"),
        cmd.SubmitPlan((ITEM,)),
        cmd.SubmitPlan((ITEM, ITEM, ITEM)),
        cmd.SubmitPlan((ev.PlannedItem("p1", "X", "Y"),) * 3),
        cmd.Edit("AB", "CD", 1, 1),
        cmd.ReportDiagnosis("X"),
        cmd.ReportDiagnosis("THE LANES ARE TOO MANY", ("X",), ("LANES = 3", "LANES = 3")),
        cmd.RequestFinish("X"),
        cmd.AskUser(""),
        cmd.AskUser("X", ("A",)),
        cmd.AskUser("X", ("A", "A")),
        cmd.AskUser("X", ("A", "B"), "C"),
        cmd.AskUser("X", timeout_s=-1.0),
        cmd.ReportBlocked("other", "X"),
        cmd.RequestScript("AB" * 32, "X", source="s7"),
        cmd.RequestScript("AB" * 32, "X"),
        cmd.ChangePolicy(policy),
        cmd.GoOn(changed(policy, max_rounds=1)),
        cmd.Pause(),
        cmd.Pause(),
        cmd.Step(),
        cmd.Step(),
        cmd.Unpause(),
        cmd.Unpause(),
        cmd.AnswerGate(77, approve=True),
        cmd.RevokeRule(7),
        cmd.AnswerQuestion(7, "X"),
        cmd.HoldQuestion(7),
        cmd.HoldQuestion(1),
        cmd.AddItem(""),
        cmd.AddItem("LANES = 2", before="p77"),
        cmd.AddItem("LANES = 2"),
        cmd.AddItem("LANES = 2"),
        cmd.EditItem("p1", "LANES = 64"),
        cmd.ReorderItems(("p77",)),
        cmd.ForceReplan(),
        cmd.ForceReplan(),
        cmd.LeaveOutCompile(),
        cmd.NewSession(),
        cmd.ForceDiagnosis(),
        cmd.ForceDiagnosis(),
        cmd.UndoKeep(),
        cmd.WithdrawUndo(),
        cmd.UndoKeep(queue=True),
        cmd.UndoKeep(queue=True),
        cmd.WithdrawUndo(),
        cmd.Hint(" "),
        cmd.HintSubagent("s7", "X"),
        cmd.StopSubagent("s7"),
        cmd.Stop("X"),
        cmd.Stop("X"),
    ]


def runs() -> Iterator[FakeHandle]:
    """A run in each phase, at each gate, with a question, and over."""
    yield FakeHandle()
    for phase in (Phase.BASELINE, Phase.PLAN, Phase.EDIT, Phase.EVAL, Phase.DECIDE):
        handle = FakeHandle().to_phase(phase)
        yield handle
    at_work = FakeHandle().to_phase(Phase.EVAL, settled=2)
    started = cmd.StartEval(ev.Purpose.CANDIDATE, 3, at_work.state.work_blob)
    assert at_work.send(started) is None
    yield at_work
    for gate in (Gate.PLAN, Gate.EDIT, Gate.KEEP):
        handle = FakeHandle()
        assert handle.send(cmd.SetGate(gate, on=True)) is None
        handle.work()
        yield handle
    asking = FakeHandle().to_phase(Phase.PLAN)
    assert asking.send(cmd.SetGate(Gate.ASK, on=True)) is None
    assert asking.send(cmd.AskUser("Q", choices=("A", "B"))) is None
    yield asking
    over = FakeHandle().work()
    yield over


@cache
def refusals() -> frozenset[tuple[str, type]]:
    """Each refusal, with the command that it answers."""
    found: set[tuple[str, type]] = set()
    for handle in runs():
        for command in requests(handle):
            if (refused := handle.send(command)) is not None:
                found.add((refused.why, type(command)))
    return frozenset(found)


def slips(said: str) -> list[str]:
    """English words that are no name of a tool, of a file or of a state."""
    # Why the run ended, or would: a reason of the journal, with values.
    ends = "the agent finished: the space is searched", "max rounds reached (1)"
    for name in (*ends, *TOOLS, "queue exhausted, no replan condition met"):
        said = said.replace(name, "")
    return english(said, NAMES | {"over", "kept", "failed", "discarded", "timeout"})


def test_every_command_can_be_refused_and_a_persons_is_so_in_chinese() -> None:
    """The agent's are in English: the agent reads them."""
    whys = {why for why, kind in refusals() if issubclass(kind, cmd.PersonCommand)}
    speak("zh")
    assert {why: slips(retold(why)) for why in whys if slips(retold(why))} == {}
    assert _DECIDE.keys() - {kind for _, kind in refusals()} == {cmd.Observe, cmd.RecordTrial}
    assert len(whys) > 50


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_refusal_in_the_footer_is_chinese(size: tuple[int, int]) -> None:
    async with on_stage(FakeHandle(mode=Mode.REVIEW).work(), size) as stage:
        stage.app.appearance.action_setting("lang", "zh")
        await stage.arm()
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
            assert {cells(row) for row in stage.text().split("\n")} == {size[0]}


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_the_guard_warns_of_is_chinese_on_the_card(size: tuple[int, int]) -> None:
    warned = Finding("look-around", 12, "sys.modules looks into the harness")
    tries = [replace(each, measurement=changed(each.measurement, findings=(warned,)))
             for each in PLANS[0]]  # fmt: skip
    async with on_stage(FakeHandle(mode=Mode.REVIEW, plans=[tries]).work(), size) as stage:
        stage.app.appearance.action_setting("lang", "zh")
        await stage.arm()
        await stage.press("z")
        flat = "".join(stage.text().split())
        assert "静态检查警告：第12行：sys.moduleslooksintotheharness（look-around）" in re.sub(
            "[│]", "", flat
        )


async def test_a_reason_of_the_journal_is_chinese_if_it_has_no_values() -> None:
    handle = FakeHandle().to_phase(Phase.EDIT, settled=2)
    async with on_stage(handle, (120, 40)) as stage:
        stage.app.appearance.action_setting("lang", "zh")
        stage.handle.now += 10
        await stage.pull()
        await stage.press("4", "z")
        shown = stage.text()
    assert "── EDIT 下一项" in shown

"""Rules on the screen: an "always" is armed and safe like a yes, said in full, listed, ended."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.approval_rules import in_words
from akg_tui.core.measurement import Finding
from akg_tui.core.phases import Gate, Mode, Phase
from akg_tui.tui.screens.gates import Gates
from akg_tui.view.agent_log import tell
from akg_tui.view.controls.approval_rows import rule_rows
from akg_tui.view.spans import plain
from akg_tui.view.status import header

from .moments import keeping
from .script import PLANS, FakeHandle, Try, faster
from .stage import on_stage
from .test_asking import answered, asking, gated

ALWAYS = cmd.AnswerGate(1, approve=True, always=True)


def scripted(text: str = "notes/a.py\nprint(1)\n", interpreter: str = "python") -> FakeHandle:
    handle = FakeHandle()
    handle.send(cmd.SetGate(Gate.SCRIPT, on=True))
    handle.to_phase(Phase.PLAN)
    assert handle.send(cmd.RequestScript("ab" * 32, text, interpreter)) is None
    return handle


@pytest.mark.parametrize("gate", [Gate.PLAN, Gate.EDIT, Gate.KEEP])
async def test_alt_a_approves_and_lets_all_that_its_card_named_pass_from_then_on(
    gate: Gate,
) -> None:
    handle = gated(gate)
    async with on_stage(handle, armed=True) as stage:
        await stage.press("alt+a")
        assert answered(handle) == [ALWAYS]
        assert "rule 1 answers from here on" in stage.text()
        handle.work()
        await stage.pull()
        assert handle.state.gate is None
        assert handle.state.finished
    if gate is not Gate.PLAN:  # the script's only plan that is asked about is the first
        assert any(isinstance(r.event, ev.RuleApplied) for r in handle.records)


@pytest.mark.parametrize("gate", [Gate.KEEP, Gate.SCRIPT])
async def test_the_card_says_in_full_what_an_always_would_approve(gate: Gate) -> None:
    handle = scripted() if gate is Gate.SCRIPT else gated(gate)
    async with on_stage(handle) as stage:
        for size in ((61, 22), (80, 24), (120, 40), (200, 60)):
            await stage.resize(*size)
            await stage.arm()
            ask = stage.deck.card.shown
            assert ask is not None
            rows = [row.strip("│ ") for row in stage.text().split("\n")]
            told = " ".join(" ".join(rows).split())
            assert f"always: {ask.always}; M ends the rule" in told
            assert "alt+a always" in told
        interpreter = "python" if gate is Gate.SCRIPT else ""
        scope = ev.Scope(gate.value, handle.state.phase, "", interpreter)  # type: ignore[arg-type]
        assert ask.always == in_words(scope)


async def test_the_keys_are_on_the_same_rows_before_and_after_they_count() -> None:
    async with on_stage(keeping(), (61, 17)) as stage:
        await stage.pull()
        before = stage.deck.card.size
        await stage.arm()
        assert stage.deck.card.size == before
        assert "alt+d see the diff" in stage.text()


async def test_a_question_has_no_always() -> None:
    async with on_stage(asking(choices=("yes", "no")), armed=True) as stage:
        assert "always" not in stage.text()
        await stage.press("alt+a")
        assert answered(stage.handle) == []
        assert "no rule can be made of this" in stage.text()


async def test_a_request_of_an_older_version_has_no_always() -> None:
    async with on_stage(scripted(interpreter=""), armed=True) as stage:
        assert "alt+a" not in stage.text()
        await stage.press("alt+a")
    assert answered(stage.handle) == []


async def test_a_keep_that_the_guard_warns_of_says_so_and_waits_in_spite_of_its_rule() -> None:
    finding = Finding("clock", 7, "reads a [red]clock\x1b[2J")
    note = 'wrong at NaN; it counts only with values = "any" under [correctness] in task.toml'
    warned = replace(faster(1.42, ms=6.2), findings=(finding,), notes=(note,))
    plan = PLANS[0][0], Try("EXP = libm32", '"libm64"  #', '"libm32"  #', warned), PLANS[0][2]
    handle = FakeHandle(mode=Mode.REVIEW, plans=(plan,)).work()
    assert handle.send(ALWAYS) is None
    handle.work()
    assert handle.state.gate is not None
    async with on_stage(handle, armed=True) as stage:
        assert "KEEP attempt 2?" in stage.text()
        assert "the static guard warns: line 7: reads a [red]clock␛[2J (clock)" in stage.text()
        assert "note: wrong at NaN; it counts only with" in stage.text()
        assert "alt+a" not in stage.text()


async def test_rules_are_listed_with_their_use_and_ended_by_x() -> None:
    handle = gated(Gate.EDIT)
    assert handle.send(ALWAYS) is None
    handle.work(lambda state: state.settled == 3)
    async with on_stage(handle) as stage:
        await stage.press("M")
        assert isinstance(stage.app.screen, Gates)
        assert "in your place: 1 rule" in stage.text()
        assert "(request 1, used 2×)" in stage.text()
        await stage.press("x")
        assert handle.sent[-1] == cmd.RevokeRule(1)
        assert "1 rule ended" in stage.text()
        await stage.press("x")
        assert handle.sent[-1] == cmd.RevokeRule(1), "there is none left to end"


def test_of_many_rules_those_around_the_marked_one_are_in_sight() -> None:
    handle = FakeHandle()
    for number in range(1, 10):
        scope = ev.Scope("script", Phase.PLAN, f"kind {number}", "sh")
        handle._append(ev.RuleLearned(rule=number, scope=scope, gate=number))
    shown = [plain(row) for row in rule_rows(handle.state, 6, 74)]
    assert any("9 rules (6 to 9 here)" in row for row in shown)
    assert any(row.startswith("▸ 7 every sh script of a kind 7") for row in shown)
    assert not any("kind 5" in row for row in shown)


def test_the_header_and_the_log_keep_a_rule_in_sight() -> None:
    handle = gated(Gate.EDIT)
    handle.send(ALWAYS)
    assert ", 1 rule" in plain(header(handle.state, handle.now, 160))
    handle.work(lambda state: state.settled == 2)
    handle.send(cmd.RevokeRule(1))
    told = [plain(lead) + text for record in handle.records for lead, text, _ in tell(record.event)]
    assert "you always: every later edit of the agent is built, run in the sandbox and timed " \
        "unasked (rule 1)" in told  # fmt: skip
    assert "rule 1 approved the edit of attempt 2" in told
    assert "you end rule 1" in told
    assert ", 1 rule" not in plain(header(handle.state, handle.now, 160))

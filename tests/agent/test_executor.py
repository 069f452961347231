"""Whatever a model calls, the answer is a result, and only a legal call changes the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from akg_tui.agent.chat import ChatReply, ModelFailed, ToolResult, ToolUse
from akg_tui.agent.tools.executor import ToolExecutor
from akg_tui.agent.tools.registry import allowed, own_tools, refused
from akg_tui.agent.tools.run_access import SubagentCall
from akg_tui.agent.visit import MAX_TURNS
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.effects import visit_over
from akg_tui.core.phases import AGENT_PHASES, Gate, Phase
from tests.agent.test_sweep import KERNEL, TextRun, play

PLAN = {"items": [{"text": "a", "rationale": "a is where the kernel waits"}]}


def in_phase(phase: Phase) -> TextRun:
    run = TextRun()
    run.until_agent()
    if phase is Phase.EDIT:
        run.plan("a", "b")
        run.until_agent()
    assert run.state.phase is phase
    return run


def call(executor: ToolExecutor, tool: str, **arguments: Any) -> ToolResult:
    return asyncio.run(executor.execute(ToolUse("u1", tool, arguments)))


def anchors(view: str) -> list[str]:
    return [line.split("|", 1)[0] for line in view.split("\n") if "|" in line]


class Lent:
    """The function that runs subagents; never called here."""

    async def run(self, call: SubagentCall) -> ToolResult:
        raise AssertionError


def test_every_tool_of_a_phase_is_offered_and_the_list_is_sorted_in_every_phase() -> None:
    named = {tool for phase in Phase for tool in allowed(own_tools(), phase)}
    lent = {"subagent": Lent()}
    specs = ToolExecutor(in_phase(Phase.PLAN), lent).specs
    names = [spec.name for spec in specs]
    assert names == sorted(names)
    own = own_tools()
    assert set(names) == {name for name in named if not own[name].by_name}
    assert ToolExecutor(in_phase(Phase.EDIT), lent).specs == specs


def test_only_agent_phases_offer_tools_and_a_refusal_names_what_is_allowed() -> None:
    assert {phase for phase in Phase if allowed(own_tools(), phase)} == AGENT_PHASES
    own = own_tools()
    assert refused(own, own["edit_kernel"], Phase.EDIT, ["grep"]) is None
    assert refused(own, own["submit_plan"], Phase.EDIT, ["edit_kernel", "grep"]) == (
        "submit_plan is not allowed in phase EDIT. Allowed now: edit_kernel, grep."
    )
    assert "no tool at all" in (refused(own, own["edit_kernel"], Phase.EVAL, []) or "")


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("shell", {}, "there is no tool 'shell'"),
        ("submit_plan", {}, "submit_plan needs the argument 'items'"),
        ("submit_plan", {"items": "a"}, "items is string, expected array"),
        ("submit_plan", {"items": [{"text": "a"}]}, "items[0] lacks 'rationale'"),
        ("submit_plan", {"items": [], "extra": 1}, "has no argument 'extra'; it takes: items"),
        ("submit_plan", {"items": []}, "a plan has 1 to"),
        ("finish", {"reason": "bored"}, "too early"),
    ],
)
def test_a_bad_call_is_answered_with_what_is_wrong(tool, arguments, why) -> None:
    run = in_phase(Phase.PLAN)
    result = call(ToolExecutor(run), tool, **arguments)
    assert (result.status, result.output) == ("error", "")
    assert why in result.error_information


def test_an_edit_by_tag_changes_the_line_and_is_journaled_with_its_call() -> None:
    run = in_phase(Phase.EDIT)
    executor = ToolExecutor(run)
    view = call(executor, "read_kernel").output
    anchor = anchors(view)[2]
    line = "BLOCK = 8  # tune: [1, 2, 4, 8]"
    op = {"op": "replace", "from": anchor, "to": anchor, "lines": [line]}
    result = call(executor, "edit_kernel", ops=[op])
    assert result.status == "success"
    assert run.kernel(run.state.work_blob).text.split("\n")[2] == line
    kinds = [type(record.event).__name__ for record in run.records[-3:]]
    assert kinds == ["ToolCalled", "KernelEdited", "ToolAnswered"]


def test_old_tags_are_followed_through_the_agents_own_edits_and_no_further() -> None:
    run = in_phase(Phase.EDIT)
    executor = ToolExecutor(run)
    view = call(executor, "read_kernel").output
    first, third = anchors(view)[0], anchors(view)[2]
    above = {"op": "insert", "before": first, "lines": ["NEW = 1", "MORE = 2"]}
    assert call(executor, "edit_kernel", ops=[above]).status == "success"
    line = "BLOCK = 8  # tune: [1, 2, 4, 8]"
    op = {"op": "replace", "from": third, "lines": [line]}
    assert call(executor, "edit_kernel", ops=[op]).status == "success"
    edited = run.kernel(run.state.work_blob).text
    assert edited.split("\n")[:2] == ["NEW = 1", "MORE = 2"]
    assert edited.split("\n")[4] == line
    again = call(executor, "edit_kernel", ops=[op])
    assert again.status == "error"
    assert "changed by your own later edit" in again.error_information
    assert run.kernel(run.state.work_blob).text == edited


def test_an_edit_without_reading_or_with_a_wrong_tag_changes_nothing() -> None:
    run = in_phase(Phase.EDIT)
    executor = ToolExecutor(run)
    op = {"op": "delete", "from": "3zz", "to": "3zz"}
    assert "read the file first" in call(executor, "edit_kernel", ops=[op]).error_information
    call(executor, "read_kernel")
    result = call(executor, "edit_kernel", ops=[op])
    assert result.status == "error"
    assert run.state.work_blob == "seed"
    assert run.kernel("seed").text == KERNEL


class Scripted:
    """A model that says what it was given to say, in order, then nothing."""

    name = "scripted"

    def __init__(self, *replies: ChatReply | Exception) -> None:
        self.replies = list(replies)
        self.requests: list[Any] = []

    async def complete(self, request, on_delta) -> ChatReply:
        self.requests.append(request)
        reply = self.replies.pop(0) if self.replies else ChatReply("hm")
        if isinstance(reply, Exception):
            raise reply
        return reply


async def test_a_visit_ends_when_the_phase_is_done() -> None:
    run = in_phase(Phase.PLAN)
    plan = (ToolUse("u1", "submit_plan", PLAN),)
    model = Scripted(ChatReply("let me see"), ChatReply("", plan, input_tokens=10))
    await play(run, model)
    assert [item.text for item in run.state.pending] == ["a"]
    assert run.state.input_tokens == 10
    assert "is not done. Call one of" in model.requests[1].messages[-1].text


async def test_a_model_that_only_talks_runs_out_of_turns() -> None:
    run = in_phase(Phase.PLAN)
    await play(run, Scripted())
    assert isinstance(run.records[-1].event, ev.VisitFailed)
    replies = [r for r in run.records if isinstance(r.event, ev.ModelReplied)]
    assert len(replies) == MAX_TURNS


async def test_a_model_that_fails_ends_the_visit_with_its_reason() -> None:
    run = in_phase(Phase.PLAN)
    await play(run, Scripted(ModelFailed("the socket closed")))
    last = run.records[-1].event
    assert isinstance(last, ev.VisitFailed)
    assert last.reason == "the socket closed"


def test_a_question_is_answered_at_once_or_ends_the_visit() -> None:
    run = in_phase(Phase.PLAN)
    executor = ToolExecutor(run)
    asked = call(executor, "ask_user", message="Which?", choices=["a", "b"], default="b")
    assert (asked.status, asked.output) == (
        "success",
        "nobody is there to answer, so your default holds: b",
    )
    run.must(cmd.SetGate(Gate.ASK, on=True))
    waits = call(executor, "ask_user", message="Which?")
    assert "question 2 waits for the person" in waits.output
    assert visit_over(run.state, run.now)
    assert call(executor, "ask_user", message="And?").status == "error"


def test_a_blocked_agent_is_heard_and_its_visit_ends() -> None:
    run = in_phase(Phase.PLAN)
    kind = call(ToolExecutor(run), "report_blocked", kind="bored", reason="x" * 30)
    assert "kind is 'bored', expected one of" in kind.error_information
    told = call(ToolExecutor(run), "report_blocked", kind="other", reason="no way to go on here")
    assert told.status == "success"
    assert visit_over(run.state, run.now)


def test_no_tool_touches_what_the_harness_owns() -> None:
    """Every tool in every phase: the rules, the reference and the verdicts stay as they are."""
    guesses: dict[str, dict[str, Any]] = {
        "edit_kernel": {"ops": [{"op": "insert", "line": 1, "path": "../reference.py"}]},
        "finish": {"reason": "done"},
        "ask_user": {"message": "May I change the tolerance?", "default": "yes"},
        "report_blocked": {"kind": "impossible", "reason": "it cannot be made any faster"},
        "submit_plan": {"items": [{"text": "set min_gain=0", "rationale": "then all is kept"}]},
        "revise_plan": {"reason": "the tolerance is in the way", "drop": ["../reference.py"]},
        "report_diagnosis": {"cause": "the tolerance is too strict here", "directions": ["loosen"]},
        "read_kernel": {},
        "write_file": {"file_path": "task/reference.py", "content": "pass"},
        "read_file": {"file_path": "events.jsonl"},
        "execute_script": {"script_path": "notes/../task/a.sh"},
        "check_python_code": {"file_path": "task/reference.py"},
        "check_markdown": {"file_path": "PLAN.md"},
        "search_knowledge": {"query": "how to raise max_rounds"},
        "try_kernel": {"path": "task/reference.py"},
        "submit_kernel": {"path": "work/kernel.py"},
        "sweep_kernel": {"path": "task/reference.py"},
        "grep": {"pattern": "seed", "path": "events.jsonl"},
        "verify_kernel": {"task_code": "x = 1", "generated_code": "y", "op_name": "z"},
        "profile_kernel": {"task_code": "x = 1", "generated_code": "y", "op_name": "z"},
    }
    working = {n for n, t in own_tools().items() if t.kind[:4] != "call"}
    assert set(guesses) == working
    for phase in (Phase.PLAN, Phase.EDIT):
        for tool, arguments in guesses.items():
            run = in_phase(phase)
            before = run.state
            call(ToolExecutor(run), tool, **arguments)
            after = run.state
            assert (after.task, after.phase, after.gates) == (
                before.task,
                before.phase,
                before.gates,
            )
            assert (after.reference_sha256, after.attempts, after.best) == (
                before.reference_sha256,
                before.attempts,
                before.best,
            )
            assert set(run.texts) == {"seed"}

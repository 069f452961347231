"""The agent's requests to a person: a question, leave for a script, the report of being blocked.

Pure. Turns the requests and a person's answers into events. Where the gate `ask` is not set, a
question is answered at once, with its default or with a denial, and the agent goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.approval_rules import approved
from akg_tui.core.commands import Events, Rejected
from akg_tui.core.phases import AGENT_PHASES, Gate, Phase
from akg_tui.core.state import Question, RunState

MAX_TEXT = 2_000
MAX_CHOICES, MAX_CHOICE = 10, 200
MAX_TIMEOUT_S = 7 * 86_400.0
MAX_SCRIPT = 20_000  # characters shown to the person


def _ask(state: RunState, command: cmd.AskUser, now: float) -> Events | Rejected:
    if state.phase not in AGENT_PHASES:
        return Rejected(f"ask_user belongs to the agent's phases; the run is in {state.phase}")
    if state.question is not None:
        return Rejected(f"question {state.question.number} is open still: one at a time")
    if fault := _question_fault(command):
        return Rejected(fault)
    number = _next_question(state)
    attended = Gate.ASK in state.gates
    asked = ev.QuestionAsked(
        question=number,
        text=command.text.strip(),
        phase=state.phase,
        choices=command.choices,
        default=command.default,
        timeout_s=command.timeout_s,
        attended=attended,
    )
    if attended:
        return (asked,)
    return asked, default_answer(asked)


def _next_question(state: RunState) -> int:
    return state.questions[-1].number + 1 if state.questions else 1


def _question_fault(command: cmd.AskUser) -> str | None:
    if not 1 <= len(command.text.strip()) <= MAX_TEXT:
        return f"a question has 1 to {MAX_TEXT} characters"
    choices = command.choices
    if len(choices) == 1 or len(choices) > MAX_CHOICES:
        return f"a question has no choices or 2 to {MAX_CHOICES}, not {len(choices)}"
    if len(set(choices)) != len(choices):
        return "two choices are the same"
    if any(not 1 <= len(choice.strip()) <= MAX_CHOICE for choice in choices):
        return f"a choice has 1 to {MAX_CHOICE} characters"
    default = command.default
    if default is not None and not 1 <= len(default.strip()) <= MAX_TEXT:
        return f"a default has 1 to {MAX_TEXT} characters"
    if default is not None and choices and default not in choices:
        return f"the default {default!r} is not among the choices: {', '.join(choices)}"
    timeout = command.timeout_s
    if timeout is not None and not 0 < timeout <= MAX_TIMEOUT_S:
        return f"timeout_s must be above 0 and at most {MAX_TIMEOUT_S:g}"
    return None


def default_answer(asked: Question | ev.QuestionAsked) -> ev.QuestionAnswered:
    """The answer to a question that no person answers: its default, or a denial."""
    number = asked.number if isinstance(asked, Question) else asked.question
    if asked.default is None:
        return ev.QuestionAnswered(question=number, answer="", source="denied")
    source: Literal["default", "timeout"] = "timeout" if asked.attended else "default"
    return ev.QuestionAnswered(question=number, answer=asked.default, source=source)


def _answer(state: RunState, command: cmd.AnswerQuestion, now: float) -> Events | Rejected:
    open_question = state.question
    if open_question is None or open_question.number != command.question:
        return Rejected(f"question {command.question} is not open")
    if fault := answer_fault(open_question, command.answer):
        return Rejected(fault)
    answer = command.answer.strip()
    return (ev.QuestionAnswered(question=open_question.number, answer=answer, source="user"),)


def answer_fault(question: Question, answer: str) -> str | None:
    """Why `answer` does not answer the question, or None."""
    answer = answer.strip()
    if not 1 <= len(answer) <= MAX_TEXT:
        return f"an answer has 1 to {MAX_TEXT} characters"
    if question.choices and answer not in question.choices:
        return f"{answer!r} is not among the choices: {', '.join(question.choices)}"
    return None


def _blocked(state: RunState, command: cmd.ReportBlocked, now: float) -> Events | Rejected:
    if state.phase not in AGENT_PHASES:
        return Rejected(f"report_blocked belongs to the agent's phases, not to {state.phase}")
    if state.blocked:
        return Rejected("that you are blocked was reported already; end your turn")
    text = " ".join(command.text.split())
    if not 20 <= len(text) <= MAX_TEXT:
        return Rejected(f"say in 20 to {MAX_TEXT} characters what is missing, not in {len(text)}")
    blocked = ev.BlockedReported(
        kind=command.kind, text=text, phase=state.phase, leads_to="failed visit"
    )
    wish = state.task.policy.on_blocked
    if wish == "stop":
        return (replace(blocked, leads_to="stop"),)
    if wish == "ask" and Gate.ASK in state.gates and state.question is None:
        question = ev.QuestionAsked(
            question=_next_question(state),
            text=f"The agent is blocked ({command.kind}): {text} How shall it go on?",
            phase=state.phase,
        )
        return replace(blocked, leads_to="question"), question
    # With nothing tried there is nothing to diagnose, and a diagnosis is no way out of one.
    tried = any(attempt.number for attempt in state.attempts)
    if tried and state.phase is not Phase.DIAGNOSE:
        return (replace(blocked, leads_to="diagnosis"),)
    return (blocked,)


def _request_script(state: RunState, command: cmd.RequestScript, now: float) -> Events | Rejected:
    if state.phase not in AGENT_PHASES:
        return Rejected(f"a script belongs to the agent's phases; the run is in {state.phase}")
    agent = ""
    if command.source:
        kinds = {one.id: one.agent for one in state.subagents}
        if command.source not in kinds:
            return Rejected(f"no subagent {command.source} is at work")
        agent = kinds[command.source]
    scope = ev.Scope("script", state.phase, agent, command.interpreter)
    answers = dict(state.scripts)
    if answers.get(command.sha256) is False:  # said of this very text, so it is above any rule
        return Rejected("a person refused this script")
    request = approved(
        state,
        scope,
        attempt=state.next_attempt,
        subject=command.sha256,
        detail=command.script[:MAX_SCRIPT],
    )
    if isinstance(request, ev.RuleApplied):
        return (request,)
    if Gate.SCRIPT not in state.gates:
        return Rejected("no script has to be asked for: the gate script is off")
    if command.sha256 in answers:
        return Rejected("that script was answered already")
    if state.gate is not None and not state.gate.answer:
        return Rejected(f"gate {state.gate.gate} is open still: one at a time")
    return (request,)


DECIDE_QUESTIONS: dict[type, Callable[[RunState, Any, float], Events | Rejected]] = {
    cmd.AskUser: _ask,
    cmd.AnswerQuestion: _answer,
    cmd.ReportBlocked: _blocked,
    cmd.RequestScript: _request_script,
}

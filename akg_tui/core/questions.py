"""The agent's requests to a person: a question, permission for a script, a report of being blocked.

Pure. Turns the requests and a person's answers into events. Without the gate `ask` a question is
answered immediately with its default, or denied when it has none, and the agent continues; in mode
`auto`, while a screen shows the run, it waits for `GLANCE_S` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec.structs import asdict, replace

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.approval_rules import approved
from akg_tui.core.commands import Made, Refusal
from akg_tui.core.phases import Gate, Mode, Phase
from akg_tui.core.state import Question, RunState

MIN_BLOCKED, MAX_TEXT = 20, 2_000
MAX_CHOICES, MAX_CHOICE = 10, 200
MAX_TIMEOUT_S = 7 * 86_400.0
GLANCE_S = 30.0  # for a person who looks at a run in mode auto: to see a question and press a key
MAX_SCRIPT = 20_000  # characters shown to the person


def _ask(state: RunState, command: cmd.AskUser, now: float) -> Made:
    if not state.row.agent:
        raise Refusal(f"ask_user belongs to the agent's phases; the run is in {state.phase}")
    if state.question is not None:
        raise Refusal(f"question {state.question.number} is open still: one at a time")
    _check_question(command)
    number = _next_question(state)
    gated = Gate.ASK in state.gates
    glance = command.watched and state.mode is Mode.AUTO and not gated
    attended = gated or glance
    given = {**asdict(command), "text": command.text.strip()}
    del given["watched"]
    if glance:
        given["timeout_s"] = min(command.timeout_s or GLANCE_S, GLANCE_S)
    asked = ev.QuestionAsked(question=number, phase=state.phase, attended=attended, **given)
    return asked if attended else (asked, default_answer(asked))


def _next_question(state: RunState) -> int:
    return state.questions[-1].number + 1 if state.questions else 1


def _check_question(command: cmd.AskUser) -> None:
    if not 1 <= len(command.text.strip()) <= MAX_TEXT:
        raise Refusal(f"a question has 1 to {MAX_TEXT} characters")
    choices = command.choices
    if len(choices) == 1 or len(choices) > MAX_CHOICES:
        raise Refusal(f"a question has no choices or 2 to {MAX_CHOICES}, not {len(choices)}")
    if len(set(choices)) != len(choices):
        raise Refusal("two choices are the same")
    if any(not 1 <= len(choice.strip()) <= MAX_CHOICE for choice in choices):
        raise Refusal(f"a choice has 1 to {MAX_CHOICE} characters")
    default = command.default
    if default is not None and not 1 <= len(default.strip()) <= MAX_TEXT:
        raise Refusal(f"a default has 1 to {MAX_TEXT} characters")
    if default is not None and choices and default not in choices:
        raise Refusal(f"the default {default!r} is not among the choices: {', '.join(choices)}")
    timeout = command.timeout_s
    if timeout is not None and not 0 < timeout <= MAX_TIMEOUT_S:
        raise Refusal(f"timeout_s must be above 0 and at most {MAX_TIMEOUT_S:g}")


def default_answer(asked: Question | ev.QuestionAsked) -> ev.QuestionAnswered:
    """Return the answer to a question without a person's answer: its default, or a denial."""
    number = asked.number if isinstance(asked, Question) else asked.question
    if asked.default is None:
        return ev.QuestionAnswered(question=number, answer="", source="denied")
    source: Literal["default", "timeout"] = "timeout" if asked.attended else "default"
    return ev.QuestionAnswered(question=number, answer=asked.default, source=source)


def _opened(state: RunState, number: int) -> Question:
    """Return the open question, if it has this number."""
    if state.question is None or state.question.number != number:
        raise Refusal("question {n} is not open", n=number)
    return state.question


def _answer(state: RunState, command: cmd.AnswerQuestion, now: float) -> Made:
    asked = _opened(state, command.question)
    answer = command.answer.strip()
    if not 1 <= len(answer) <= MAX_TEXT:
        raise Refusal("an answer has 1 to {n} characters", n=MAX_TEXT)
    return ev.QuestionAnswered(question=asked.number, answer=answer, source="user")


def _hold(state: RunState, command: cmd.HoldQuestion, now: float) -> Made:
    if _opened(state, command.question).until is None:
        raise Refusal("question {n} waits until it is answered already", n=command.question)
    return ev.QuestionHeld(question=command.question)


def _blocked(state: RunState, command: cmd.ReportBlocked, now: float) -> Made:
    if not state.row.agent:
        raise Refusal(f"report_blocked belongs to the agent's phases, not to {state.phase}")
    if state.blocked:
        raise Refusal("that you are blocked was reported already; end your turn")
    text = " ".join(command.text.split())
    if not MIN_BLOCKED <= len(text) <= MAX_TEXT:
        raise Refusal(
            f"say in {MIN_BLOCKED} to {MAX_TEXT} characters what is missing, not in {len(text)}"
        )
    if command.about == "item":
        return _blocked_item(state, command.kind, text)
    blocked = ev.BlockedReported(
        kind=command.kind, text=text, phase=state.phase, leads_to="failed visit"
    )
    wish = state.task.policy.on_blocked
    if wish == "stop":
        return replace(blocked, leads_to="stop")
    if wish == "ask" and Gate.ASK in state.gates and state.question is None:
        question = ev.QuestionAsked(
            question=_next_question(state),
            text=f"The agent is blocked ({command.kind}): {text} How shall it go on?",
            phase=state.phase,
        )
        return replace(blocked, leads_to="question"), question
    # A diagnosis needs an attempt, and a second diagnosis does not unblock the first.
    tried = any(attempt.number for attempt in state.attempts)
    if tried and Phase.DIAGNOSE in state.row.to:
        return replace(blocked, leads_to="diagnosis")
    return blocked


def _blocked_item(state: RunState, kind: ev.BlockedKind, text: str) -> Made:
    """Return the event of a report about the active item alone, which is suspended."""
    if state.phase is not Phase.EDIT or state.active is None:
        raise Refusal("no item is under work: revise_plan drops one that is pending")
    if state.edited:
        raise Refusal(f"{state.active} has its edit, which is measured now; end your turn")
    if state.item(state.active).pinned:
        raise Refusal(f"a person wants {state.active} tried: ask them, or report the run blocked")
    return ev.BlockedReported(
        kind=kind, text=text, phase=state.phase, leads_to="suspension", item=state.active
    )


def _request_script(state: RunState, command: cmd.RequestScript, now: float) -> Made:
    if not state.row.agent:
        raise Refusal(f"a script belongs to the agent's phases; the run is in {state.phase}")
    agent = ""
    if command.source:
        kinds = {one.id: one.agent for one in state.subagents}
        if command.source not in kinds:
            raise Refusal(f"no subagent {command.source} is at work")
        agent = kinds[command.source]
    scope = ev.Scope("script", state.phase, agent, command.interpreter)
    answers = dict(state.scripts)
    if answers.get(command.sha256) is False:  # an answer to this exact text overrides any rule
        raise Refusal("a person refused this script")
    request = approved(
        state,
        scope,
        attempt=state.next_attempt,
        subject=command.sha256,
        detail=command.script[:MAX_SCRIPT],
    )
    if isinstance(request, ev.RuleApplied):
        return request
    if Gate.SCRIPT not in state.gates:
        raise Refusal("no script has to be asked for: the gate script is off")
    if command.sha256 in answers:
        raise Refusal("that script was answered already")
    if state.gate is not None and not state.gate.answer:
        raise Refusal(f"gate {state.gate.gate} is open still: one at a time")
    return request


DECIDE_QUESTIONS: dict[type, Callable[[RunState, Any, float], Made]] = {
    cmd.AskUser: _ask,
    cmd.AnswerQuestion: _answer,
    cmd.HoldQuestion: _hold,
    cmd.ReportBlocked: _blocked,
    cmd.RequestScript: _request_script,
}

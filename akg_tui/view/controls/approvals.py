"""Requests that wait for the user: gates and questions, with the effect of each answer.

Pure: builds requests from a state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.approval_rules import in_words, rule_fault, scope_of, warnings
from akg_tui.core.phases import Phase
from akg_tui.core.sanitize import clean, one_line
from akg_tui.core.state import OpenGate, Question, RunState
from akg_tui.core.summary import candidate_of
from akg_tui.view import formatting
from akg_tui.view.controls.command_registry import command, way_to
from akg_tui.view.language import retold, tr
from akg_tui.view.run_snapshot import waiting

MAX_SHOWN = 400


@dataclass(frozen=True)
class Answer:
    """One possible answer: its word, and the command that is sent.

    `does` is the id, after ``ask.``, of the command that gives the answer; `told` is the text
    shown afterwards. An answer that is `twice` cannot be taken back: it is given by a second call.
    """

    does: str
    word: str
    command: cmd.Command
    told: str
    twice: bool = False


@dataclass(frozen=True)
class Request:
    """One open gate or question. `ident` is unique: an answer cannot reach a later request.

    `effects` states exactly what each answer does; `gate` is the number of the gate, 0 for a
    question; `risk` is the risk of a yes. `choices` are sent unchanged; `first` is the index of
    the choice marked at first. `always` states what a rule made of the answer would approve
    later; "" where no rule can be made.
    """

    ident: str
    kind: str
    who: str
    title: str
    about: str
    effects: tuple[str, ...]
    cost: str
    answers: tuple[Answer, ...]
    gate: int = 0
    risk: str = ""
    diff: bool = False
    choices: tuple[str, ...] = ()
    first: int = 0
    detail: str = ""
    since: float = 0.0
    always: str = ""


def requests(state: RunState, now: float, changed: tuple[int, int] | None) -> tuple[Request, ...]:
    """Return the requests that wait for the person now, in the order of their opening.

    `changed` is the lines that the candidate adds to the best kernel and removes from it; None
    where either kernel cannot be read.
    """
    if state.finished:
        return ()
    found: list[Request] = []
    if (gate := state.gate) is not None and not gate.answer:
        found.append(_gate(state, gate, now, changed))
    if (question := waiting(state)) is not None:
        found.append(_question(state, question, now))
    return tuple(sorted(found, key=lambda ask: ask.since))


def _waits(seconds: float, still: str) -> str:
    time = formatting.short_time(seconds)
    return tr("The run has waited {time}: {still}.", time=time, still=still)


def _gate(state: RunState, gate: OpenGate, now: float, changed: tuple[int, int] | None) -> Request:
    """Return the request of the open gate: the parts common to all gates, and those of its kind."""
    make = {"plan": _plan, "edit": _edit, "script": _script}.get(gate.kind, _keep)
    always = "" if rule_fault(state, gate) else scope(scope_of(state, gate))
    ask = partial(Request, ident=f"gate {gate.gate}", kind=gate.kind, gate=gate.gate,
                  since=gate.since, always=always)  # fmt: skip
    cost = f"{_lines(changed)} " if gate.kind in ("keep", "edit") else ""
    return make(state, gate, ask, lambda still: f"{cost}{_waits(now - gate.since, still)}")


Cost = Callable[[str], str]  # returns the cost of waiting, given what is halted


def _lines(changed: tuple[int, int] | None) -> str:
    if changed is None:
        return tr("Its lines cannot be read.")
    return tr("+{added} -{removed} lines.", added=changed[0], removed=changed[1])


def _item(state: RunState) -> str:
    item = state.item(state.active) if state.active else None
    return f"{item.id} {one_line(item.text)}" if item else ""


def _answers(state: RunState, gate: OpenGate, yes: str, done: str) -> tuple[Answer, ...]:
    what = formatting.attempt(gate.attempt)
    if gate.kind not in ("keep", "edit"):
        what = tr("the plan") if gate.kind == "plan" else tr("the script")
    no, back = tr("{what}: rejected", what=what), way_back(state)
    reject = cmd.AnswerGate(gate.gate, approve=False)
    answers = (
        Answer("keep", yes, cmd.AnswerGate(gate.gate, approve=True), f"{what}: {done}"),
        Answer("reject", tr("reject"), reject, f"{no}{back}", twice=not back),
    )
    if rule_fault(state, gate):
        return answers
    learn = cmd.AnswerGate(gate.gate, approve=True, always=True)
    number = len(state.rules) + 1
    then = tr("{what}: {done}; rule {number} answers from here on", what=what, done=done,
              number=number)  # fmt: skip
    return (*answers, Answer("always", tr("always"), learn, then))


def way_back(state: RunState) -> str:
    """Return the clause that names the way back from a rejection at the open gate; "" if none."""
    timed = state.measured is not None and state.measured.ratio is not None
    if state.gate is None or state.gate.kind != "keep" or not timed:
        return ""
    way = f":{command('plan.remeasure').name} {state.active}"
    return tr("; {way} asks again", way=way)


def _keep(state: RunState, gate: OpenGate, ask: Callable[..., Request], cost: Cost) -> Request:
    measured = state.measured.ratio if state.measured else None
    kept = candidate_of(state)
    after = ""
    told = tr("it was not timed")
    if measured and kept:
        told = formatting.sure(measured)
        after = f", {formatting.ratios(kept, bounds=True)}"
    best = formatting.attempt(state.best.attempt if state.best else 0)
    keeps = tr("keep: it becomes the best{after}; reject: {best} stays the best", after=after,
               best=best) + way_back(state)  # fmt: skip
    guard = [retold(each, 200) for each in warnings(state)]
    notes = state.measured.notes if state.measured else ()
    return ask(
        who=tr("{phase} asks", phase=Phase.DECIDE),
        risk=tr("low risk: {key} takes it back", key=way_to("run.undo")),
        title=tr("KEEP attempt {number}?", number=gate.attempt),
        about=_item(state),
        effects=(
            told,
            keeps,
            *(tr("the static guard warns: {warning}", warning=warning) for warning in guard),
            *(tr("note: {note}", note=retold(each, 300)) for each in notes),
        ),
        cost=cost(tr("no work goes on")),
        answers=_answers(state, gate, tr("keep"), tr("kept")),
        diff=True,
    )


def _edit(state: RunState, gate: OpenGate, ask: Callable[..., Request], cost: Cost) -> Request:
    title = tr("RUN the edit of attempt {number}?", number=gate.attempt)
    return ask(
        who=tr("{phase} asks for the agent", phase=state.phase),
        risk=tr("some risk: new code runs, confined"),
        title=title if gate.attempt else tr("RUN the kernel that the agent wrote?"),
        about=_item(state),
        effects=(
            tr("approve: new code is built and run in the sandbox, checked, and timed"),
            tr("reject: the edit is undone before it ever ran, and the agent edits again"),
        ),
        cost=cost(tr("the code has not run yet")),
        answers=_answers(state, gate, tr("approve"), tr("approved")),
        diff=True,
    )


def _plan(state: RunState, gate: OpenGate, ask: Callable[..., Request], cost: Cost) -> Request:
    pending = state.pending
    first = [tr("first {item} {text}", item=i.id, text=one_line(i.text)) for i in pending[:1]]
    free = state.replaceable
    dropped = free[0] if free else tr("nothing")
    if len(free) > 1:
        dropped = tr("{first} to {last}", first=free[0], last=free[-1])
    many = formatting.count(len(pending), "item")
    return ask(
        who=tr("{phase} asks for the agent", phase=Phase.PLAN),
        risk=tr("no risk: nothing is run"),
        title=tr("Go on with this plan of {items}?", items=many),
        about="".join(first),
        effects=(
            tr("approve: the agent works on its items in this order"),
            tr("reject: {items} dropped, and the agent plans anew", items=dropped),
        ),
        cost=cost(tr("no item is worked on")),
        answers=_answers(state, gate, tr("approve"), tr("approved")),
    )


def _script(state: RunState, gate: OpenGate, ask: Callable[..., Request], cost: Cost) -> Request:
    lines = formatting.count(gate.detail.count("\n") + 1, "line")
    who = tr("the agent asks in {phase}", phase=state.phase)
    if gate.agent:
        who = tr("a {agent} asks in {phase}", agent=clean(gate.agent), phase=state.phase)
    return ask(
        who=who,
        risk=tr("some risk: a script runs, confined"),
        title=tr("RUN this script ({name})?", name=clean(gate.subject[:12])),
        about=one_line(gate.detail, 200),
        effects=(
            tr("approve: these {lines} may run, confined, whenever it calls", lines=lines),
            tr("reject: it is not run, and the agent is told so"),
        ),
        cost=cost(tr("the agent is held in {phase}", phase=state.phase)),
        answers=_answers(state, gate, tr("approve"), tr("approved")),
        detail=gate.detail,
    )


def _question(state: RunState, question: Question, now: float) -> Request:
    answers: tuple[Answer, ...] = ()
    told = tr("the agent goes on with your answer")
    default = question.default
    # With choices, the card sends the marked choice instead.
    taken = default or question.choices[0] if question.choices else default
    if taken is not None:
        word = tr("answer with this")
        if not question.choices:
            word = tr("take {answer}", answer=one_line(taken, 24))
        answers = (Answer("keep", word, cmd.AnswerQuestion(question.number, taken), told),)
    return Request(
        ident=f"question {question.number}",
        kind="question",
        who=tr("the agent asks in {phase}", phase=state.phase),
        title=retold(question.text, MAX_SHOWN),
        about="",
        effects=(_unanswered(question, now),),
        cost=_waits(now - question.since, tr("the agent is held in {phase}", phase=state.phase)),
        answers=answers,
        choices=question.choices,
        first=question.choices.index(default) if question.choices and default else 0,
        since=question.since,
    )


def _unanswered(question: Question, now: float) -> str:
    """Return what happens without an answer."""
    default = None if question.default is None else one_line(question.default, 60)
    if question.until is None:
        if not default:
            return tr("it waits until you answer")
        return tr("it waits until you answer; its default is {answer}", answer=default)
    left = formatting.short_time(max(0.0, question.until - now))
    if default is None:
        told = tr("no answer: in {time} the agent decides by itself", time=left)
    else:
        told = tr("no answer: in {time} its default is taken, {answer}", time=left, answer=default)
    return told + tr("; any key here stops the clock")


def scope(covered: ev.Scope) -> str:
    """Return what a rule of this scope approves, in a sentence."""
    return retold(in_words(covered))

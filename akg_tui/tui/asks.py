"""What waits for the person, as values: who asks, what exactly an answer does, what waiting costs.

Pure: state in, asks out. Text of the agent, of a kernel and of a task is cleaned here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from akg_tui.core import commands as cmd
from akg_tui.core.machine import Phase
from akg_tui.core.plain import clean, one_line
from akg_tui.core.rules import in_words, rule_fault, scope_of, warnings
from akg_tui.core.state import Question, RunState
from akg_tui.tui import words

MAX_SHOWN = 400


@dataclass(frozen=True)
class Answer:
    """One way to answer: by which command's key, its word, and what is sent.

    `does` is what the command's id says after ``ask.``; `told` says what came of it.
    """

    does: str
    word: str
    command: cmd.Command
    told: str


@dataclass(frozen=True)
class Ask:
    """One open question. `ident` never comes again, so an answer can't hit the next one.

    `effects` is what each answer does, exactly; `gate` its number, 0 for a question.
    `choices` are as they are sent; `first` is the one that is marked at first. `always` is what
    a rule made of the answer would approve from here on; "" where none can be made.
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
    diff: bool = False
    free: bool = False
    choices: tuple[str, ...] = ()
    first: int = 0
    detail: str = ""
    since: float = 0.0
    always: str = ""


def asks(
    state: RunState, since: Callable[[str], float], now: float, changed: tuple[int, int] | None
) -> tuple[Ask, ...]:
    """Everything that waits for the person now, in the order in which it was asked.

    Parameters
    ----------
    since : callable
        When the ask with this ident was opened, in seconds since the epoch.
    changed : tuple of int, or None
        Lines added and removed by the candidate against the best kernel; None where one of
        the two cannot be read.
    """
    if state.finished:
        return ()
    found: list[Ask] = []
    gate = state.gate
    if gate is not None and not gate.answer:
        found.append(_gate(state, since(f"gate {gate.gate}"), now, changed))
    question = state.question
    if question is not None and question.attended and state.phase is not Phase.DONE:
        found.append(_question(state, question, since(f"question {question.number}"), now))
    return tuple(sorted(found, key=lambda ask: ask.since))


def _waits(seconds: float, still: str) -> str:
    return f"The run has waited {words.short_time(seconds)}: {still}."


def _gate(state: RunState, since: float, now: float, changed: tuple[int, int] | None) -> Ask:
    gate = state.gate
    assert gate is not None
    make = {"plan": _plan, "edit": _edit, "script": _script}.get(gate.kind, _keep)
    return make(state, since, now, changed)


def _lines(changed: tuple[int, int] | None) -> str:
    return "Its lines cannot be read." if changed is None else "+{} -{} lines.".format(*changed)


def _item(state: RunState) -> str:
    item = state.item(state.active) if state.active else None
    return f"{item.id} {one_line(item.text)}" if item else ""


def _answers(state: RunState, yes: str, done: str) -> tuple[Answer, ...]:
    gate = state.gate
    assert gate is not None
    what = f"attempt {gate.attempt}" if gate.kind in ("keep", "edit") else f"the {gate.kind}"
    answers = (
        Answer("keep", yes, cmd.AnswerGate(gate.gate, approve=True), f"{what}: {done}"),
        Answer("reject", "reject", cmd.AnswerGate(gate.gate, approve=False), f"{what}: rejected"),
    )
    if rule_fault(state, gate):
        return answers
    learn = cmd.AnswerGate(gate.gate, approve=True, always=True)
    rule = f"rule {len(state.rules) + 1} answers from here on"
    return (*answers, Answer("always", "always", learn, f"{what}: {done}; {rule}"))


def _always(state: RunState) -> str:
    """What an "always" would approve, in words; "" where it cannot be said."""
    gate = state.gate
    assert gate is not None
    return "" if rule_fault(state, gate) else in_words(scope_of(state, gate))


def _keep(state: RunState, since: float, now: float, changed: tuple[int, int] | None) -> Ask:
    gate = state.gate
    assert gate is not None
    measured = state.measured.ratio if state.measured else None
    seed = state.best.over_seed if state.best else 1.0
    after = ""
    told = "it was not timed"
    if measured:
        told = words.sure(measured)
        after = f", {words.times(seed * measured.ratio)} the seed"
    number = state.best.attempt if state.best else 0
    best = f"attempt {number}" if number else "the seed"
    return Ask(
        ident=f"gate {gate.gate}",
        kind="keep",
        who="DECIDE asks",
        title=f"KEEP attempt {gate.attempt}?",
        about=_item(state),
        effects=(
            told,
            f"keep: it becomes the best{after}; reject: {best} stays the best",
            *(f"the static guard warns: {one_line(each, 200)}" for each in warnings(state)),
        ),
        cost=f"{_lines(changed)} {_waits(now - since, 'no work goes on')}",
        answers=_answers(state, "keep", "kept"),
        gate=gate.gate,
        always=_always(state),
        diff=True,
        since=since,
    )


def _edit(state: RunState, since: float, now: float, changed: tuple[int, int] | None) -> Ask:
    gate = state.gate
    assert gate is not None
    return Ask(
        ident=f"gate {gate.gate}",
        kind="edit",
        who="EDIT asks for the agent",
        title=f"RUN the edit of attempt {gate.attempt}?",
        about=_item(state),
        effects=(
            "approve: new code is built and run in the sandbox, checked, and timed",
            "reject: the edit is undone before it ever ran, and the agent edits again",
        ),
        cost=f"{_lines(changed)} {_waits(now - since, 'the code has not run yet')}",
        answers=_answers(state, "approve", "approved"),
        gate=gate.gate,
        always=_always(state),
        diff=True,
        since=since,
    )


def _plan(state: RunState, since: float, now: float, changed: tuple[int, int] | None) -> Ask:
    gate = state.gate
    assert gate is not None
    pending = state.pending
    first = f"first {pending[0].id} {one_line(pending[0].text)}" if pending else ""
    free = [item.id for item in pending if not item.pinned]
    dropped = f"{free[0]} to {free[-1]}" if len(free) > 1 else (free[0] if free else "nothing")
    return Ask(
        ident=f"gate {gate.gate}",
        kind="plan",
        who="PLAN asks for the agent",
        title=f"Go on with this plan of {words.count(len(pending), 'item')}?",
        about=first,
        effects=(
            "approve: the agent works on its items in this order",
            f"reject: {dropped} dropped, and the agent plans anew",
        ),
        cost=_waits(now - since, "no item is worked on"),
        answers=_answers(state, "approve", "approved"),
        gate=gate.gate,
        always=_always(state),
        since=since,
    )


def _script(state: RunState, since: float, now: float, changed: tuple[int, int] | None) -> Ask:
    gate = state.gate
    assert gate is not None
    lines = gate.detail.count("\n") + 1
    return Ask(
        ident=f"gate {gate.gate}",
        kind="script",
        who=f"{f'a {clean(gate.agent)}' if gate.agent else 'the agent'} asks in {state.phase}",
        title=f"RUN this script ({clean(gate.subject[:12])})?",
        about=one_line(gate.detail, 200),
        effects=(
            f"approve: these {words.count(lines, 'line')} may run, confined, whenever it calls",
            "reject: it is not run, and the agent is told so",
        ),
        cost=_waits(now - since, f"the agent is held in {state.phase}"),
        answers=_answers(state, "approve", "approved"),
        gate=gate.gate,
        always=_always(state),
        detail=gate.detail,
        since=since,
    )


def _question(state: RunState, question: Question, since: float, now: float) -> Ask:
    answers: tuple[Answer, ...] = ()
    told = "the agent goes on with your answer"
    default = question.default
    if question.choices:
        # What is sent is the marked choice, known to the card alone.
        chosen = cmd.AnswerQuestion(question.number, default or question.choices[0])
        answers = (Answer("keep", "answer with this", chosen, told),)
    elif default is not None:
        taken = cmd.AnswerQuestion(question.number, default)
        answers = (Answer("keep", f"take {one_line(default, 24)}", taken, told),)
    return Ask(
        ident=f"question {question.number}",
        kind="question",
        who=f"the agent asks in {state.phase}",
        title=one_line(question.text, MAX_SHOWN),
        about="",
        effects=(_unanswered(question, now),),
        cost=_waits(now - since, f"the agent is held in {state.phase}"),
        answers=answers,
        free=not question.choices,
        choices=question.choices,
        first=question.choices.index(default) if question.choices and default else 0,
        since=since,
    )


def _unanswered(question: Question, now: float) -> str:
    """What comes of saying nothing."""
    default = None if question.default is None else one_line(question.default, 60)
    if question.until is None:
        return "it waits until you answer" + (f"; its default is {default}" if default else "")
    left = words.short_time(max(0.0, question.until - now))
    if default is None:
        return f"no answer: in {left} the agent decides by itself"
    return f"no answer: in {left} its default is taken, {default}"

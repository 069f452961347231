"""What a person has told the agent, in the words of its next prompt. Pure, from the state.

Hints are told once, in the next request. Answers and undone KEEPs are told in every prompt,
the newest of them, because a visit remembers nothing of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence

from akg_tui.core.plain import one_line
from akg_tui.core.state import Question, RunState

NEWEST = 5
WIDTH = 400


def told_by_person(state: RunState) -> list[str]:
    """Paragraphs for the prompt that opens a visit: hints, answers, and what was undone."""
    return [*hints_told(state.hints), *standing(state)]


def standing(state: RunState) -> list[str]:
    """Of these, what holds on: answers, and KEEPs that were undone."""
    told = [_answer(question) for question in state.questions[-NEWEST:] if question.source]
    undone = [item for item in state.items if item.undone]
    told += [
        f"A person took the KEEP of {item.id} back, so do not bring it back in any form: "
        f"{one_line(item.text, WIDTH)} ({one_line(item.reason, WIDTH)})"
        for item in undone[-NEWEST:]
    ]
    return told


def hints_told(hints: Sequence[str]) -> list[str]:
    """The hints, each as a paragraph."""
    return [f"Hint from the person who watches: {hint}" for hint in hints]


def own_hints_told(hints: Sequence[str]) -> list[str]:
    """Messages to one subagent, each as a paragraph."""
    return [f"Message to you alone from the person who watches: {hint}" for hint in hints]


def answered(question: Question) -> str:
    """What became of a question, in a sentence for the agent."""
    match question.source:
        case "user":
            return f"the person answered: {one_line(question.answer or '', WIDTH)}"
        case "timeout":
            return f"nobody answered in time, so your default holds: {question.answer}"
        case "default":
            return f"nobody is there to answer, so your default holds: {question.answer}"
        case _:
            return "nobody answered and you gave no default: decide by yourself"


def _answer(question: Question) -> str:
    return f"You asked: {one_line(question.text, WIDTH)} Of this, {answered(question)}"

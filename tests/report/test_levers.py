"""What people did, in words: known events in a sentence, others by their fields."""

from __future__ import annotations

from akg_tui.core import events as ev
from akg_tui.report.levers import in_words, is_by_a_person


class KeepUndone(ev.Event, frozen=True):
    """Stands for an event that has no sentence of its own."""

    attempt: int
    comment: str = ""


def test_a_lever_without_a_sentence_is_told_by_its_fields() -> None:
    event = KeepUndone(attempt=4, comment="wrong\x1b[31m")
    assert is_by_a_person(event)  # type: ignore[arg-type]
    told = in_words(event)  # type: ignore[arg-type]
    assert told == "KeepUndone: attempt 4, comment wrong␛[31m"


def test_what_the_run_does_by_itself_is_no_lever() -> None:
    assert not is_by_a_person(ev.TurnEnded())
    assert not is_by_a_person(ev.FinishRequested(reason="done"))
    assert is_by_a_person(ev.HintGiven(text="use fewer registers"))
    assert in_words(ev.HintGiven(text="use fewer registers")) == "hint: use fewer registers"
    assert in_words(ev.GateAnswered(gate=1, answer="reject", comment="no")) == "review: reject (no)"

"""What people did, in words: known events in a sentence, others by their fields."""

from __future__ import annotations

from pathlib import Path

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.phases import Gate
from akg_tui.report.gather import gather
from akg_tui.report.html import render_page
from akg_tui.report.markdown import render_markdown
from akg_tui.report.wording import in_words, is_by_a_person
from akg_tui.store.run_at_rest import RunAtRest
from tests.report.runs import begun, closed
from tests.store.scripted import perform, send


class KeepUndone(ev.Event, frozen=True):
    """Stands for an event that has no sentence of its own."""

    by_a_person = True

    attempt: int
    comment: str = ""


def test_a_lever_without_a_sentence_is_told_by_its_fields() -> None:
    event = KeepUndone(attempt=4, comment="wrong\x1b[31m")
    assert is_by_a_person(event)
    told = in_words(event)
    assert told == "KeepUndone: attempt 4, comment wrong␛[31m"


def test_what_the_run_does_by_itself_is_no_lever() -> None:
    assert not is_by_a_person(ev.TurnEnded())
    assert not is_by_a_person(ev.FinishRequested(reason="done"))
    assert is_by_a_person(ev.HintGiven(text="use fewer registers"))
    assert in_words(ev.HintGiven(text="use fewer registers")) == "hint: use fewer registers"
    assert in_words(ev.GateAnswered(gate=1, answer="reject", comment="no")) == "review: reject (no)"


def test_a_rule_is_told_with_what_it_approves_how_often_it_did_and_its_end(tmp_path: Path) -> None:
    run = begun(tmp_path / "task")
    send(run, cmd.SetGate(Gate.KEEP, on=True))
    learned = False
    while (effect := fx.next_effect(run.state, run.state.last_at)) is not None:
        if isinstance(effect, fx.Hold):
            assert run.state.gate is not None
            send(run, cmd.AnswerGate(run.state.gate.gate, approve=True, always=True))
            learned = True
        elif learned and len(run.state.former) == 2 and run.state.rules_in_force:
            send(run, cmd.RevokeRule(1))
            send(run, cmd.SetGate(Gate.KEEP, on=False))
        else:
            perform(run, effect)
    report = gather(RunAtRest(closed(run)), may_export=True)
    (rule,) = report.rules
    assert (rule.rule, rule.gate, rule.phase) == (1, "keep", "DECIDE")
    assert (rule.by, rule.used) == ("user", 1)
    assert rule.ended == "taken back"
    page, text = render_page(report), render_markdown(report)
    for told in (page, text):
        assert rule.approves in told
        assert "from request 1 by the user, used 1 time, ended: taken back" in told
    done = [told.what for told in report.interventions]
    assert f"rule 1: {rule.approves}" in done
    assert "rule 1 ended" in done


def test_a_run_without_rules_says_nothing_of_them(tmp_path: Path) -> None:
    report = gather(RunAtRest(closed(begun(tmp_path / "task"))), may_export=False)
    assert report.rules == ()
    assert "Rules" not in render_markdown(report)

"""Rules learned from answers: what they cover, who makes and ends them, and what they never do."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.approval_rules import INTERPRETERS, in_words, told
from akg_tui.core.fold import OutOfOrder, evolve
from akg_tui.core.measurement import Finding
from akg_tui.core.phases import Gate, Mode, Overlay, Phase
from tests.core.simulated import SimulatedRun, faster, planned
from tests.core.test_levers import refusal

WAITS = fx.Hold(Overlay.WAIT_USER)
GUARDED = Finding("timer", 3, "reads a clock")


def gated(*gates: Gate) -> SimulatedRun:
    """A run in EDIT, two items pending, that waits at these gates from here on."""
    run = planned("a", "b", "c")
    for gate in gates:
        run.must(cmd.SetGate(gate, on=True))
    return run


def always(run: SimulatedRun) -> None:
    assert run.state.gate is not None
    run.must(cmd.AnswerGate(run.state.gate.gate, approve=True, always=True))


def wants_script(
    run: SimulatedRun, sha256: str, interpreter: str = "python", source: str = ""
) -> str:
    """Why a script may not run; "" when a rule let it, "asked" when a person is asked."""
    count = len(run.records)
    refused = run.send(cmd.RequestScript(sha256, f"text of {sha256}", interpreter, source))
    if refused:
        return refused.why
    return "asked" if isinstance(run.records[count].event, ev.GateOpened) else ""


def applied(run: SimulatedRun) -> list[ev.RuleApplied]:
    return [r.event for r in run.records if isinstance(r.event, ev.RuleApplied)]


def measured(run: SimulatedRun, *findings: Finding) -> None:
    run.tries(msgspec.structs.replace(faster(1.5), findings=findings))


def test_an_always_for_a_plan_lets_the_next_plan_pass_and_says_so_in_the_journal() -> None:
    run = SimulatedRun()
    run.must(cmd.SetGate(Gate.PLAN, on=True))
    run.until_agent()
    run.plan("a")
    assert run.until_agent() == fx.Hold(Overlay.WAIT_USER, Phase.EDIT)
    always(run)
    (rule,) = run.state.rules
    assert rule.scope == ev.Scope("plan", Phase.PLAN)
    assert (rule.number, rule.gate, rule.used) == (1, 1, 0)
    run.until_agent()
    run.must(cmd.ForceReplan())
    run.until_agent()
    run.plan("b")
    assert run.until_agent() == fx.RunAgent(Phase.EDIT)
    assert applied(run) == [ev.RuleApplied(rule=1, scope=rule.scope, gate=2, attempt=1)]
    assert run.state.rules[0].used == 1
    assert run.refold() == run.state


def test_an_always_for_an_edit_lets_every_later_edit_run() -> None:
    run = gated(Gate.EDIT)
    assert run.tries() == fx.Hold(Overlay.WAIT_USER, Phase.EVAL)
    always(run)
    run.until_agent(faster(0.8))
    assert run.tries(faster(0.8)) == fx.RunAgent(Phase.EDIT)
    assert [event.attempt for event in applied(run)] == [2]
    assert run.state.settled == 2


def test_an_always_for_a_keep_keeps_the_next_one_and_no_discard() -> None:
    run = gated(Gate.KEEP)
    measured(run)
    always(run)
    run.until_agent()
    measured(run)
    assert [a.verdict.value for a in run.state.attempts] == ["KEEP"] * 3
    run.tries(faster(0.8))
    assert run.state.attempts[-1].verdict.value == "DISCARD"
    assert [event.attempt for event in applied(run)] == [2]


def test_a_rule_covers_its_own_gate_and_no_other() -> None:
    run = gated(Gate.EDIT, Gate.KEEP)
    run.tries()
    always(run)
    assert run.until_agent(faster(1.5)) == WAITS
    assert run.state.gate is not None
    assert run.state.gate.kind == "keep"


def test_a_keep_that_the_guard_warns_of_is_always_for_a_person() -> None:
    run = gated(Gate.KEEP)
    measured(run)
    always(run)
    run.until_agent()
    measured(run, GUARDED)
    assert run.next() == WAITS
    gate = run.state.gate
    assert gate is not None
    again = cmd.AnswerGate(gate.gate, approve=True, always=True)
    assert "what the guard warns of is always for a person" in refusal(run, again)
    run.must(cmd.AnswerGate(gate.gate, approve=False))
    run.until_agent()
    assert run.state.attempts[-1].verdict.value == "DISCARD"


def test_a_warning_that_the_seed_has_too_stops_no_rule() -> None:
    run = gated(Gate.KEEP)
    baseline = run.state.baseline
    assert baseline is not None
    run.state = replace(run.state, baseline=replace(baseline, findings=(GUARDED,)))
    measured(run)
    always(run)
    run.until_agent()
    measured(run, GUARDED)
    assert len(applied(run)) == 1


def test_a_script_rule_covers_one_interpreter_in_one_phase_for_one_kind_of_agent() -> None:
    run = gated(Gate.SCRIPT)
    assert wants_script(run, "s1") == "asked"
    always(run)
    assert run.state.rules[0].scope == ev.Scope("script", Phase.EDIT, "", "python")
    assert wants_script(run, "s2") == ""
    assert wants_script(run, "s2") == "", "each call is journaled, the same text too"
    assert [event.subject for event in applied(run)] == ["s2", "s2"]
    assert applied(run)[0].detail == "text of s2"
    begun = ev.SubagentStarted(subagent="s7", agent="subagent", phase=Phase.EDIT, call="t")
    run.must(cmd.Observe(begun))
    assert wants_script(run, "s3", source="s7") == "asked"
    run.must(cmd.AnswerGate(4, approve=False))
    assert wants_script(run, "s4", interpreter="sh") == "asked"
    run.must(cmd.AnswerGate(5, approve=False))
    assert wants_script(run, "s5") == ""
    run.must(cmd.ForceReplan())
    run.until_agent()
    assert run.state.phase is Phase.PLAN
    assert wants_script(run, "s6") == "asked"


def test_a_subagents_scripts_have_a_rule_of_their_own() -> None:
    run = gated(Gate.SCRIPT)
    begun = ev.SubagentStarted(subagent="s7", agent="subagent", phase=Phase.EDIT, call="t")
    run.must(cmd.Observe(begun))
    assert wants_script(run, "s1", source="s7") == "asked"
    always(run)
    assert run.state.rules[0].scope.agent == "subagent"
    assert "of a subagent in phase EDIT" in in_words(run.state.rules[0].scope)
    assert wants_script(run, "s2", source="s7") == ""
    assert wants_script(run, "s3") == "asked"
    assert "no subagent s8 is at work" in wants_script(run, "s4", source="s8")


def test_a_script_that_a_person_refused_stays_refused_under_a_rule() -> None:
    run = gated(Gate.SCRIPT)
    wants_script(run, "bad")
    run.must(cmd.AnswerGate(1, approve=False))
    wants_script(run, "good")
    always(run)
    assert wants_script(run, "bad") == "a person refused this script"
    assert wants_script(run, "other") == ""


def test_a_rule_that_was_taken_back_answers_nothing_any_more() -> None:
    run = gated(Gate.SCRIPT)
    wants_script(run, "s1")
    always(run)
    assert wants_script(run, "s2") == ""
    run.must(cmd.RevokeRule(1))
    assert wants_script(run, "s2") == "asked", "what a rule let pass is not remembered"
    assert run.state.rules[0].ended == "taken back"
    assert refusal(run, cmd.RevokeRule(1)) == "rule 1 is not in force: taken back"
    assert "the run has rules 1 to 1" in refusal(run, cmd.RevokeRule(2))
    assert told(run.state.rules[0]).startswith("rule 1, ended: taken back: every Python script")
    run.must(cmd.AnswerGate(3, approve=True, always=True))
    assert [rule.number for rule in run.state.rules_in_force] == [2]


def test_with_nobody_asked_scripts_are_denied_unless_a_rule_of_the_run_covers_them() -> None:
    run = gated(Gate.SCRIPT)
    wants_script(run, "s1")
    always(run)
    run.must(cmd.SetGate(Gate.SCRIPT, on=False))
    assert wants_script(run, "s2") == ""
    assert "the gate script is off" in wants_script(run, "s3", interpreter="sh")
    run.must(cmd.RevokeRule(1))
    assert "the gate script is off" in wants_script(run, "s2")


def test_who_sets_a_gate_anew_wants_to_be_asked() -> None:
    run = gated(Gate.KEEP, Gate.SCRIPT)
    wants_script(run, "s1")
    always(run)
    measured(run)
    always(run)
    assert len(run.state.rules_in_force) == 2
    run.must(cmd.SetMode(Mode.STEP))  # the gate keep stays set: nobody asked for it anew
    assert len(run.state.rules_in_force) == 2
    run.must(cmd.SetMode(Mode.AUTO))
    run.must(cmd.SetMode(Mode.REVIEW, ev.COMMAND_LINE))
    assert [rule.ended for rule in run.state.rules] == ["", "mode review set its gate anew"]
    run.must(cmd.SetGate(Gate.SCRIPT, on=True))
    assert run.state.rules[0].ended == "its gate was set anew"


@pytest.mark.parametrize("approve", [True, False])
def test_an_always_reaches_only_the_request_that_waits_and_only_a_yes(approve: bool) -> None:
    run = gated(Gate.EDIT)
    stale = cmd.AnswerGate(1, approve, always=True)
    assert refusal(run, stale) == "gate 1 is not open"
    run.tries()
    if not approve:
        assert "a rule approves" in refusal(run, stale)
        assert run.state.gate is not None
        assert not run.state.gate.answer


def test_a_request_that_does_not_say_what_runs_it_makes_no_rule() -> None:
    """As in a journal of an older version, whose open request has no interpreter."""
    run = gated(Gate.SCRIPT)
    wants_script(run, "s1", interpreter="")
    answer = cmd.AnswerGate(1, approve=True, always=True)
    assert "does not say what would run the script" in refusal(run, answer)
    run.must(cmd.AnswerGate(1, approve=True))
    assert run.state.rules == ()


def test_a_question_is_no_approval_and_teaches_nothing() -> None:
    run = planned("a", mode=Mode.REVIEW)
    run.turn(cmd.AskUser("May I?", ("yes", "no")))
    assert refusal(run, cmd.AnswerGate(1, approve=True, always=True)) == "gate 1 is not open"
    run.must(cmd.AnswerQuestion(1, "yes"))
    assert run.state.rules == ()


def test_a_fork_and_a_salvaged_run_begin_without_rules() -> None:
    run = gated(Gate.EDIT)
    run.tries()
    always(run)
    forked = ev.Forked(
        run_id="f", parent="run", parent_path="/p", round=0, seq=run.state.seq, hash="h", version=""
    )
    salvaged = ev.RunSalvaged(run_id="s", source="run", damage="a bad line")
    for event, why in ((forked, "a fork begins"), (salvaged, "a salvaged run begins")):
        state = evolve(run.state, ev.Record(run.state.seq + 1, run.now, event))
        assert state.rules_in_force == ()
        assert state.rules[0].ended.startswith(why)
    run.tell(forked)
    run.until_agent(faster(0.8))
    run.tries()
    always(run)
    assert [rule.number for rule in run.state.rules] == [1, 2], "a number is never used again"


def test_the_end_of_a_rule_between_sessions_is_no_time_worked() -> None:
    run = gated(Gate.EDIT)
    run.tries()
    always(run)
    before = run.state.worked_s
    run.clock_off += 3_600
    run.tell(ev.RuleRevoked(rule=1, source=ev.COMMAND_LINE))
    assert run.state.worked_s == before


def test_a_journal_in_which_a_rule_does_what_it_may_not_is_refused() -> None:
    run = gated(Gate.EDIT)
    edit, keep = ev.Scope("edit", Phase.EDIT), ev.Scope("keep", Phase.DECIDE)
    learned = ev.RuleLearned(rule=1, scope=edit, gate=1)
    with pytest.raises(OutOfOrder, match="rule 1 is not in force"):
        run.tell(ev.RuleApplied(rule=1, scope=edit, gate=1, attempt=1))
    with pytest.raises(OutOfOrder, match="rule 2 follows rule 0"):
        run.tell(replace(learned, rule=2))
    run.tell(learned)
    with pytest.raises(OutOfOrder, match="does not cover"):
        run.tell(ev.RuleApplied(rule=1, scope=keep, gate=1, attempt=1))
    run.tell(ev.RuleRevoked(rule=1))
    with pytest.raises(OutOfOrder, match="rule 1 is not in force"):
        run.tell(ev.RuleApplied(rule=1, scope=edit, gate=1, attempt=1))


def test_requests_of_older_journals_are_read_as_they_were() -> None:
    """Lines as they were written before there were rules."""
    opened = {
        "type": "GateOpened", "gate": 1, "kind": "script", "attempt": 1, "subject": "ab",
        "detail": "ls",
    }  # fmt: skip
    run = gated(Gate.SCRIPT)
    run.tell(msgspec.convert(opened, ev.AnyEvent))
    run.tell(msgspec.convert({"type": "GateAnswered", "gate": 1, "answer": "approve"}, ev.AnyEvent))
    assert run.state.scripts == (("ab", True),)
    assert run.state.rules == ()


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_a_rule_is_told_in_words_that_leave_nothing_of_its_scope_out(interpreter: str) -> None:
    words = in_words(ev.Scope("script", Phase.EDIT, "", interpreter))
    for part in (INTERPRETERS[interpreter], "of the agent", "phase EDIT", "every", "unasked"):
        assert part in words
    for gate, part in (("plan", "plan"), ("edit", "edit"), ("keep", "guard warns")):
        words = in_words(ev.Scope(gate, Phase.EDIT))  # type: ignore[arg-type]
        assert part in words
        assert "every later" in words

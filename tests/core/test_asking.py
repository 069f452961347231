"""The agent asks, is blocked, or would overrun a budget: what is journaled, and what follows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from akg_tui.agent.prompt import standing
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.model_info import Usage
from akg_tui.core.phases import Gate, Mode, Overlay, Phase
from akg_tui.core.questions import GLANCE_S
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.limits import no_room, stop_reasons
from akg_tui.core.task import Policy
from tests.core.simulated import SimulatedRun, failed, faster, planned, report
from tests.core.test_levers import refusal

WHY = "the reference cannot be read from here"


def asked(run: SimulatedRun, **changes: object) -> None:
    question = cmd.AskUser("May I use -ffast-math?", ("yes", "no"), **changes)  # type: ignore[arg-type]
    assert run.turn(question) == [None]


def test_with_nobody_there_the_default_holds_at_once_and_the_run_goes_on() -> None:
    run = planned("a")
    asked(run, default="no")
    asked(run)
    assert [(q.answer, q.source) for q in run.state.questions] == [
        ("no", "default"),
        ("", "denied"),
    ]
    assert run.next() == fx.RunAgent(Phase.EDIT)
    told = " ".join(standing(run.state, set()))
    assert "your default holds: no" in told
    assert "decide by yourself" in told


def test_in_mode_auto_a_question_waits_a_little_for_who_looks_at_the_screen() -> None:
    run = planned("a")
    asked(run, default="no", watched=True)
    asked_at = run.state.questions[-1].since
    assert run.next() == fx.Hold(Overlay.WAIT_USER, None, asked_at + GLANCE_S)
    run.clock_off += GLANCE_S + 1
    run.step()
    assert (run.state.questions[0].answer, run.state.questions[0].source) == ("no", "timeout")
    assert "nobody answered in time, so your default holds: no" in standing(run.state, set())[-1]
    asked(run, timeout_s=5.0, watched=True)
    question = run.state.question
    assert question is not None
    assert question.until == question.since + 5.0, "never longer than the agent wants"
    run.must(cmd.HoldQuestion(2))
    assert run.refold() == run.state
    assert run.next() == fx.Hold(Overlay.WAIT_USER)
    assert "waits until it is answered already" in refusal(run, cmd.HoldQuestion(2))
    run.must(cmd.AnswerQuestion(2, "yes"))
    assert refusal(run, cmd.HoldQuestion(2)) == "question 2 is not open"


def test_a_gate_that_a_person_turned_off_asks_nobody_outside_mode_auto() -> None:
    run = planned("a", mode=Mode.REVIEW)
    run.must(cmd.SetGate(Gate.ASK, on=False))
    asked(run, default="no", watched=True)
    assert run.state.questions[-1].source == "default"


def test_a_question_holds_the_phase_until_it_is_answered_and_survives_a_restart() -> None:
    run = planned("a", mode=Mode.REVIEW)
    asked(run)
    hold = fx.Hold(Overlay.WAIT_USER)
    assert run.next() == hold
    assert fx.visit_over(run.state, run.now)
    folded = run.refold()
    assert folded == run.state
    run.must(cmd.Observe(ev.SessionOpened(pid=2, version="0", resumed=True)))
    assert run.next() == hold
    assert refusal(run, cmd.AnswerQuestion(2, "yes")) == "question 2 is not open"
    run.must(cmd.AnswerQuestion(1, "yes"))
    assert run.next() == fx.RunAgent(Phase.EDIT)
    assert "the person answered: yes" in " ".join(standing(run.state, set()))


def test_a_person_may_answer_a_question_with_choices_in_words_of_their_own() -> None:
    run = planned("a", mode=Mode.REVIEW)
    asked(run, default="no")
    run.must(cmd.AnswerQuestion(1, "neither: keep the reference's"))
    assert "the person answered: neither: keep the reference's" in standing(run.state, set())[-1]


def test_an_edit_made_beside_a_question_waits_for_the_answer() -> None:
    run = planned("a", mode=Mode.REVIEW)
    assert run.turn(cmd.Edit("b1", "sha", 1, 1), cmd.AskUser("Is that so?")) == [None, None]
    assert run.next() == fx.Hold(Overlay.WAIT_USER, Phase.EVAL)
    run.must(cmd.AnswerQuestion(1, "it is"))
    assert run.entering() == (Phase.EVAL, "p1 edited")


def test_a_stop_does_not_wait_for_an_answer() -> None:
    run = planned("a", mode=Mode.REVIEW)
    asked(run)
    run.must(cmd.Stop())
    run.until_agent()
    assert run.state.finished == "stopped by the user"


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (cmd.AskUser(" "), "1 to 2000 characters"),
        (cmd.AskUser("x", ("one",)), "no choices or 2 to 10, not 1"),
        (cmd.AskUser("x", ("a", "a")), "two choices are the same"),
        (cmd.AskUser("x", ("a", "b"), "c"), "'c' is not among the choices"),
        (cmd.AskUser("x", timeout_s=0.0), "timeout_s must be above 0"),
        (cmd.AskUser("x", timeout_s=float("nan")), "timeout_s must be above 0"),
        (cmd.ReportBlocked("other", "stuck"), "in 20 to 2000 characters"),
        (cmd.RequestScript("abc"), "the gate script is off"),
    ],
)
def test_a_bad_question_is_refused_with_what_is_wrong(question: cmd.Command, why: str) -> None:
    assert why in refusal(planned("a"), question)


def test_one_question_at_a_time() -> None:
    run = planned("a", mode=Mode.REVIEW)
    asked(run)
    assert "question 1 is open still" in refusal(run, cmd.AskUser("And that?"))
    assert "does not give it" in refusal(planned_step(), cmd.Step())


def planned_step() -> SimulatedRun:
    run = planned("a", mode=Mode.REVIEW)
    asked(run)
    run.must(cmd.Pause())
    return run


def test_a_script_is_asked_for_once_and_its_answer_holds() -> None:
    run = planned("a")
    run.must(cmd.SetGate(Gate.SCRIPT, on=True))
    run.must(cmd.Observe(ev.ModelReplied(phase=Phase.EDIT, model="m")))
    run.must(cmd.RequestScript("abc", "ls"))
    run.must(cmd.Observe(ev.TurnEnded()))
    assert run.next() == fx.Hold(Overlay.WAIT_USER)
    run.must(cmd.AnswerGate(1, approve=True))
    assert run.state.scripts == (("abc", True),)
    assert run.next() == fx.RunAgent(Phase.EDIT)
    assert refusal(run, cmd.RequestScript("abc")) == "that script was answered already"


# Blocked


def blocked(run: SimulatedRun) -> None:
    assert run.turn(cmd.ReportBlocked("missing_information", WHY)) == [None]
    assert fx.visit_over(run.state, run.now)


def test_a_blocked_agent_gets_a_diagnosis_once_something_was_tried() -> None:
    run = planned("a", "b", "c")
    run.tries(failed())
    blocked(run)
    run.until_agent()
    assert run.state.phase is Phase.DIAGNOSE
    assert [i.state.value for i in run.state.items] == ["FAILED", "SUSPENDED", "SUSPENDED"]


def test_an_agent_that_only_says_it_is_blocked_cannot_end_the_run_early() -> None:
    run = SimulatedRun()
    run.until_agent()
    blocked(run)
    assert run.next() == fx.RunAgent(Phase.PLAN)
    for _ in range(2):
        blocked(run)
    run.until_agent()
    assert run.state.finished == "the agent made no progress in 3 visits"


def test_a_policy_can_stop_at_a_blocked_agent_or_ask_a_person() -> None:
    run = planned("a", policy=Policy(on_blocked="stop"))
    blocked(run)
    run.until_agent()
    assert run.state.finished == f"the agent is blocked (missing_information): {WHY}"
    asking = planned("a", policy=Policy(on_blocked="ask"), mode=Mode.REVIEW)
    blocked(asking)
    assert asking.next() == fx.Hold(Overlay.WAIT_USER)
    asking.must(cmd.AnswerQuestion(1, "it is in the folder task"))
    assert asking.next() == fx.RunAgent(Phase.EDIT)


# Diagnosis


def diagnosing(policy: Policy) -> SimulatedRun:
    run = planned("a", "b", "c", "d", policy=policy)
    for _ in range(3):
        run.tries(failed())
    assert run.state.phase is Phase.DIAGNOSE
    return run


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (report(cause="unknown"), "20 to 1000 characters, not 7"),
        (report(cause="a" * 40), "the cause says nothing"),
        (cmd.ReportDiagnosis("the wider blocks overflow"), "at least one direction"),
        (report("try narrower blocks"), "direction 1 is what the report says to avoid"),
        (report("x" * 301), "avoid 1 must have 1 to 300 characters, not 301"),
        (report("x", "X "), "avoid 2 stands there twice"),
    ],
)
def test_a_diagnosis_without_substance_is_refused(bad: cmd.Command, why: str) -> None:
    refused = diagnosing(Policy()).turn(bad)[0]
    assert refused is not None
    assert why in refused.why


def test_after_so_many_bad_reports_the_plain_facts_take_their_place() -> None:
    run = diagnosing(Policy(diagnosis_attempts=2))
    run.turn(report(cause="unknown"))
    assert run.next() == fx.RunAgent(Phase.DIAGNOSE)
    run.turn(report(cause="unknown"))
    assert fx.visit_over(run.state, run.now)
    run.until_agent()
    assert run.state.phase is Phase.PLAN
    assert run.state.diagnosis is not None
    assert run.state.diagnosis.source == "fallback"


# Budgets


def spent(policy: AutomationPolicy, *calls: tuple[int, int]) -> SimulatedRun:
    run = planned("a", "b", policy=Policy(automation=policy))
    for tokens, output in calls:
        replied = ev.ModelReplied(
            phase=Phase.EDIT, model="claude-opus-5-5", input_tokens=tokens, output_tokens=output
        )
        run.must(cmd.Observe(replied))
        run.must(cmd.Observe(ev.TurnEnded()))
    return run


def test_no_call_begins_that_could_overrun_the_tokens() -> None:
    run = spent(AutomationPolicy(max_tokens=250), (60, 40), (10, 20))
    assert stop_reasons(run.state, run.now) == ()  # 130 used, and the largest took 100
    run = spent(AutomationPolicy(max_tokens=250), (60, 40), (10, 20), (30, 0))
    assert stop_reasons(run.state, run.now) == (
        "token budget has no room for another call (160 used and 100 reserved of 250)",
    )
    run.until_agent()
    assert run.state.finished.startswith("token budget has no room")


def test_calls_in_flight_add_up_and_a_large_request_counts_for_itself() -> None:
    state = spent(AutomationPolicy(max_tokens=1000), (60, 40)).state
    small = Usage("claude-opus-5-5")
    assert no_room(state, [small] * 9) == ""
    assert "100 used and 1000 reserved" in no_room(state, [small] * 10)
    assert "901 reserved" in no_room(state, [Usage("claude-opus-5-5", input=861)])


def test_money_is_reserved_like_tokens_and_a_model_without_a_price_gets_no_call() -> None:
    state = spent(AutomationPolicy(max_cost_usd=10.0), (10**6, 10**5)).state  # $6
    assert no_room(state, ()).startswith("cost budget has no room for another call ($6.00 used")
    assert "no price for x" in no_room(state, [Usage("x")])


def test_a_refused_call_ends_the_run_until_the_budget_is_raised() -> None:
    run = planned("a")
    run.must(cmd.Observe(ev.CallRefused(reason="token budget has no room")))
    assert run.entering() == (Phase.DONE, "token budget has no room")
    policy = run.state.task.policy
    run.must(cmd.ChangePolicy(replace(policy, automation=AutomationPolicy(max_tokens=10**9))))
    assert run.next() == fx.RunAgent(Phase.EDIT)


# What the agent cannot do


def test_no_wish_of_the_agent_changes_a_rule_or_a_verdict() -> None:
    """Its commands, in every phase: policy, timing, verdicts, best and gates stay as they are."""
    wishes = (
        cmd.Edit("x", "sha", 1, 1),
        cmd.RequestFinish("enough"),
        cmd.AskUser("Shall I skip the evaluation?", default="yes"),
        cmd.ReportBlocked("impossible", "it cannot be made any faster than this"),
        report(),
        cmd.RequestScript("abc"),
    )
    run = SimulatedRun(policy=Policy(max_rounds=3))
    seen = set()
    for _ in range(60):
        effect = run.next()
        if effect is None:
            break
        before = run.state
        seen.add(before.phase)
        for wish in wishes:
            probe = SimulatedRun()
            probe.state, probe.records = before, list(run.records)
            probe.send(wish)
            after = probe.state
            assert after.task == before.task
            assert after.phase is before.phase
            assert (after.best, after.attempts, after.settled) == (
                before.best,
                before.attempts,
                before.settled,
            )
            assert (after.gates, after.mode, after.measured) == (
                before.gates,
                before.mode,
                before.measured,
            )
        if isinstance(effect, fx.RunAgent) and effect.phase is Phase.PLAN:
            run.plan(f"a{run.state.seq}")
        elif isinstance(effect, fx.RunAgent):
            run.edit()
        else:
            run.perform(effect, faster())
    assert seen == set(run.state.workflow.rows) - {Phase.DIAGNOSE}

"""Seed 003, the automation policy: the page statement by statement (b01 to b33)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from akg_tui.cli import tune
from akg_tui.cli.run_options import note_goals
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.model_info import Usage
from akg_tui.core.phases import Phase
from akg_tui.core.state import RunState
from akg_tui.core.stopping import automation as auto
from akg_tui.core.stopping import export_guard as guard
from akg_tui.core.stopping import reply_signals as signals
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.export_guard import RESULT_SKIPPED, STATUS_KEPT
from akg_tui.core.stopping.goals import Goal, Range, goals_met, meets
from akg_tui.core.stopping.limits import MAX_PLAN_REFUSALS, stop_reasons
from akg_tui.core.summary import summarize, token_fields
from akg_tui.core.task import Policy
from akg_tui.report.write import read_report, render, write_report
from akg_tui.store.task_toml import load_policy, parse_task, read_automation
from akg_tui.store.user_files.reader import Unsound
from akg_tui.view.event_words import line_texts
from tests.cli.test_cli import here
from tests.core.simulated import SimulatedRun, faster, planned
from tests.engine.runs import make_task
from tests.report import runs
from tests.store.scripted import play, send
from tests.store.test_policy_files import FULL

PAGE = """
{
  "automation_policy": {
    "logic": "AND",
    "goals": [
      { "metric": "Mean R", "operator": ">", "value": 0.8 },
      { "metric": "Val ACC", "operator": ">=", "value": 0.92 }
    ],
    "maxExperiments": 30,
    "maxTokens": 2000000,
    "strictHeuristics": true
  }
}
"""
LONG = """
{
  "automation_policy": {
    "logic": "AND",
    "goals": [],
    "maxExperiments": 50,
    "maxTokens": 5000000,
    "strictHeuristics": false
  }
}
"""
OR_PAGE = """
{
  "automation_policy": {
    "logic": "OR",
    "goals": [
      { "metric": "AUC", "operator": ">", "value": 0.9 },
      { "metric": "F1", "operator": ">", "value": 0.85 }
    ],
    "maxExperiments": 20,
    "strictHeuristics": true
  }
}
"""
BUDGET = '{"automation_policy": {"maxTokens": 1000000, "strictHeuristics": true}}'


def read(text: str) -> AutomationPolicy:
    policy = read_automation(json.loads(text))
    assert policy is not None
    return policy


def conditions(
    policy: AutomationPolicy | None,
    *,
    rounds: int = 1,
    max_rounds: int = 20,
    tokens: int = 0,
    reply: str = "",
    refused: int = 0,
) -> tuple[str, ...]:
    """Return why a run with so many settled rounds, used tokens and refused plans stops."""
    run = SimulatedRun(policy=Policy(max_rounds=max_rounds, automation=policy))
    state = replace(
        run.state, settled=rounds, input_tokens=tokens, closing_reply=reply, plans_refused=refused
    )
    return stop_reasons(state, run.now)


def at(**metrics: float) -> dict[str, Range]:
    return {name: Range(value, value) for name, value in metrics.items()}


SPEEDUP_2 = Goal("speedup", ">=", 2.0)


# Schema


@pytest.mark.parametrize("text", [PAGE, LONG, OR_PAGE, BUDGET])
def test_seed003_the_pages_own_examples_load_wrapped_and_bare(text: str) -> None:
    wrapped = read(text)
    assert read(json.dumps(json.loads(text)["automation_policy"])) == wrapped
    again = msgspec.json.decode(msgspec.json.encode(wrapped), type=AutomationPolicy)
    assert again == wrapped


def test_seed003_b01_logic_is_and_or_in_any_case_and_anything_else_is_and() -> None:
    assert read("{}").logic == "AND"
    for said, meant in (("AND", "AND"), ("and", "AND"), ("Or", "OR"), ("or", "OR"), ("XOR", "AND")):
        assert read(json.dumps({"logic": said})).logic == meant
    assert auto.doubts({"logic": "XOR"}) == [
        ("logic", "'XOR' is neither AND nor OR, so it counts as AND")
    ]
    assert auto.doubts({"logic": "or"}) == []
    with pytest.raises(Unsound, match="logic"):
        read('{"logic": 1}')


def test_seed003_b02_the_operators_are_five_and_a_wrong_goal_is_refused_by_place() -> None:
    expected = {">": (3,), ">=": (2, 3), "<": (1,), "<=": (1, 2), "==": (2,)}
    for operator, met in expected.items():
        goal = read(json.dumps({"goals": [{"metric": "m", "operator": operator, "value": 2}]}))
        assert [v for v in (1, 2, 3) if meets(goal.goals[0], at(m=v))] == list(met)
    for operator in ("!=", "=", "=>", "≥", ""):
        bad = {"goals": [{"metric": "m", "operator": operator, "value": 1}]}
        with pytest.raises(Unsound, match=r"^goals\.0\.operator: "):
            read(json.dumps(bad))
    for value in ('"2"', "true", "null"):
        with pytest.raises(Unsound, match=r"goals\.0\.value"):
            read(f'{{"goals": [{{"metric": "m", "operator": ">", "value": {value}}}]}}')


def test_seed003_b03_metrics_match_to_the_letter_with_their_inner_spaces() -> None:
    (goal,) = read('{"goals": [{"metric": "  Mean R ", "operator": ">", "value": 0}]}').goals
    assert goal.metric == "Mean R"
    assert meets(goal, {"Mean R": Range(1, 1)})
    for other in ("mean r", "MeanR", "Mean  R", "Mean R "):
        assert not meets(goal, {other: Range(1, 1)})


def test_seed003_b04_limits_are_integers_above_zero_or_unset() -> None:
    assert (read("{}").max_experiments, read("{}").max_tokens) == (None, None)
    for name in ("maxExperiments", "maxTokens"):
        field = "max_experiments" if name == "maxExperiments" else "max_tokens"
        for value, meant in ((1, 1), (30, 30), (None, None), (0, None), (-5, None)):
            assert getattr(read(json.dumps({name: value})), field) == meant
        assert auto.doubts({name: 0}) == [(name, "0 is not above 0, so it is no limit")]
        for value in ("true", "1.5", '"30"'):
            with pytest.raises(Unsound, match=name):
                read(f'{{"{name}": {value}}}')


def test_seed003_b05_strict_heuristics_is_true_unless_said_otherwise() -> None:
    assert read("{}").strict
    assert read('{"strictHeuristics": true}').strict
    assert not read('{"strictHeuristics": false}').strict


def test_seed003_b06_a_policy_that_says_nothing_is_no_policy() -> None:
    for text in ("{}", '{"logic": "OR"}', '{"goals": [], "maxTokens": null}', '{"maxTokens": 0}'):
        # Nothing of the policy could end the run, so its queue never does.
        assert conditions(read(text), rounds=20) == ("max rounds reached (20)",)
    assert read_automation({"automation_policy": None}) is None
    # Without a policy the rounds and the phrases still bind.
    assert conditions(None, rounds=20) == ("max rounds reached (20)",)
    assert conditions(read("{}"), reply="Please confirm.") == ("user-input heuristic matched",)


def test_seed003_b07_a_changed_policy_goes_before_the_runs_and_that_before_the_tasks() -> None:
    run = SimulatedRun(policy=Policy(automation=read(PAGE)))
    assert run.state.task.policy.automation == read(PAGE)
    changed = replace(run.state.task.policy, automation=read(BUDGET))
    run.must(cmd.ChangePolicy(changed, "command line"))
    assert run.state.task.policy.automation == read(BUDGET)
    assert run.refold() == run.state  # kept in the journal: a resumed run has it too
    assert run.send(cmd.ChangePolicy(changed)) is not None


def test_seed003_b08_a_single_evaluation_takes_no_policy(capsys) -> None:
    from akg_tui.cli import parser

    assert parser().parse_args(["tune", "t", "--max-tokens", "5"]).max_tokens == 5
    with pytest.raises(SystemExit):
        parser().parse_args(["eval", "t", "--max-tokens", "5"])
    assert "unrecognized arguments: --max-tokens 5" in capsys.readouterr().err


# Stop order; the oracle of `test_automation` knows it for all combinations of conditions


def test_seed003_b09_plans_that_are_refused_again_and_again_block_the_guardrail() -> None:
    run = SimulatedRun()
    run.until_agent()
    for number in range(MAX_PLAN_REFUSALS):
        assert stop_reasons(run.state, run.now) == ()
        answer = ev.ToolAnswered(call=f"u{number}", tool="submit_plan", status="error")
        run.must(cmd.Observe(answer))
    assert stop_reasons(run.state, run.now) == ("task_plan guardrail blocking",)
    run.must(cmd.Observe(ev.ToolAnswered(call="u", tool="submit_plan", status="success")))
    assert stop_reasons(run.state, run.now) == ()


def test_seed003_b10_rounds_stop_at_the_limit_which_is_twenty_unless_configured() -> None:
    assert Policy().max_rounds == 20
    assert conditions(None, rounds=19) == ()
    assert conditions(None, rounds=20) == ("max rounds reached (20)",)
    assert conditions(None, rounds=21, max_rounds=7) == ("max rounds reached (7)",)
    assert Policy(automation=read('{"maxRounds": 35}')).max_rounds == 35


def test_seed003_b12_only_a_closing_reply_is_read_for_phrases() -> None:
    run = SimulatedRun(policy=Policy(automation=read('{"strictHeuristics": true}')))
    run.until_agent()
    asked = ev.ModelReplied(phase=Phase.PLAN, model="m", text="Shall I proceed?", tool_calls=1)
    run.must(cmd.Observe(asked))
    assert stop_reasons(run.state, run.now) == ()
    run.must(cmd.Observe(replace(asked, tool_calls=0)))
    assert stop_reasons(run.state, run.now) == ("user-input heuristic matched",)
    run.must(cmd.Hint("yes, go on"))
    assert stop_reasons(run.state, run.now) == ()


def test_seed003_b16_an_exhausted_queue_is_the_last_of_the_conditions() -> None:
    run = played(Policy(automation=AutomationPolicy(max_experiments=1)), ("a",))
    assert run.state.stop_conditions == (
        "max experiments reached (1/1)",
        "queue exhausted, no replan condition met",
    )
    assert run.state.finished == "max experiments reached (1/1)"


def test_seed003_b17_equal_to_the_limit_is_reached() -> None:
    policy = AutomationPolicy(max_experiments=3, max_tokens=100)
    assert conditions(policy, rounds=2, tokens=99) == ()
    assert conditions(policy, rounds=3) == ("max experiments reached (3/3)",)
    assert conditions(policy, tokens=100) == ("token budget reached (100/100)",)
    assert conditions(policy, rounds=4, tokens=101) == (
        "max experiments reached (4/3)",
        "token budget reached (101/100)",
    )


def test_seed003_b18_and_needs_all_or_any_and_no_goal_is_never_reached() -> None:
    goals = (Goal("a", ">", 1), Goal("b", ">", 1))
    for a, b in itertools.product((0, 2), repeat=2):
        experiments = [at(a=a, b=b)]
        assert goals_met(goals, "AND", experiments, None) == (a > 1 and b > 1)
        assert goals_met(goals, "OR", experiments, None) == (a > 1 or b > 1)
    assert not goals_met(goals, "AND", [at(a=2)], None)
    assert goals_met(goals, "OR", [at(a=2)], None)
    for logic in ("AND", "OR"):
        assert not goals_met((), logic, [at(a=2)], None)
        assert not goals_met(goals, logic, [], None)


def test_seed003_b18_the_last_experiment_counts_as_a_whole() -> None:
    goals = (Goal("a", ">", 1), Goal("b", ">", 1))
    assert not goals_met(goals, "AND", [at(a=2, b=2), at(a=2)], None)


# Replan


@pytest.mark.parametrize(
    ("name", "policy", "queue_empty", "met", "exhausted"),
    [
        ("b19 items are left", read(PAGE), False, True, False),
        ("b19 items are left, no policy", None, False, True, False),
        ("b20 no policy", None, True, False, False),
        ("b20 a policy that says nothing", read("{}"), True, True, False),
        ("b21 a stop condition is met", read(PAGE), True, True, True),
        ("b22 goals unmet, no budget", AutomationPolicy(goals=(SPEEDUP_2,)), True, False, False),
        ("b23 experiments are left", AutomationPolicy(max_experiments=9), True, False, False),
        ("b23 none are left", AutomationPolicy(max_experiments=1), True, False, True),
        ("b24 only tokens", AutomationPolicy(max_tokens=9), True, False, False),
        ("b24 only strict", AutomationPolicy(strict_heuristics=True), True, False, False),
    ],
)
def test_seed003_b19_to_b24_the_replan_table(name, policy, queue_empty, met, exhausted) -> None:
    """An empty queue is planned anew, but where a policy has a stop condition that holds."""
    items = ("a",) if queue_empty else ("a", "b")
    run = planned(*items, policy=Policy(automation=AutomationPolicy(goals=(SPEEDUP_2,))))
    run.tries(faster(1.1))
    task = replace(run.state.task, policy=Policy(automation=policy))
    state = replace(run.state, task=task, stop_reason="enough" if met else "")
    found = stop_reasons(state, run.now)
    assert ("queue exhausted, no replan condition met" in found) is exhausted, name


def played(policy: Policy, *plans: tuple[str, ...], **tokens: int) -> SimulatedRun:
    """Play `plans` one after the other, each attempt a little faster, until the run ends."""
    run = SimulatedRun(policy=policy)
    queue = list(plans)
    while (effect := run.until_agent()) is not None:
        assert isinstance(effect, fx.RunAgent)
        if effect.phase is Phase.EDIT:
            run.edit()
            continue
        if not queue:
            return run
        if tokens:
            run.must(cmd.Observe(ev.ModelReplied(phase=Phase.PLAN, model="sweep", **tokens)))
        run.plan(*queue.pop(0))
    return run


def test_seed003_b20_to_b24_an_exhausted_queue_leads_back_to_plan_in_a_run() -> None:
    for automation in (None, AutomationPolicy(goals=(Goal("speedup", ">", 1e9),)), read(BUDGET)):
        run = played(Policy(automation=automation), ("a",), ("b",))
        assert run.state.phase is Phase.PLAN
        assert run.state.settled == 2


# Heuristics


def test_seed003_b25_the_window_is_the_last_600_characters_after_the_last_blank_line() -> None:
    assert signals.closing_window("a\n\nB\nC") == "b\nc"
    assert signals.closing_window("x" * 700) == "x" * 600
    ask = "Please confirm"
    assert signals.looks_like_input_request("many words\n\n" + ask)
    assert not signals.looks_like_input_request(ask + "\n\nmany words")
    assert signals.looks_like_input_request(ask + "x" * (600 - len(ask)))
    assert not signals.looks_like_input_request(ask + "x" * (601 - len(ask)))
    # As the page has it: an empty window, no blank line with carriage returns, straight quotes.
    assert not signals.looks_like_input_request(ask + "\n\n")
    assert signals.looks_like_input_request(ask + "\r\n\r\nmany words")
    assert not signals.looks_like_failure("I’m unable to proceed")


def test_seed003_b26_hard_signals_match_anywhere_soft_ones_in_the_window_only() -> None:
    assert len(signals.HARD_FAILURES) == len(signals.SOFT_FAILURES) == 6
    assert len(signals.INPUT_REQUESTS) == 21
    for phrase in signals.HARD_FAILURES:
        assert signals.looks_like_failure(f"A. {phrase.upper()} b\n\nAll is well.")
    for phrase in signals.SOFT_FAILURES:
        assert signals.looks_like_failure(f"All is well.\n\nBut {phrase.upper()} it.")
        assert not signals.looks_like_failure(f"But {phrase} it.\n\nAll is well.")
    for phrase in signals.INPUT_REQUESTS:
        assert signals.looks_like_input_request(f"Done.\n\n{phrase.title()}?")
        assert not signals.looks_like_input_request(f"{phrase}?\n\nDone.")
        assert not signals.looks_like_failure(f"Done.\n\n{phrase}?")


def test_seed003_b27_what_stands_in_every_log_stops_nothing() -> None:
    for phrase in (
        "exit code: 1",
        "module not found",
        "permission denied",
        "could you",
        "clarify",
        "需要你",
        "出现错误",
    ):
        assert not signals.looks_like_failure(f"It said {phrase}.")
        assert not signals.looks_like_input_request(f"It said {phrase}.")


# Export guards


def test_seed003_b28_a_result_is_rolled_back_unless_it_was_asked_for() -> None:
    may = guard.may_export("tune it", channel="ui")
    kept = guard.guard(before={}, after={"s": 1}, status="in_progress", pending=True, may_write=may)
    assert kept.result == {}
    assert kept.notes == (
        "auto-run guard: skipped task_plan.result update without explicit export request",
    )
    same = guard.guard(before={}, after={}, status="in_progress", pending=True, may_write=may)
    assert same.notes == ()


def test_seed003_b29_completed_needs_a_deliverable_and_no_pending_work() -> None:
    told = ("auto-run guard: kept task_plan.status=in_progress until explicit export request",)
    done = {"output_path": "report.html"}
    for result, pending, status in (
        ({}, False, "in_progress"),
        (None, False, "in_progress"),
        ({"summary": "", "sections": []}, False, "in_progress"),
        (done, True, "in_progress"),
        (done, False, "completed"),
        ({"sections": [1]}, False, "completed"),
    ):
        out = guard.guard(
            before=result, after=result, status="completed", pending=pending, may_write=False
        )
        assert out.status == status
        assert out.notes == (() if status == "completed" else told)


def test_seed003_b30_what_counts_as_a_request_for_the_result() -> None:
    for message in (
        "Manual export request for the report",
        "I request the final deliverable",
        "请导出报告",
        "导出论文",
        "把结果导出",
    ):
        assert guard.is_result_request(message)
    for message in ("export", "the final deliverable", "request", "导出", "报告", ""):
        assert not guard.is_result_request(message)
        assert guard.is_result_request(message, allow_result_write=True)


def test_seed003_b31_the_command_line_is_not_guarded() -> None:
    assert guard.may_export("tune it", channel="cli")
    assert not guard.may_export("tune it", channel="ui")
    out = guard.guard(before={}, after={"s": 1}, status="completed", pending=True, may_write=True)
    assert out == guard.Guarded({"s": 1}, "completed")


# Tokens


def test_seed003_b32_messages_tell_the_tokens_and_the_limit_only_where_there_is_one() -> None:
    run = played(Policy(max_rounds=1), ("a",), input_tokens=30, output_tokens=12)
    summary = summarize(run.state)
    assert summary["tokens_used_session"] == 42
    assert "max_tokens" not in summary
    assert token_fields(7, read(BUDGET)) == {"tokens_used_session": 7, "max_tokens": 1_000_000}
    assert token_fields(7, None) == {"tokens_used_session": 7}


def test_seed003_b33_only_a_new_run_counts_tokens_from_zero() -> None:
    run = played(Policy(), ("a",), ("b",), input_tokens=30, output_tokens=12)
    assert run.state.tokens == 84
    run.must(cmd.Hint("go on"))
    run.must(cmd.Observe(ev.SessionOpened(pid=1, version="0", resumed=True)))
    assert run.state.tokens == 84
    assert run.refold() == run.state  # a restart forgets nothing
    assert SimulatedRun().state.tokens == 0


def test_seed003_b33_new_counts_tokens_from_zero_and_begins_another_conversation() -> None:
    policy = Policy(automation=AutomationPolicy(max_tokens=200))
    run = played(policy, ("a",), ("b",), input_tokens=30, output_tokens=12)
    assert run.state.session_tokens == 84
    began = run.state
    run.must(cmd.NewSession())
    assert (run.state.tokens, run.state.session_tokens) == (84, 0)
    assert summarize(run.state)["tokens_used_session"] == 0
    assert fx.visit_is_void(began, run.state)  # so that the next visit has a new conversation
    assert len(run.state.attempts) == len(began.attempts)
    for _ in range(2):
        assert stop_reasons(run.state, run.now) == ()
        reply = ev.ModelReplied(phase=Phase.PLAN, model="m", input_tokens=100)
        run.must(cmd.Observe(reply))
    assert stop_reasons(run.state, run.now)[0] == "token budget reached (200/200)"
    assert run.refold() == run.state


def test_seed003_the_log_has_both_prefixes_and_the_guardrails_issues() -> None:
    run = SimulatedRun()
    run.until_agent()
    for number in range(MAX_PLAN_REFUSALS):
        answer = ev.ToolAnswered(
            call=f"u{number}", tool="submit_plan", status="error", error_information="item 1: why?"
        )
        run.must(cmd.Observe(answer))
    run.must(cmd.Observe(ev.TurnEnded()))
    run.until_agent()
    (met,) = [r.event for r in run.records if isinstance(r.event, ev.StopConditionsMet)]
    op = run.state.task.op
    assert line_texts(met, "plain", str) == [
        "stop      auto-run stop condition: task_plan guardrail blocking",
        "stop      auto-run stop reason: task_plan guardrail blocking",
        f"stop      task_plan guardrails blocked auto-continue for {op}: ['item 1: why?']",
    ]


PROJECT = """{
  "name": "lung nodules",
  "run_mode": "auto",
  "automation_policy": {
    "logic": "AND",
    "goals": [
      { "metric": "Val ACC", "operator": ">=", "value": 0.95 },
      { "metric": "Val Loss", "operator": "<", "value": 0.15 }
    ],
    "maxExperiments": 50,
    "maxTokens": 5000000,
    "strictHeuristics": false
  }
}
"""


def test_seed003_a_project_json_with_further_keys_loads_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "project.json"
    path.write_text(PROJECT)
    policy, notes = load_policy(path)
    assert policy is not None
    assert (policy.max_experiments, len(policy.goals)) == (50, 2)
    assert [note.removeprefix(str(path)) for note in notes] == [
        ":2: name: is not read beside automation_policy",
        ":3: run_mode: is not read beside automation_policy",
    ]


def test_seed003_a_goal_on_a_metric_that_is_not_declared_loads_and_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    task = parse_task(Path("task.toml"), FULL.replace('["Val ACC"]', '["Val acc"]'))
    note_goals(task)
    told = capsys.readouterr().err
    assert told.startswith(
        "akg-tui: note: a goal can't be met yet: 'Val ACC' is not measured, expected"
    )


def test_seed003_a_run_that_begins_tells_the_goals_that_cant_be_met_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project.json").write_text(PAGE)
    monkeypatch.setattr(tune, "watch", lambda open_run, arguments: 0)
    task = make_task(tmp_path / "task")
    told = here("tune", task, "--headless", "--policy", tmp_path / "project.json")
    assert told.returncode == 0
    for metric in ("Mean R", "Val ACC"):
        assert f"note: a goal can't be met yet: '{metric}' is not measured" in told.stderr


# The order of the conditions, against an oracle that knows nothing else

FLAGS = (
    "user", "guard", "rounds", "failure", "asks", "goals", "experiments", "tokens",
    "cost", "hours", "wall", "stuck", "finish", "empty", "strict",
)  # fmt: skip


def base_state() -> RunState:
    run = planned("a", "b")
    run.tries(faster(1.5))
    return replace(run.state, settled=1, last_at=0.0, started_at=0.0, worked_s=0.0)


def built(base: RunState, on: dict[str, bool]) -> RunState:
    automation = AutomationPolicy(
        goals=(Goal("speedup", ">", 1.2 if on["goals"] else 9.0),),
        max_experiments=1 if on["experiments"] else 9,
        max_tokens=10 if on["tokens"] else 11,
        strict_heuristics=on["strict"],
        max_cost_usd=4e-5 if on["cost"] else 1.0,
        max_wall_clock=50.0 if on["wall"] else 500.0,
    )
    policy = Policy(
        max_rounds=1 if on["rounds"] else 20,
        max_hours=0.02 if on["hours"] else 1.0,
        automation=automation,
    )
    words = ["Tool call failed."] if on["failure"] else []
    words += ["Please confirm."] if on["asks"] else []
    return replace(
        base,
        task=replace(base.task, policy=policy),
        stop_reason="stopped by the user" if on["user"] else "",
        plans_refused=MAX_PLAN_REFUSALS if on["guard"] else 0,
        closing_reply=" ".join(words),
        input_tokens=10,
        usage=(Usage("claude-opus-5-5", 10),),
        visits_failed=3 if on["stuck"] else 0,
        finish_reason="enough" if on["finish"] else "",
        items=base.items[:1] if on["empty"] else base.items,
        active=None if on["empty"] else base.active,
    )


def oracle(on: dict[str, bool]) -> tuple[str, ...]:
    table = (
        (on["user"], "stopped by the user"),
        (on["guard"], "task_plan guardrail blocking"),
        (on["rounds"], "max rounds reached (1)"),
        (on["failure"] and on["strict"], "failure heuristic matched"),
        (on["asks"] and on["strict"], "user-input heuristic matched"),
        (on["goals"], "automation goals reached"),
        (on["experiments"], "max experiments reached (1/1)"),
        (on["tokens"], "token budget reached (10/10)"),
        (on["cost"], "cost budget reached ($0.00/$4e-05)"),
        (on["hours"], "time budget reached (0.02 h)"),
        (on["wall"], "wall clock reached (50 s)"),
        (on["stuck"], "the agent made no progress in 3 visits"),
        (on["finish"], "the agent finished: enough"),
    )
    found = tuple(text for holds, text in table if holds)
    last = ("queue exhausted, no replan condition met",) if found and on["empty"] else ()
    return found + last


def test_seed003_an_oracle_agrees_on_conditions_of_which_three_hold_or_do_not_hold() -> None:
    base = base_state()
    few = [each for n in range(4) for each in itertools.combinations(FLAGS, n)]
    for some in (*few, *(set(FLAGS).difference(each) for each in few)):
        on = {flag: flag in some for flag in FLAGS}
        assert stop_reasons(built(base, on), 100.0) == oracle(on), on


def test_seed003_an_oracle_agrees_without_a_policy() -> None:
    base = base_state()
    flags = ("user", "guard", "rounds", "failure", "asks", "hours", "stuck", "finish", "empty")
    for values in itertools.product((False, True), repeat=len(flags)):
        on = {**dict.fromkeys(FLAGS, False), **dict(zip(flags, values, strict=True))}
        on["strict"] = True
        state = built(base, on)
        state = replace(
            state,
            task=replace(state.task, policy=replace(state.task.policy, automation=None)),
        )
        expected = tuple(text for text in oracle(on) if not text.startswith("queue"))
        assert stop_reasons(state, 100.0) == expected, on


# The export guard of a run on disk


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return runs.closed(runs.finished(tmp_path / "task"))


def test_seed003_b28_b29_a_run_on_screen_leaves_a_draft_and_no_result(own: Path) -> None:
    draft = read_report(own, channel="ui")
    assert (draft.status, draft.result) == ("in_progress", None)
    assert draft.notes == (RESULT_SKIPPED, STATUS_KEPT)
    assert "draft" in render(draft, "md")
    assert draft.rounds  # the guard is about the claim; the figures are all there


def test_seed003_b31_the_command_line_makes_the_result_and_a_draft_later_keeps_it(
    own: Path,
) -> None:
    asked = read_report(own, channel="cli")
    assert asked.status == "completed"
    assert asked.notes == ()
    assert asked.result is not None
    assert asked.result.commit == asked.best.commit
    write_report(own, asked)
    again = read_report(own, channel="ui")
    assert (again.status, again.result) == ("completed", asked.result)
    assert again.notes == ()


def test_seed003_b30_a_hint_that_asks_for_the_result_is_leave_enough(tmp_path: Path) -> None:
    run = runs.begun(tmp_path / "task")
    send(run, cmd.Hint("manual export request for the kernel"))
    play(run)
    found = read_report(runs.closed(run), channel="ui")
    assert found.status == "completed"
    assert found.result is not None

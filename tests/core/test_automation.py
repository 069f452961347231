"""The automation policy beyond its page (`tests/seeds/test_seed003_automation.py`)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.measurement import Metric
from akg_tui.core.model_info import PRICES, TABLE_VERSION, UnknownPrice, Usage, cost_usd
from akg_tui.core.phases import Phase
from akg_tui.core.stopping import automation as auto
from akg_tui.core.stopping.automation import AutomationPolicy, never_met
from akg_tui.core.stopping.goals import BadGoal, Goal, Range, goal_met, meets, read_goal
from akg_tui.core.stopping.limits import metrics_of, stop_reasons
from akg_tui.core.summary import summarize
from akg_tui.core.task import Policy
from akg_tui.store.user_files.reader import Unsound
from tests.core.simulated import SimulatedRun, failed, faster, planned
from tests.seeds.test_seed003_automation import at, played, read


def test_a_task_that_says_nothing_is_tuned_without_phrase_heuristics() -> None:
    assert Policy().automation == auto.TUNING
    assert not auto.TUNING.strict


def test_a_goal_is_met_only_when_all_of_the_confidence_interval_is() -> None:
    noisy = {"m": Range(1.9, 2.1)}
    assert not meets(Goal("m", ">=", 2), noisy)
    assert meets(Goal("m", ">=", 1.9), noisy)
    assert not meets(Goal("m", ">", 1.9), noisy)
    assert not meets(Goal("m", "<", 2.1), noisy)
    assert meets(Goal("m", "<=", 2.1), noisy)
    assert not meets(Goal("m", "==", 2), noisy)
    assert meets(Goal("m", "==", 2, tolerance=0.2), noisy)


RANGES = st.tuples(st.floats(-5, 5), st.floats(0, 3)).map(lambda t: Range(t[0], t[0] + t[1]))


@given(RANGES, st.sampled_from([">", ">=", "<", "<=", "=="]), st.floats(-5, 5))
def test_a_met_goal_is_met_by_every_value_of_the_interval(found, operator, value) -> None:
    compare = {
        ">": float.__gt__,
        ">=": float.__ge__,
        "<": float.__lt__,
        "<=": float.__le__,
        "==": float.__eq__,
    }[operator]
    ends = [compare(end, value) for end in (found.low, found.high)]
    assert meets(Goal("m", operator, value), {"m": found}) == all(ends)


@given(
    st.lists(st.sampled_from([at(m=0), at(m=2), {}]), max_size=6),
    st.integers(1, 4),
    st.sampled_from([at(m=0), at(m=2), None]),
)
def test_scopes_and_consecutive_agree_with_their_definitions(experiments, n, best) -> None:
    hits = [m.get("m") == Range(2, 2) for m in experiments]
    runs = [all(hits[i : i + n]) for i in range(len(hits) - n + 1)]

    def goal(scope: str, n: int = n) -> Goal:
        return Goal("m", ">", 1, scope=scope, consecutive=n)  # type: ignore[arg-type]

    assert goal_met(goal("last"), experiments, best) == bool(runs and runs[-1])
    assert goal_met(goal("any"), experiments, best) == any(runs)
    assert goal_met(goal("all"), experiments, best) == (len(hits) >= n and all(hits))
    assert goal_met(goal("best", 1), experiments, best) == (best == at(m=2))


def test_one_best_kernel_cannot_be_consecutive() -> None:
    text = '{"goals": [{"metric": "m", "operator": ">", "value": 1, "scope": "best", %s}]}'
    with pytest.raises(Unsound, match="consecutive does not go with scope best"):
        read(text % '"consecutive": 2')
    assert read(text % '"consecutive": 1').goals[0].scope == "best"


def test_a_run_ends_when_its_speedup_goal_is_met_beyond_doubt() -> None:
    goal = AutomationPolicy(goals=(Goal("speedup", ">=", 2.0),), strict_heuristics=False)
    run = planned("a", "b", "c", policy=Policy(automation=goal))
    run.tries(faster(2.02, half=0.05))  # 1.97 at the lower bound
    assert run.state.phase is Phase.EDIT
    run.tries(faster(1.2, half=0.05), faster(2.4))
    assert run.state.finished == "automation goals reached"
    assert run.state.goals_met
    (attempt,) = [a for a in run.state.attempts if a.number == 2]
    found = metrics_of(attempt)
    assert found["speedup"] == Range(1.97 * 1.15, 2.07 * 1.25)
    assert found["ratio"] == Range(1.15, 1.25)


def test_a_goal_reached_in_the_last_round_is_told_beside_the_rounds() -> None:
    policy = AutomationPolicy(goals=(Goal("ratio", ">", 1.1),), max_rounds=1)
    run = played(Policy(automation=policy), ("a",))
    (met,) = [r.event for r in run.records if isinstance(r.event, ev.StopConditionsMet)]
    assert met.primary == "max rounds reached (1)" == run.state.finished
    assert "automation goals reached" in met.reasons
    assert met.goals_met
    assert summarize(run.state)["goals_met"]


def test_endless_failures_reach_the_experiments_unless_only_completed_ones_count() -> None:
    for count, ended in (("settled", True), ("completed", False)):
        policy = AutomationPolicy(max_experiments=2, count=count)  # type: ignore[arg-type]
        run = planned("a", "b", "c", policy=Policy(automation=policy))
        for _ in range(2):
            run.tries(failed())
        assert (run.state.phase is Phase.DONE) is ended


def test_a_cost_budget_counts_by_the_price_table_and_refuses_a_model_without_a_price() -> None:
    used = (Usage("claude-opus-5-5", 1_000_000, 100_000), Usage("sweep", 10**9, 10**9))
    assert cost_usd(used) == pytest.approx(4.0 + 2.0)
    with pytest.raises(
        UnknownPrice, match=f"no price for claude-x in the table of {TABLE_VERSION}"
    ):
        cost_usd((Usage("claude-x", 1, 1),))
    run = SimulatedRun(policy=Policy(automation=AutomationPolicy(max_cost_usd=6.0)))
    run.until_agent()
    replied = ev.ModelReplied(
        phase=Phase.PLAN, model="claude-opus-5-5", input_tokens=10**6, output_tokens=10**5
    )
    run.must(cmd.Observe(replied))
    assert stop_reasons(run.state, run.now) == ("cost budget reached ($6.00/$6)",)
    run.must(cmd.Observe(replace(replied, model="unheard-of")))
    assert stop_reasons(run.state, run.now)[0].startswith(
        "cost budget cannot be kept: no price for unheard-of"
    )
    assert summarize(run.state)["cost_usd"] is None


def test_a_cost_budget_for_a_model_without_a_price_is_refused_when_it_is_set() -> None:
    run = SimulatedRun()
    assert run.state.agent in PRICES
    limited = replace(run.state.task.policy, automation=AutomationPolicy(max_cost_usd=1.0))
    run.must(cmd.ChangePolicy(limited))
    stranger = SimulatedRun()
    stranger.state = replace(stranger.state, agent="local-model")
    refused = stranger.send(cmd.ChangePolicy(limited))
    assert refused is not None
    assert "no price for local-model" in refused.why


def test_the_wall_clock_counts_all_time_and_the_hours_only_work() -> None:
    policy = Policy(max_hours=1.0, automation=AutomationPolicy(max_wall_clock=7200))
    run = SimulatedRun(policy=policy)
    start = run.state.started_at
    rested = replace(run.state, last_at=start + 7000)
    assert stop_reasons(rested, start + 7199) == ()
    assert stop_reasons(rested, start + 7200) == ("wall clock reached (7200 s)",)
    assert stop_reasons(replace(rested, worked_s=3600.0), start + 7000) == (
        "time budget reached (1 h)",
    )
    assert stop_reasons(rested, start - 10**6) == ()  # the clock was set back


def test_rounds_without_a_keep_end_a_run_and_an_undone_keep_is_none() -> None:
    run = SimulatedRun(policy=Policy(max_rounds_without_keep=2))
    run.until_agent()
    run.plan("a", "b", "c", "d")
    for measured in (faster(), faster(0.8)):
        run.until_agent()
        run.tries(measured)
    assert stop_reasons(run.state, run.now) == ()
    undone = replace(run.state, undone=(1,))
    assert stop_reasons(undone, run.now) == ("no KEEP in 2 rounds",)
    run.tries(faster(0.8))
    assert isinstance(ended := run.records[-1].event, ev.RunFinished)
    assert ended.reason == "no KEEP in 2 rounds"


def test_a_number_that_the_task_declares_can_end_the_run_and_another_one_never_does() -> None:
    run = planned("a", "b")
    task = replace(run.state.task, metrics=("Mean R",))
    run.state = replace(run.state, task=task)
    auto_policy = AutomationPolicy(goals=(Goal("Mean R", ">=", 0.8),))
    run.must(cmd.ChangePolicy(replace(task.policy, automation=auto_policy)))
    run.tries(replace(faster(), metrics=(Metric("Mean R", 0.7, 0.9),)))
    assert stop_reasons(run.state, run.now) == ()
    found = summarize(run.state)
    assert found["goals"] == [{"goal": "Mean R >= 0.8", "met": False, "range": [0.7, 0.9]}]
    assert found["metrics"] == ({"name": "Mean R", "low": 0.7, "high": 0.9, "note": ""},)
    unknown = replace(auto_policy, goals=(*auto_policy.goals, Goal("Min R", ">", 0)))
    assert never_met(unknown, task.metrics)[0][0] == 1
    run.must(cmd.ChangePolicy(replace(task.policy, automation=unknown)))
    run.must(cmd.ChangePolicy(replace(task.policy, automation=auto_policy)))
    run.until_agent()
    run.tries(replace(faster(), metrics=(Metric("Mean R", 0.81, 0.9),)))
    assert stop_reasons(run.state, run.now)[0] == "automation goals reached"


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("speedup>=2", Goal("speedup", ">=", 2.0)),
        (" candidate_ms < 0.5 ", Goal("candidate_ms", "<", 0.5)),
        ("max_error==0", Goal("max_error", "==", 0.0)),
    ],
)
def test_a_goal_in_words_of_the_command_line(text: str, goal: Goal) -> None:
    assert read_goal(text) == goal


@pytest.mark.parametrize("text", ["", "speedup", "speedup=2", "speedup>x", "ratio>nan"])
def test_text_that_is_no_goal_is_told(text: str) -> None:
    with pytest.raises(BadGoal):
        read_goal(text)


def test_a_policy_changed_live_can_end_a_run_and_let_it_go_on() -> None:
    run = planned("a", "b")
    run.tries(faster())
    policy = run.state.task.policy
    run.must(cmd.ChangePolicy(replace(policy, max_rounds=1)))
    assert run.entering() == (Phase.DONE, "max rounds reached (1)")
    run.must(cmd.ChangePolicy(replace(policy, max_rounds=2)))
    assert run.next() == fx.RunAgent(Phase.EDIT)
    run.tries(faster())
    assert run.state.finished == "max rounds reached (2)"
    assert run.send(cmd.ChangePolicy(policy)) is not None


def test_stop_conditions_are_journaled_once_though_the_process_dies_right_after() -> None:
    run = planned("a", policy=Policy(max_rounds=1))
    run.edit()
    while run.state.phase is not Phase.DECIDE or not run.state.decided_here:
        effect = run.next()
        assert effect is not None
        run.perform(effect)
    met = ev.StopConditionsMet(
        reasons=("max rounds reached (1)",), primary="max rounds reached (1)"
    )
    run.tell(met)  # and the process died before PhaseEntered
    run.until_agent()
    assert run.state.finished == "max rounds reached (1)"
    assert sum(isinstance(r.event, ev.StopConditionsMet) for r in run.records) == 1

"""Stop conditions of a run's state: the automation policy's and the harness's own limits.

Pure. `stop_reasons` returns all conditions that hold, in order of precedence; `no_room` checks
before a model call whether the call fits in the budgets of tokens and money.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from akg_tui.core.model_info import KINDS, UnknownPrice, Usage, cost_usd
from akg_tui.core.phases import Verdict
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import Attempt, RunState
from akg_tui.core.stopping import automation as auto
from akg_tui.core.stopping.automation import null_if_empty, tokens_reached
from akg_tui.core.stopping.goals import Goal, Metrics, Range, goal_met, goals_met

NO_PROGRESS_VISITS = 3
MAX_PLAN_REFUSALS = 12  # as many as the turns of one visit


def stop_reasons(state: RunState, now: float) -> tuple[str, ...]:
    """Return all stop conditions that hold, in order of precedence; empty when none holds.

    A person's stop comes first, then the automation policy's conditions in its own order,
    then the harness's, then the exhausted queue. `now` is seconds since the epoch.
    """
    policy = null_if_empty(state.task.policy.automation)
    queue_empty = bool(state.items) and state.active is None and not state.pending
    facts = auto.Facts(
        rounds=state.settled,
        max_rounds=state.task.policy.max_rounds,
        experiments=experiments_done(state),
        tokens=state.tokens,
        reply=state.closing_reply,
        goals_met=goals_reached(state),
        guardrail_blocking=state.plans_refused >= MAX_PLAN_REFUSALS,
    )
    reasons = [state.stop_reason] if state.stop_reason else []
    reasons += auto.stop_conditions(policy, facts)
    reasons += _budgets(state, policy, now)
    patience = state.task.policy.max_rounds_without_keep
    if patience is not None and rounds_without_keep(state) >= patience:
        reasons.append(f"no KEEP in {patience} rounds")
    if state.visits_failed >= NO_PROGRESS_VISITS:
        why = f": {one_line(state.visit_failure, 200)}" if state.visit_failure else ""
        reasons.append(f"the agent made no progress in {NO_PROGRESS_VISITS} visits{why}")
    if state.finish_reason:
        reasons.append(f"the agent finished: {state.finish_reason}")
    # The reason of a call refused for a reached limit is in the list already.
    if (full := state.call_refused or no_room(state, ())) and full not in reasons:
        reasons.append(full)
    met = bool(reasons)
    if queue_empty and not auto.should_replan(policy, queue_empty=True, stop_condition_met=met):
        reasons.append(auto.QUEUE_EXHAUSTED)
    return tuple(reasons)


def _budgets(state: RunState, policy: auto.AutomationPolicy | None, now: float) -> list[str]:
    """Return the reasons of the budgets in money and time that are reached."""
    reasons: list[str] = []
    if policy is not None and policy.max_cost_usd is not None:
        try:
            cost = cost_usd(state.usage)
        except UnknownPrice as error:
            reasons.append(f"cost budget cannot be kept: {error}")
        else:
            if cost >= policy.max_cost_usd:
                reasons.append(cost_reached(cost, policy.max_cost_usd))
    hours = state.task.policy.max_hours
    if hours is not None and state.worked(now) >= hours * 3600:
        reasons.append(f"time budget reached ({hours:g} h)")
    longest = policy.max_wall_clock if policy is not None else None
    if longest is not None and now - state.started_at >= longest:
        reasons.append(f"wall clock reached ({longest:g} s)")
    return reasons


def more_rounds(state: RunState, number: int) -> int:
    """Return the limit of rounds that gives the run `number` more: of a run that is over, more
    than it has settled; else more than its limit.
    """
    return number + (state.settled if state.finished else state.task.policy.max_rounds)


def rounds_without_keep(state: RunState) -> int:
    """Return the number of rounds settled since the last KEEP that was not undone."""
    kept = [
        attempt.round
        for attempt in state.attempts
        if attempt.advanced and attempt.number not in state.undone
    ]
    return state.settled - max(kept, default=0)


def _completed(state: RunState) -> list[Attempt]:
    """Return the experiments with metrics: attempts with a correct kernel, without the seed."""
    return [a for a in state.attempts if a.number and a.verdict is not Verdict.FAIL]


def metrics_of(attempt: Attempt) -> dict[str, Range]:
    """Return an attempt's metrics by name, each as its confidence range.

    `speedup` is over the seed (the chain of kept ratios times its own), `ratio` over the
    incumbent of its round. `candidate_ms` has the relative uncertainty of `ratio`.
    `max_error` is a maximum, not an estimate, so its range has no width. The range of a metric of
    the task holds its values on all inputs.
    """
    measured = attempt.measurement
    found: dict[str, Range] = {}
    ratio = measured.ratio
    if attempt.speedup is not None:
        found["speedup"] = Range(attempt.speedup.low, attempt.speedup.high)
    if ratio is not None:
        found["ratio"] = Range(ratio.low, ratio.high)
    if measured.candidate_ms is not None and ratio is not None and ratio.low > 0:
        time = measured.candidate_ms * ratio.ratio
        found["candidate_ms"] = Range(time / ratio.high, time / ratio.low)
    if measured.max_error is not None:
        found["max_error"] = Range(measured.max_error, measured.max_error)
    for each in measured.metrics:
        if each.low is not None and each.high is not None:
            found[each.name] = Range(each.low, each.high)
    return found


def goals_reached(state: RunState) -> bool:
    """Return whether the policy's goals are reached, regardless of other stop conditions."""
    policy = state.task.policy.automation
    if policy is None or not policy.goals:
        return False
    return goals_met(policy.goals, policy.logic, *_goal_facts(state))


def each_goal(state: RunState) -> list[tuple[Goal, bool, Range | None]]:
    """Return the policy's goals, each with whether it is reached now, and its metric's range.

    The range is that of the best kernel (scope `best`) or of the last experiment.
    """
    policy = state.task.policy.automation
    goals = policy.goals if policy is not None else ()
    experiments, best = _goal_facts(state) if goals else ((), None)
    last = experiments[-1] if experiments else None
    found: list[tuple[Goal, bool, Range | None]] = []
    for goal in goals:
        of = best if goal.scope == "best" else last
        now = of.get(goal.metric) if of is not None else None
        found.append((goal, goal_met(goal, experiments, best), now))
    return found


def _goal_facts(state: RunState) -> tuple[Sequence[Metrics], Metrics | None]:
    """Return the metrics of the completed experiments, and those of the best kernel."""
    # An undone KEEP is not a result, so it must not stop the run.
    completed = (a for a in _completed(state) if a.number not in state.undone)
    experiments = [metrics_of(attempt) for attempt in completed]
    best = None
    if state.best is not None and state.best.attempt:
        best = metrics_of(state.attempts[state.best.attempt])
    return experiments, best


def experiments_done(state: RunState) -> int:
    """Return the experiments so far, as the policy counts them."""
    policy = null_if_empty(state.task.policy.automation)
    by_correct = policy is not None and policy.count == "completed"
    return len(_completed(state)) if by_correct else state.settled


def cost_reached(spent: float, limit: float) -> str:
    """Return the stop reason of a cost budget that is used up; both values are US dollars."""
    return f"cost budget reached (${spent:.2f}/${limit:g})"


def reserve(state: RunState, estimate: Usage) -> Usage:
    """Return the tokens to reserve for a call: by kind the maximum of estimate and recent calls."""
    recent = [used for used in state.recent_calls if used.model == estimate.model]
    calls = (estimate, *recent)
    return replace(estimate, **{kind: max(getattr(c, kind) for c in calls) for kind in KINDS})


def no_room(state: RunState, calls: Sequence[Usage]) -> str:
    """Return why no further call may begin, or ""; `calls` are those in flight and the new one.

    Without `calls`, test whether one more call to the last used model would fit.
    """
    policy = null_if_empty(state.task.policy.automation)
    if policy is None or (policy.max_tokens is None and policy.max_cost_usd is None):
        return ""
    expected = calls or [Usage(used.model) for used in state.recent_calls[-1:]]
    kept = tuple(reserve(state, call) for call in expected)
    most = policy.max_tokens
    tokens = sum(used.prompt + used.output for used in kept)
    if most is not None and state.tokens >= most:
        # Stop conditions are not checked until a subagent ends, so a new call needs the reason
        # here. Without `calls`, `stop_conditions` gives the reason of a reached limit.
        return tokens_reached(state.tokens, most) if calls else ""
    if most is not None and most < state.tokens + tokens:
        return (
            f"token budget has no room for another call ({state.tokens} used and {tokens} "
            f"reserved of {most})"
        )
    limit = policy.max_cost_usd
    if limit is None:
        return ""
    try:
        spent, more = cost_usd(state.usage), cost_usd(kept)
    except UnknownPrice as error:
        # Without a call, `_budgets` gives this reason.
        return f"cost budget cannot be kept: {error}" if calls else ""
    if spent >= limit:
        return cost_reached(spent, limit) if calls else ""
    if limit < spent + more:
        return (
            f"cost budget has no room for another call (${spent:.2f} used and ${more:.2f} "
            f"reserved of ${limit:g})"
        )
    return ""

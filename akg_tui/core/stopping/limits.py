"""Stop conditions of a run's state: the limits of its policy, its goals, and the harness's own.

Pure. `stop_reasons` returns all conditions that hold, in order of precedence; `no_room` checks
before a model call whether the call fits in the budgets of tokens and money.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from akg_tui.core.model_info import KINDS, UnknownPrice, Usage, cost_usd
from akg_tui.core.phases import Verdict
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import Attempt, RunState
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.goals import Goal, Metrics, Range, goal_met, goals_met
from akg_tui.core.stopping.limit_table import (
    COST,
    LIMITS,
    QUEUE_EXHAUSTED,
    ROUNDS,
    SECONDS,
    TOKENS,
    WORKED,
    Limit,
)
from akg_tui.core.stopping.reply_signals import looks_like_failure, looks_like_input_request
from akg_tui.core.task import Policy

NO_PROGRESS_VISITS = 3
GUARDRAIL = "task_plan guardrail blocking"
MAX_PLAN_REFUSALS = 12  # as many as the turns of one visit


def stop_reasons(state: RunState, now: float) -> tuple[str, ...]:
    """Return all stop conditions that hold, in order of precedence; empty when none holds.

    `now` is seconds since the epoch.
    """
    reasons: list[str] = []
    for condition in CONDITIONS:
        # The reason of a call refused for a reached limit may be in the list already.
        if (reason := condition(state, now)) and reason not in reasons:
            reasons.append(reason)
    if reasons and _queue_empty(state) and _has_policy(state):
        reasons.append(QUEUE_EXHAUSTED)
    return tuple(reasons)


def time_left(state: RunState, now: float) -> float | None:
    """Return the seconds until a limit of time is reached, if nothing changes; None: never."""
    left = [
        (most - limit.used(state, now)) * SECONDS[limit.unit]
        for limit in LIMITS
        if limit.unit in SECONDS and (most := limit.value(state.task.policy)) is not None
        if limit is not WORKED or not state.resting
    ]
    return min(left, default=None)


def time_is_up(state: RunState, now: float) -> bool:
    """Return whether a limit of time is reached."""
    return any(limit.reason(state, now) for limit in LIMITS if limit.unit in SECONDS)


def ends_unmeasured(state: RunState) -> bool:
    """Return whether the run ends without what the agent has finished: its end was wanted."""
    return bool(state.stop_reason) or goals_reached(state)


def _queue_empty(state: RunState) -> bool:
    return bool(state.items) and state.active is None and not state.pending


def _has_policy(state: RunState) -> bool:
    """Return whether the automation policy sets a field that could stop a run.

    Without one an empty queue needs a new plan; with one, only until a stop condition holds.
    """
    policy = state.task.policy.automation
    return policy is not None and policy != replace(
        AutomationPolicy(), logic=policy.logic, count=policy.count, max_rounds=policy.max_rounds
    )


def _guardrail(state: RunState, now: float) -> str:
    return GUARDRAIL if state.plans_refused >= MAX_PLAN_REFUSALS else ""


def blocked_plans(state: RunState) -> str:
    """Return the line of the log on the plans that were refused last, and why."""
    issues = [one_line(fault, 200) for fault in state.plan_faults]
    return f"task_plan guardrails blocked auto-continue for {state.task.op}: {issues}"


def _reply(signal: Callable[[str], bool], reason: str) -> Condition:
    """Return the condition that the model's closing reply has a phrase, where phrases count."""

    def condition(state: RunState, now: float) -> str:
        policy = state.task.policy.automation
        strict = policy is None or policy.strict
        return reason if strict and signal(state.closing_reply) else ""

    return condition


def _goals(state: RunState, now: float) -> str:
    return "automation goals reached" if goals_reached(state) else ""


def _no_progress(state: RunState, now: float) -> str:
    if state.visits_failed < NO_PROGRESS_VISITS:
        return ""
    why = f": {one_line(state.visit_failure, 200)}" if state.visit_failure else ""
    return f"the agent made no progress in {NO_PROGRESS_VISITS} visits{why}"


Condition = Callable[[RunState, float], str]
CONDITIONS: tuple[Condition, ...] = (
    lambda state, now: state.stop_reason,  # a person's
    _guardrail,
    ROUNDS.reason,
    _reply(looks_like_failure, "failure heuristic matched"),
    _reply(looks_like_input_request, "user-input heuristic matched"),
    _goals,
    *(limit.reason for limit in LIMITS if limit is not ROUNDS),
    _no_progress,
    lambda state, now: state.finish_reason and f"the agent finished: {state.finish_reason}",
    lambda state, now: state.call_refused or no_room(state, ()),
)
"""The stop conditions in order of precedence. Each returns its reason if it holds, else ""."""


def with_limits(policy: Policy, stated: Mapping[Limit, float | None], **others: object) -> Policy:
    """Return a policy with other limits, and with `others` of its automation policy's fields."""
    own: dict[str, Any] = {k.field: v for k, v in stated.items() if not k.automated}
    if automated := {k.field: v for k, v in stated.items() if k.automated} | others:
        own["automation"] = replace(policy.automation or AutomationPolicy(), **automated)
    return replace(policy, **own)


def more_rounds(state: RunState, number: int) -> int:
    """Return the limit of rounds that gives the run `number` more: of a run that is over, more
    than it has settled; else more than its limit.
    """
    return number + (state.rounds if state.finished else state.task.policy.max_rounds)


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


def reserve(state: RunState, estimate: Usage) -> Usage:
    """Return the tokens to reserve for a call: by kind the maximum of estimate and recent calls."""
    recent = [used for used in state.recent_calls if used.model == estimate.model]
    calls = (estimate, *recent)
    return replace(estimate, **{kind: max(getattr(c, kind) for c in calls) for kind in KINDS})


def no_room(state: RunState, calls: Sequence[Usage]) -> str:
    """Return why no further call may begin, or ""; `calls` are those in flight and the new one.

    Without `calls`, test whether one more call to the last used model would fit.
    """
    policy = state.task.policy
    most, budget = TOKENS.value(policy), COST.value(policy)
    if most is None and budget is None:
        return ""
    expected = calls or [Usage(used.model) for used in state.recent_calls[-1:]]
    kept = tuple(reserve(state, call) for call in expected)
    tokens = sum(used.prompt + used.output for used in kept)
    # A reached limit is a condition of its own; only a call to come needs its reason here, because
    # stop conditions are not checked until a subagent ends.
    used = state.session_tokens
    if most is not None and used >= most:
        return TOKENS.reason(state, 0.0) if calls else ""
    if most is not None and most < used + tokens:
        return (
            f"token budget has no room for another call ({used} used and {tokens} "
            f"reserved of {most})"
        )
    if budget is None:
        return ""
    try:
        spent, more = cost_usd(state.usage), cost_usd(kept)
    except UnknownPrice as error:
        return f"cost budget cannot be kept: {error}" if calls else ""
    if spent >= budget:
        return COST.reason(state, 0.0) if calls else ""
    if budget < spent + more:
        return (
            f"cost budget has no room for another call (${spent:.2f} used and ${more:.2f} "
            f"reserved of ${budget:g})"
        )
    return ""

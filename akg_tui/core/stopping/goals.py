"""Goals of a policy: a metric, an operator, a value, and the experiments to test.

A metric measured with noise is a range and meets a goal only when the whole range meets it,
so that a lucky sample reaches no goal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, cast

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

METRICS = ("speedup", "ratio", "candidate_ms", "max_error")
"""The metrics of every task; a task may declare more (`akg_tui.core.task.Task.metrics`)."""

Operator = Literal[">", ">=", "<", "<=", "=="]
Scope = Literal["last", "best", "any", "all"]


class Range(Struct, frozen=True):
    """A metric's confidence interval; a metric without noise has `low == high`."""

    low: float
    high: float

    def __str__(self) -> str:
        low, high = f"{self.low:.4g}", f"{self.high:.4g}"
        return low if low == high else f"{low} – {high}"


Metrics = Mapping[str, Range]


class Goal(Struct, frozen=True, forbid_unknown_fields=True):
    """A goal, for example ``speedup >= 2``. `tolerance` is for ``==``, in the metric's unit.

    `scope` selects the experiments: the last, the best kernel's, any, or all. `consecutive` is the
    number of experiments in a row that must meet the goal: the last ones, any ones, or (for all)
    the minimum number of experiments. Experiments without a correct kernel do not count.
    """

    metric: Annotated[str, Meta(min_length=1, max_length=100)]
    operator: Operator
    value: float
    scope: Scope = "last"
    consecutive: Annotated[int, Meta(ge=1)] = 1
    tolerance: Annotated[float, Meta(ge=0)] = 0.0

    def __post_init__(self) -> None:
        force_setattr(self, "metric", self.metric.strip())
        if not self.metric:
            raise ValueError("a goal needs the name of a metric")
        if not math.isfinite(self.value) or not math.isfinite(self.tolerance):
            raise ValueError(f"the goal on {self.metric} needs finite numbers")
        if self.scope == "best" and self.consecutive > 1:
            raise ValueError("consecutive does not go with scope best: there is one best kernel")

    def __str__(self) -> str:
        words = f"{self.metric} {self.operator} {self.value:g}"
        if self.scope != "last":
            words += f" ({self.scope})"
        return words + (f" {self.consecutive} times running" if self.consecutive > 1 else "")


class BadGoal(ValueError):
    """A text that is not a goal; the message gives the expected form."""


def unmeasured(goal: Goal, declared: Sequence[str]) -> str:
    """Return why a goal is never met: no metric of that name, in a task with these; "" if it may.

    `declared` are the metrics that the task adds to `METRICS`.
    """
    known = (*METRICS, *declared)
    if goal.metric in known:
        return ""
    return f"{goal.metric!r} is not measured, expected one of: {', '.join(known)}"


def read_goal(text: str) -> Goal:
    """Return the goal in ``METRIC OPERATOR VALUE``, the form of the command line.

    Raises `BadGoal`. Whether the task measures the metric is not checked here.
    """
    match = re.fullmatch(r"\s*([^<>=]+?)\s*(>=|<=|==|>|<)\s*([^<>=\s]+)\s*", text)
    if match is None:
        raise BadGoal(f"{text!r} is not a goal, expected for example speedup>=2")
    metric, operator, number = match.groups()
    try:
        value = float(number)
    except ValueError:
        raise BadGoal(f"{number!r} is not a number") from None
    if not math.isfinite(value):
        raise BadGoal(f"{number} is not a finite number")
    try:
        return Goal(metric, cast("Operator", operator), value)
    except ValueError as error:
        raise BadGoal(str(error)) from None


def meets(goal: Goal, metrics: Metrics) -> bool:
    """Return whether the whole range of the metric meets the goal; False without the metric."""
    found = metrics.get(goal.metric)
    if found is None:
        return False
    match goal.operator:
        case ">":
            return found.low > goal.value
        case ">=":
            return found.low >= goal.value
        case "<":
            return found.high < goal.value
        case "<=":
            return found.high <= goal.value
        case "==":
            low, high = goal.value - goal.tolerance, goal.value + goal.tolerance
            return low <= found.low and found.high <= high


def goal_met(goal: Goal, experiments: Sequence[Metrics], best: Metrics | None) -> bool:
    """Return whether `experiments` (the completed ones, oldest first) reach the goal."""
    n = goal.consecutive
    match goal.scope:
        case "best":
            return best is not None and meets(goal, best)
        case "last":
            return len(experiments) >= n and all(meets(goal, m) for m in experiments[-n:])
        case "all":
            return len(experiments) >= n and all(meets(goal, m) for m in experiments)
        case "any":
            running = 0
            for metrics in experiments:
                running = running + 1 if meets(goal, metrics) else 0
                if running >= n:
                    return True
            return False


def goals_met(
    goals: Sequence[Goal], logic: str, experiments: Sequence[Metrics], best: Metrics | None
) -> bool:
    """Return whether all goals (AND) or any goal (OR) is reached; False without goals."""
    if not goals:
        return False
    join = any if logic == "OR" else all
    return join(goal_met(goal, experiments, best) for goal in goals)

"""The automation policy: the conditions under which an unattended run stops or plans again.

The JSON schema is that of the automation-policy page (camel-case names), with additional
fields. Pure rules over `Facts`; `akg_tui.core.stopping.limits` derives the facts from a
run's state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from akg_tui.core.stopping.goals import Goal, unmeasured
from akg_tui.core.stopping.reply_signals import looks_like_failure, looks_like_input_request

GUARDRAIL = "task_plan guardrail blocking"
FAILURE_MATCHED = "failure heuristic matched"
INPUT_MATCHED = "user-input heuristic matched"
GOALS_REACHED = "automation goals reached"
QUEUE_EXHAUSTED = "queue exhausted, no replan condition met"
CONDITION_PREFIX = "auto-run stop condition: "

_LIMITS = ("maxExperiments", "maxTokens")
_LOGICS = ("AND", "OR")


class BadPolicy(ValueError):
    """A policy that cannot be read; `field` is the faulty field, `message` the expected value."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


class AutomationPolicy(
    Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """The stop conditions of a run. A field that is None is not set.

    `logic` joins the goals (AND: all, OR: any; upper or lower case; any other text means
    AND). `max_experiments` limits the settled rounds or, with `count` "completed", those with a
    correct kernel; `max_tokens` limits the input and output tokens of the whole run. Values
    below 1 mean no limit. `strict_heuristics` enables the search for phrases in the model's
    replies; the default is true. `max_cost_usd` is in US dollars by `akg_tui.core.model_info`,
    `max_wall_clock` in seconds since the creation of the run, pauses included. `max_rounds` is
    moved to the task's `policy.max_rounds`, which all other modules read.
    """

    logic: str = "AND"
    goals: tuple[Goal, ...] = ()
    max_experiments: int | None = None
    max_tokens: int | None = None
    strict_heuristics: bool | None = None
    count: Literal["settled", "completed"] = "settled"
    max_rounds: Annotated[int, Meta(ge=1)] | None = None
    max_cost_usd: Annotated[float, Meta(gt=0)] | None = None
    max_wall_clock: Annotated[float, Meta(gt=0)] | None = None

    def __post_init__(self) -> None:
        logic = self.logic.upper()
        force_setattr(self, "logic", logic if logic in _LOGICS else "AND")
        for name in ("max_experiments", "max_tokens"):
            if (getattr(self, name) or 0) < 1:
                force_setattr(self, name, None)

    @property
    def strict(self) -> bool:
        return self.strict_heuristics is not False


# The policy of a task without one: budgets and tools decide, phrases do not, because texts about
# kernels often contain "blocked by" (of loops).
TUNING = AutomationPolicy(strict_heuristics=False)


class Facts(Struct, frozen=True, kw_only=True):
    """The input of the stop rules: the facts of a run after a round.

    `experiments` is counted by the policy's `count`, `tokens` over the whole run. `reply` is
    the model's closing text.
    """

    rounds: int
    max_rounds: int
    experiments: int = 0
    tokens: int = 0
    reply: str = ""
    goals_met: bool = False
    guardrail_blocking: bool = False


def null_if_empty(policy: AutomationPolicy | None) -> AutomationPolicy | None:
    """Return `policy`, or None when it sets no field that could stop a run."""
    if policy is None:
        return None
    unset = AutomationPolicy(logic=policy.logic, count=policy.count, max_rounds=policy.max_rounds)
    return None if policy == unset else policy


def stop_conditions(policy: AutomationPolicy | None, facts: Facts) -> tuple[str, ...]:
    """Return all conditions that hold, except the queue's, in the page's order of precedence.

    Without a policy the guardrail, the rounds and the phrases still stop a run.
    """
    policy = null_if_empty(policy)
    found: list[str] = []
    if facts.guardrail_blocking:
        found.append(GUARDRAIL)
    if facts.rounds >= facts.max_rounds:
        found.append(f"max rounds reached ({facts.max_rounds})")
    if policy is None or policy.strict:
        if looks_like_failure(facts.reply):
            found.append(FAILURE_MATCHED)
        if looks_like_input_request(facts.reply):
            found.append(INPUT_MATCHED)
    if policy is None:
        return tuple(found)
    if facts.goals_met:
        found.append(GOALS_REACHED)
    most = policy.max_experiments
    if most is not None and facts.experiments >= most:
        found.append(f"max experiments reached ({facts.experiments}/{most})")
    if policy.max_tokens is not None and facts.tokens >= policy.max_tokens:
        found.append(tokens_reached(facts.tokens, policy.max_tokens))
    return tuple(found)


def tokens_reached(tokens: int, most: int) -> str:
    """Return the stop reason of a token budget that is used up."""
    return f"token budget reached ({tokens}/{most})"


def should_replan(
    policy: AutomationPolicy | None, *, queue_empty: bool, stop_condition_met: bool
) -> bool:
    """Return whether an empty queue requires a new plan.

    The result is False while items are left; the caller continues with these items. With an
    empty queue the result is True without a policy; with a policy it is True until a stop
    condition holds, for example goals reached, or no experiments or tokens left.
    """
    if not queue_empty:
        return False
    return null_if_empty(policy) is None or not stop_condition_met


def read_automation(plain: object) -> AutomationPolicy | None:
    """Return the policy in decoded JSON: a bare object, or under the key `automation_policy`.

    The result of null is None. Raises `BadPolicy` with the faulty field.
    """
    if isinstance(plain, Mapping) and "automation_policy" in plain:
        if len(plain) > 1:
            other = next(key for key in plain if key != "automation_policy")
            raise BadPolicy(str(other), "is not known beside automation_policy")
        plain = plain["automation_policy"]
    if plain is None:
        return None
    try:
        return msgspec.convert(plain, AutomationPolicy, strict=True)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        raise BadPolicy(place.rstrip("`").lstrip("."), what) from None


def doubts(plain: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the values that `read_automation` accepts but that are likely errors: (field, why)."""
    found: list[tuple[str, str]] = []
    logic = plain.get("logic")
    if isinstance(logic, str) and logic.upper() not in _LOGICS:
        found.append(("logic", f"{logic!r} is neither AND nor OR, so it counts as AND"))
    for name in _LIMITS:
        value = plain.get(name)
        if isinstance(value, int) and value < 1:
            found.append((name, f"{value} is not above 0, so it is no limit"))
    return found


def never_met(policy: AutomationPolicy | None, declared: Sequence[str]) -> list[tuple[int, str]]:
    """Return the goals, by position, whose metric is not measured in a task, each with the reason.

    `declared` are the metrics of the task.
    """
    goals = policy.goals if policy is not None else ()
    return [(at, why) for at, goal in enumerate(goals) if (why := unmeasured(goal, declared))]

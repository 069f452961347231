"""The automation policy: its fields in a file, and what is doubtful in one.

The JSON schema is that of the automation-policy page (camel-case names), with additional
fields. `akg_tui.core.stopping.limits` applies it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from akg_tui.core.stopping.goals import Goal, unmeasured

CONDITION_PREFIX = "auto-run stop condition: "
"""Begins the line on each condition that holds."""

REASON_PREFIX = "auto-run stop reason: "
"""Begins the line on the condition that ends the run: the first of them."""

_LIMITS = ("maxExperiments", "maxTokens")
_LOGICS = ("AND", "OR")


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
    """Return the goals, by position, whose metric a task does not measure yet, with the reason.

    `declared` are the metrics of the task.
    """
    goals = policy.goals if policy is not None else ()
    return [(at, why) for at, goal in enumerate(goals) if (why := unmeasured(goal, declared))]

"""The limits of a run, one row each: what is counted, its words, and where a person sets it.

The stop test, the policy panel, the `:limits` line, the options of the command line and the table
in docs/policy.md take them from here. Imports nothing slow: the help of the command line has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from akg_tui.core.state import Attempt, RunState
    from akg_tui.core.task import Policy

Unit = Literal["rounds", "number", "tokens", "USD", "hours", "seconds", "share"]
WHOLE: tuple[Unit, ...] = ("rounds", "number", "tokens")
"""The units without fractions."""

SECONDS: dict[Unit, float] = {"hours": 3600.0, "seconds": 1.0}
"""The seconds of the units of time."""


class Limit(NamedTuple):
    """A limit: a `field` of `Policy` or, if it is `automated`, of its `AutomationPolicy`.

    `word` is its name on the `:limits` line, `label` in the panel, `option` on the command line.
    `used` returns how much of it a run has used at a time, in seconds since the epoch. The reason
    `reached` is a template of the numbers `used` and `limit`.
    """

    word: str
    label: str
    field: str
    option: str
    unit: Unit
    meaning: str
    reached: str
    used: Callable[[RunState, float], float]
    automated: bool = True

    @property
    def key(self) -> str:
        """The name in a file, where an automation policy has its names in camel case."""
        if not self.automated:
            return self.field
        first, *others = self.field.split("_")
        return first + "".join(word.capitalize() for word in others)

    def value(self, policy: Policy) -> float | None:
        """Return the limit in a policy, or None."""
        owner = policy.automation if self.automated else policy
        value: float | None = getattr(owner, self.field, None)
        return value

    def reason(self, state: RunState, now: float) -> str:
        """Return the reason to stop if the limit is reached, or ""."""
        from akg_tui.core.model_info import UnknownPrice

        limit = self.value(state.task.policy)
        if limit is None:
            return ""
        try:
            used = self.used(state, now)
        except UnknownPrice as error:
            return f"{self.word} budget cannot be kept: {error}"
        return self.reached.format(used=used, limit=limit) if used >= limit else ""


def experiments_done(state: RunState) -> int:
    """Return the experiments so far, as the policy counts them: the seed is none."""
    from akg_tui.core.phases import Verdict

    policy = state.task.policy.automation
    if policy is None or policy.count == "settled":
        return state.rounds
    return sum(1 for a in state.attempts if _counts(a) and a.verdict is not Verdict.FAIL)


def rounds_without_keep(state: RunState) -> int:
    """Return the number of rounds settled since the last KEEP that was not undone."""
    since = 0
    for attempt in reversed(state.attempts):
        if attempt.advanced and attempt.number not in state.undone:
            return since
        since += _counts(attempt)
    return state.rounds


def _counts(attempt: Attempt) -> bool:
    """Return whether an attempt is the agent's: neither the seed, nor a kernel measured again."""
    return bool(attempt.number) and attempt.again_of is None


def _bound_share(state: RunState) -> float:
    """Return the share of the bound of its memory that the best kernel reaches; 0: unknown."""
    if state.best is None:
        return 0.0
    return state.attempts[state.best.attempt].measurement.bound_share or 0.0


def _cost(state: RunState) -> float:
    from akg_tui.core.model_info import cost_usd

    return cost_usd(state.usage)


ROUNDS = Limit(
    "rounds", "rounds", "max_rounds", "--max-rounds", "rounds",
    "settled rounds; by default 20",
    "max rounds reached ({limit})",
    lambda state, now: state.rounds,
    automated=False,
)  # fmt: skip
TOKENS = Limit(
    "tokens", "tokens", "max_tokens", "--max-tokens", "tokens",
    "input and output tokens of the run, or since `:new`",
    "token budget reached ({used}/{limit})",
    lambda state, now: state.session_tokens,
)  # fmt: skip
COST = Limit(
    "cost", "cost", "max_cost_usd", "--max-cost", "USD",
    "cost by the dated price table in `akg_tui/core/model_info.py`",
    "cost budget reached (${used:.2f}/${limit:g})",
    lambda state, now: _cost(state),
)  # fmt: skip
WORKED = Limit(
    "hours", "time worked", "max_hours", "--max-hours", "hours",
    "worked time, without pauses and waits",
    "time budget reached ({limit:g} h)",
    lambda state, now: state.worked(now) / 3600,
    automated=False,
)  # fmt: skip
LIMITS = (
    ROUNDS,
    Limit(
        "experiments", "experiments", "max_experiments", "--max-experiments", "number",
        "experiments, as `count` counts them",
        "max experiments reached ({used}/{limit})",
        lambda state, now: experiments_done(state),
    ),
    TOKENS,
    COST,
    WORKED,
    Limit(
        "wall", "time in all", "max_wall_clock", "--max-wall-clock", "seconds",
        "time since the run was created, worked or not",
        "wall clock reached ({limit:g} s)",
        lambda state, now: now - state.started_at,
    ),
    Limit(
        "patience", "without a KEEP", "max_rounds_without_keep", "--max-rounds-without-keep",
        "rounds",
        "rounds since the last KEEP that was not undone",
        "no KEEP in {limit} rounds",
        lambda state, now: rounds_without_keep(state),
        automated=False,
    ),
    Limit(
        "bound", "of memory's bound", "max_bound_share", "--max-bound-share", "share",
        "what the best kernel reaches of the rate of memory, where that bounds it; by default 0.85",
        "bound of memory reached ({used:.0%} of it; the limit is {limit:.0%})",
        lambda state, now: _bound_share(state),
        automated=False,
    ),
)  # fmt: skip
"""The limits in the order in which they give the reason of a stop."""

QUEUE_EXHAUSTED = "queue exhausted, no replan condition met"
"""The last of the reasons: it stands only beside another one."""

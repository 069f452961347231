"""Whether one more model call fits in the budgets of tokens and money, before it is made.

Pure. What a call will take is not known, so room is kept for it: what the largest of the
recent calls took, or the request's own estimate where that is more. Calls in flight add up.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from akg_tui.core.automation import null_if_empty, tokens_reached
from akg_tui.core.prices import UnknownPrice, Usage, cost_usd
from akg_tui.core.state import RunState


def cost_reached(spent: float, limit: float) -> str:
    """The words for money that is spent, in US dollars."""
    return f"cost budget reached (${spent:.2f}/${limit:g})"


def reserve(state: RunState, estimate: Usage) -> Usage:
    """The room to keep for one call: never less than the largest recent call of its model."""
    recent = [used for used in state.recent_calls if used.model == estimate.model]
    return replace(
        estimate,
        input=max([estimate.input, *(used.input for used in recent)]),
        output=max([estimate.output, *(used.output for used in recent)]),
        cache_write=max([estimate.cache_write, *(used.cache_write for used in recent)]),
        cache_read=max([estimate.cache_read, *(used.cache_read for used in recent)]),
        cache_write_short=max(used.cache_write_short for used in (estimate, *recent)),
    )


def no_room(state: RunState, calls: Sequence[Usage]) -> str:
    """Why no further call may begin, or "": `calls` are those in flight and the new one.

    Without any, the question is whether one more call like the recent ones would fit.
    """
    policy = null_if_empty(state.task.policy.automation)
    if policy is None or (policy.max_tokens is None and policy.max_cost_usd is None):
        return ""
    expected = calls or [Usage(used.model) for used in state.recent_calls[-1:]]
    kept = tuple(reserve(state, call) for call in expected)
    most = policy.max_tokens
    tokens = sum(used.prompt + used.output for used in kept)
    if most is not None and state.tokens >= most:
        # Where a call is to begin there may be nobody else to say so: a subagent's caller is
        # asked nothing until it has ended. Without one, what is reached has a reason of its own.
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
        # What was used already is told of by the budget itself.
        return f"cost budget cannot be kept: {error}" if calls else ""
    if spent >= limit:
        return cost_reached(spent, limit) if calls else ""
    if limit < spent + more:
        return (
            f"cost budget has no room for another call (${spent:.2f} used and ${more:.2f} "
            f"reserved of ${limit:g})"
        )
    return ""

"""Tokens, cost and time of the model's calls, by call, round, item and subagent. Pure.

The module folds the journal's events. Every call counts, including a call whose reply was cut off.
The report gives tokens but no cost for a model without a price in the price table.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from akg_tui.core import events as ev
from akg_tui.core.model_info import Usage, add_call, known_cost_usd
from akg_tui.core.phases import Phase


class Call(Struct, frozen=True):
    """One call of the model. `lost` is why no reply came, or "". `item` is "" outside of EDIT.

    `round` is the open round, or the next round when none is open. `source` is the calling
    subagent, "" for the run's own agent.
    """

    seq: int
    round: int
    item: str
    usage: Usage
    source: str
    duration_s: float = 0.0
    lost: str = ""


class Totals(Struct, frozen=True):
    """Sums over the calls of a round, an item, a subagent or the run; `usage` is by model."""

    calls: int = 0
    usage: tuple[Usage, ...] = ()
    duration_s: float = 0.0

    @property
    def prompt_tokens(self) -> int:
        return sum(used.prompt for used in self.usage)

    @property
    def output_tokens(self) -> int:
        return sum(used.output for used in self.usage)

    @property
    def cache_read_share(self) -> float | None:
        """The fraction of the prompt tokens that came from a cache; None without a prompt."""
        return cache_read_share(self.usage)

    @property
    def cost_usd(self) -> float | None:
        """The cost in US dollars; None when a model has no price."""
        return known_cost_usd(self.usage)


class UsageReport(Struct, frozen=True):
    """All calls, oldest first, and their sums. `agents` maps a subagent's id to its kind."""

    calls: tuple[Call, ...]
    total: Totals
    by_round: dict[int, Totals]
    by_item: dict[str, Totals]
    by_subagent: dict[str, Totals]
    agents: dict[str, str]


def usage_of(event: ev.ModelReplied | ev.ReplyLost) -> Usage:
    """Return the tokens of one call, by kind."""
    return Usage(
        event.model,
        input=event.input_tokens,
        output=event.output_tokens,
        cache_write=event.cache_write_tokens - event.cache_write_short_tokens,
        cache_read=event.cache_read_tokens,
        cache_write_short=event.cache_write_short_tokens,
    )


def cache_read_share(usage: Iterable[Usage]) -> float | None:
    """Return the fraction of the prompt tokens that came from a cache; None without a prompt."""
    used = tuple(usage)
    prompt = sum(each.prompt for each in used)
    return sum(each.cache_read for each in used) / prompt if prompt else None


def usage_report(records: Iterable[ev.Record]) -> UsageReport:
    """Return the usage report of `records`, which begin with the journal's first record."""
    known = list(records)
    calls = tuple(_calls(known))
    started = [r.event for r in known if isinstance(r.event, ev.SubagentStarted)]
    agents = {event.subagent: event.agent for event in started}
    by_round: dict[int, Totals] = {}
    by_item: dict[str, Totals] = {}
    by_subagent = {name: Totals() for name in agents}
    total = Totals()
    for call in calls:
        total = _plus(total, call)
        by_round[call.round] = _plus(by_round.get(call.round, Totals()), call)
        if call.item:
            by_item[call.item] = _plus(by_item.get(call.item, Totals()), call)
        if call.source:
            by_subagent[call.source] = _plus(by_subagent.get(call.source, Totals()), call)
    return UsageReport(calls, total, by_round, by_item, by_subagent, agents)


def _calls(records: Iterable[ev.Record]) -> Iterable[Call]:
    settled = 0
    item = ""
    for record in records:
        match record.event:
            case ev.ItemActivated(item=item):
                pass
            case ev.ItemsDropped(items=items) if item in items:
                item = ""
            case ev.Decided(round=settled):
                item = ""
            case ev.PhaseEntered(phase=Phase.BASELINE, previous=Phase.WRITE):
                settled += 1
            case ev.ModelReplied() as event:
                took = event.duration_s
                yield Call(record.seq, settled + 1, item, usage_of(event), event.source, took)
            case ev.ReplyLost(reason=lost, source=source) as event:
                yield Call(record.seq, settled + 1, item, usage_of(event), source, lost=lost)


def _plus(totals: Totals, call: Call) -> Totals:
    usage = add_call(totals.usage, call.usage)
    return Totals(totals.calls + 1, usage, totals.duration_s + call.duration_s)

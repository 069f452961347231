"""Facts about a model and its server: the dated price table, and the server's capabilities.

Pure. A cost budget refuses a model without a price, because a guessed price could break the bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from akg_tui.core.task import Policy

TABLE_VERSION = "2026-10-24"  # date of the last comparison with the published list prices


class UnknownPrice(ValueError):
    """A cost was requested for a model without a price; the message names model and table."""


class Price(Struct, frozen=True):
    """Prices in US dollars per million tokens. `cache_write` is the one-hour rate."""

    input: float
    output: float
    cache_write: float
    cache_read: float

    @property
    def cache_write_short(self) -> float:
        """The five-minute rate: 1.25 times the input rate, by the source of `PRICES`."""
        return 1.25 * self.input


class Usage(Struct, frozen=True):
    """Tokens used with one model. `input` excludes tokens read from or written to a cache.

    `cache_write` counts tokens cached for one hour, `cache_write_short` for five minutes.
    """

    model: str
    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_read: int = 0
    cache_write_short: int = 0

    @property
    def prompt(self) -> int:
        """The sum of all prompt tokens, cached or not."""
        return self.input + self.cache_write + self.cache_write_short + self.cache_read


KINDS = ("input", "output", "cache_write", "cache_write_short", "cache_read")
"""The kinds of tokens: fields of `Usage` (counts) and of `Price` (rates)."""

# Source: the public price list of the models' maker (platform.claude.com, "Pricing").
# Where a model's rate depends on the prompt's length, the table has the higher rate: a
# budget can end a run too early, never too late.
PRICES: dict[str, Price] = {
    "sweep": Price(0.0, 0.0, 0.0, 0.0),
    "claude-fable-5-1": Price(10.0, 50.0, 20.0, 0.25),
    "claude-opus-5-5": Price(4.0, 20.0, 8.0, 0.2),
    "claude-opus-5": Price(5.0, 25.0, 10.0, 0.5),
    "claude-opus-4-7": Price(5.0, 25.0, 10.0, 0.5),
    "claude-opus-4-6": Price(5.0, 25.0, 10.0, 0.5),
    "claude-opus-4-5": Price(5.0, 25.0, 10.0, 0.5),
    "claude-sonnet-5-5": Price(2.0, 10.0, 4.0, 0.1),
    "claude-sonnet-5": Price(2.0, 10.0, 4.0, 0.2),
    "claude-haiku-5-5": Price(0.5, 2.5, 1.0, 0.05),
    "claude-haiku-4-5": Price(1.0, 5.0, 2.0, 0.1),
}


def price_of(model: str) -> Price:
    """Return the price of `model`. Raises `UnknownPrice` unless the table has this exact name."""
    price = PRICES.get(model)
    if price is None:
        raise UnknownPrice(f"no price for {model} in the table of {TABLE_VERSION}")
    return price


def add_call(usage: tuple[Usage, ...], call: Usage) -> tuple[Usage, ...]:
    """Return `usage`, one entry a model, with the tokens of `call` added."""
    for index, used in enumerate(usage):
        if used.model == call.model:
            sums = {kind: getattr(used, kind) + getattr(call, kind) for kind in KINDS}
            return (*usage[:index], Usage(call.model, **sums), *usage[index + 1 :])
    return (*usage, call)


def cost_usd(usage: tuple[Usage, ...]) -> float:
    """Return the cost of all of `usage` in US dollars. Raises `UnknownPrice`."""
    total = 0.0
    for used in usage:
        price = price_of(used.model)
        total += sum(getattr(used, kind) * getattr(price, kind) for kind in KINDS)
    return total / 1_000_000


def known_cost_usd(usage: tuple[Usage, ...]) -> float | None:
    """Return the cost of all of `usage` in US dollars; None when a model has no price."""
    try:
        return cost_usd(usage)
    except UnknownPrice:
        return None


def policy_fault(policy: Policy, model: str) -> str | None:
    """Return why `policy` cannot limit a run of `model` (its cost has no price), or None."""
    if policy.automation is None or policy.automation.max_cost_usd is None:
        return None
    try:
        price_of(model)
    except UnknownPrice as error:
        return f"a cost budget needs a price: {error}; use a token budget instead"
    return None


class Capabilities(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The capabilities that a probe found in a server.

    `tools`: the model calls the offered tools. `streaming`: replies arrive as events and
    end with `message_stop`. `usage`: replies carry token counts. `cache_marks`: the server
    accepts cache marks in the prompt; `cache_counters`: it reports tokens read from the cache.
    `thinking`: it accepts a thinking budget.
    `refused` are fields of a request that it refuses, which are left out or replaced.
    """

    tools: bool = False
    streaming: bool = False
    usage: bool = False
    cache_marks: bool = False
    cache_counters: bool = False
    thinking: bool = False
    diagnostics: bool = False  # of earlier journals
    refused: tuple[str, ...] = ()


# Anthropic's own API, by its documentation; a run spends no probe calls on it.
ANTHROPIC = Capabilities(
    tools=True,
    streaming=True,
    usage=True,
    cache_marks=True,
    cache_counters=True,
    thinking=True,
)

"""What a server that speaks the Messages API can do, as one value. Pure; who asks is elsewhere."""

from __future__ import annotations

from msgspec import Struct


class Capabilities(Struct, frozen=True, kw_only=True):
    """What was found when a server was asked.

    `tools`: it calls the tools it is told of. `streaming`: its replies come as events and
    end with `message_stop`. `usage`: it counts tokens. `cache_marks`: it takes marks on
    the prompt; `cache_counters`: it tells what was read from the cache. `count_tokens`: it
    counts a prompt without a reply. `thinking`: it takes a thinking budget. `diagnostics`:
    it takes the question why its cache was missed.
    """

    tools: bool
    streaming: bool
    usage: bool
    cache_marks: bool
    cache_counters: bool
    count_tokens: bool
    thinking: bool
    diagnostics: bool


# Anthropic's own API, by its documentation; it is not asked at the cost of a run.
ANTHROPIC = Capabilities(
    tools=True,
    streaming=True,
    usage=True,
    cache_marks=True,
    cache_counters=True,
    count_tokens=True,
    thinking=True,
    diagnostics=True,
)

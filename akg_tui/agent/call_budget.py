"""Which model calls may begin: those that fit in the budgets beside all that are in flight.

Holds the calls in flight of one run, in memory: after a crash none is. The rule itself is
`akg_tui.core.stopping.limits`'s, and a refusal is journaled by who was refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from akg_tui.core.model_info import Usage
from akg_tui.core.plan.submission import SEARCHERS
from akg_tui.core.state import RunState
from akg_tui.core.stopping.limits import no_room

CHARACTERS_A_TOKEN = 4


class NoRoom(RuntimeError):
    """The call could break a budget and was not made; the message says which and by what."""


class CallBudget:
    """The calls of one run that were begun and have no reply yet."""

    def __init__(self) -> None:
        self._in_flight: dict[int, Usage] = {}
        self._numbers = itertools.count()

    @contextmanager
    def call(self, state: RunState, estimate: Usage) -> Iterator[Callable[[RunState], None]]:
        """Keep room for one call while it is under way. Raises `NoRoom`.

        Leave it when the reply is journaled: from there on the state counts it. What is given
        raises `NoRoom` too: it is asked before the call is made again, since a reply that was
        lost is paid for, and other calls have come to their ends.
        """
        if full := no_room(state, (*self._in_flight.values(), estimate)):
            raise NoRoom(full)
        number = next(self._numbers)
        self._in_flight[number] = estimate
        try:
            yield self._still_fits
        finally:
            del self._in_flight[number]

    def _still_fits(self, state: RunState) -> None:
        if full := no_room(state, tuple(self._in_flight.values())):
            raise NoRoom(full)


def estimated(model: str, characters: int) -> Usage:
    """What a request of so many characters will take at least. A search takes no tokens."""
    tokens = 0 if model in SEARCHERS else -(-characters // CHARACTERS_A_TOKEN)
    return Usage(model, input=tokens)

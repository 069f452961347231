"""A state taken apart, so that many states of one run share what they have in common. Pure.

The long tuples of a state, such as its attempts, are cut in pieces, and a piece that another
state has too is held once.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.core.state import RunState

LONG = ("items", "attempts", "former", "undone", "rules", "plan_edits", "adopted")
"""The fields that grow with a run. All others have a bound, or few values."""
PIECE = 64

_Cut = tuple[tuple[Any, ...], ...]


class Pieces(Struct, frozen=True):
    """A state without what is long, and that in pieces, in the order of `LONG`."""

    seq: int
    rest: RunState
    long: tuple[_Cut, ...]


_BARE: dict[str, Any] = dict.fromkeys(LONG, ())


def taken_apart(state: RunState, like: Pieces | None) -> Pieces:
    """The pieces of a state; those that `like` has too are the same objects."""
    shared = like.long if like is not None else ((),) * len(LONG)
    long = tuple(_cut(getattr(state, name), cut) for name, cut in zip(LONG, shared, strict=True))
    return Pieces(state.seq, replace(state, **_BARE), long)


def put_together(pieces: Pieces) -> RunState:
    """The state that was taken apart."""
    whole = (tuple(chain.from_iterable(cut)) for cut in pieces.long)
    return replace(pieces.rest, **dict(zip(LONG, whole, strict=True)))


def _cut(values: tuple[Any, ...], like: _Cut) -> _Cut:
    cut = [values[at : at + PIECE] for at in range(0, len(values), PIECE)]
    for place, (piece, other) in enumerate(zip(cut, like, strict=False)):
        # The same objects, as a rule: two tuples of those are compared at once.
        if piece == other:
            cut[place] = other
    return like if len(cut) == len(like) and all(map(_same, cut, like)) else tuple(cut)


def _same(one: object, other: object) -> bool:
    return one is other

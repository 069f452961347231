"""Sequences that hold no item: it is made, or found elsewhere, when it is asked for, as a
screen asks for those in sight.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class OnDemand(Sequence[T]):
    """Nothing is kept: an item that is asked for again is made again."""

    @abstractmethod
    def _made(self, index: int) -> T:
        """The item at a place, which is at least 0 and below the length."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return self._several(range(*index.indices(len(self))))
        count = len(self)
        if not -count <= index < count:
            raise IndexError(index)
        return self._made(index + count if index < 0 else index)

    def _several(self, numbers: range) -> Sequence[T]:
        return [self._made(n) for n in numbers]


class First(OnDemand[T]):
    """The first `count` items of a sequence that has as many, or more as it grows."""

    def __init__(self, items: Sequence[T], count: int) -> None:
        self._items = items
        self._count = count

    def __len__(self) -> int:
        return self._count

    def _made(self, index: int) -> T:
        return self._items[index]

    def _several(self, numbers: range) -> Sequence[T]:
        if numbers.step == 1:  # the sequence may have a quicker way than one by one
            return self._items[numbers.start : max(numbers.start, numbers.stop)]
        return super()._several(numbers)

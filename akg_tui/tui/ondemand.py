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
            return [self._made(n) for n in range(*index.indices(len(self)))]
        count = len(self)
        if not -count <= index < count:
            raise IndexError(index)
        return self._made(index + count if index < 0 else index)


class First(Sequence[T]):
    """The first `count` items of a sequence that has as many, or more as it grows."""

    def __init__(self, items: Sequence[T], count: int) -> None:
        self._items = items
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._count)
            if step == 1:
                return self._items[start : max(start, stop)]
            return [self._items[n] for n in range(start, stop, step)]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._items[index + self._count if index < 0 else index]

"""A sequence that makes its items when they are asked for, as a screen asks for those in sight."""

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

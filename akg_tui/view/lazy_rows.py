"""Sequences whose items are built on access, and the search through rows as one text.

Pure. The caller creates one `SearchText` per version of its rows.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TypeVar, overload

T = TypeVar("T")


class OnDemand(Sequence[T]):
    """A sequence that stores no item: each access builds the item again."""

    @abstractmethod
    def _made(self, index: int) -> T:
        """Build the item at `index`, which is at least 0 and below the length."""

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
    """The first `count` items of a growing sequence with at least `count` items."""

    def __init__(self, items: Sequence[T], count: int) -> None:
        self._items = items
        self._count = count

    def __len__(self) -> int:
        return self._count

    def _made(self, index: int) -> T:
        return self._items[index]

    def _several(self, numbers: range) -> Sequence[T]:
        if numbers.step == 1:  # a slice may be faster than access item by item
            return self._items[numbers.start : max(numbers.start, numbers.stop)]
        return super()._several(numbers)


class SearchText:
    """Rows without line breaks, to be searched. Unless `exact`, small letters match capitals."""

    def __init__(self, rows: Iterable[str], *, exact: bool) -> None:
        joined = "\n".join(rows)
        self._text = joined if exact else joined.lower()
        self._starts = [0, *accumulate(len(row) + 1 for row in self._text.split("\n"))]

    def seek(self, needle: str, start: int, step: int) -> int | None:
        """Return the next row from `start` on that contains `needle`, or None; backwards where
        `step` is negative. The search wraps around.
        """
        text, starts = self._text, self._starts
        start %= len(starts) - 1
        if step > 0:
            found = text.find(needle, starts[start])
            if found < 0:
                found = text.find(needle)
        else:
            found = text.rfind(needle, 0, starts[start + 1] - 1)
            if found < 0:
                found = text.rfind(needle)
        return bisect_right(starts, found) - 1 if found >= 0 else None

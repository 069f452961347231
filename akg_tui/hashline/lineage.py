"""The revisions of a file, and the current number of each line of an older one.

Owns the line maps and their composition. A map is exact or absent, never a guess: a revision that
came from outside has no map from the revision before it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from akg_tui.hashline.document import Document
from akg_tui.hashline.splice import Span, in_order


@dataclass(frozen=True, slots=True)
class LineMap:
    """From the line numbers of one revision to those of a later one.

    Attributes
    ----------
    to : tuple of int
        For each line its number in the later revision, 0 if an edit named it.
    count : int
        Lines of the later revision.
    """

    to: tuple[int, ...]
    count: int

    @classmethod
    def unchanged(cls, count: int) -> LineMap:
        return cls(tuple(range(1, count + 1)), count)

    @classmethod
    def of_spans(cls, spans: Sequence[Span], count: int) -> LineMap:
        """The map of an edit of `count` lines by disjoint `spans`.

        A line that an edit named is lost even where the new text repeats it, because it can't be
        known which of several equal lines it became. Moved lines are followed.
        """
        to = [0] * count
        done = written = 0
        for span in in_order(spans):
            kept = span.start - done
            to[done : span.start] = range(written + 1, written + kept + 1)
            written += kept
            if span.moved_from is not None:
                here = slice(span.moved_from, span.moved_from + len(span.lines))
                to[here] = range(written + 1, written + len(span.lines) + 1)
            written += len(span.lines)
            done = span.stop
            # The lines of this span are lost, unless a move has given them a new place already.
        kept = count - done
        to[done:] = range(written + 1, written + kept + 1)
        return cls(tuple(to), written + kept)

    def then(self, later: LineMap) -> LineMap:
        """The composition of this map and a later one."""
        follow = (0, *later.to)
        return LineMap(tuple(follow[number] for number in self.to), later.count)

    def line(self, number: int) -> int | None:
        """The new number of a line; None if it was edited or removed."""
        return self.to[number - 1] or None

    def run(self, first: int, last: int) -> int | None:
        """The new number of line `first`, if lines `first` to `last` survive and stay adjacent."""
        start = self.to[first - 1]
        whole = self.to[first - 1 : last] == tuple(range(start, start + last - first + 1))
        return start if start and whole else None

    def gap(self, above: int) -> int | None:
        """The new number of lines above a gap, if the lines on its two sides are still adjacent.

        `above` counts the lines over the gap; the edges of the file count as lines.
        """
        upper = self.to[above - 1] if above else 0
        lower = self.to[above] if above < len(self.to) else self.count + 1
        if (above and not upper) or lower != upper + 1:
            return None
        return upper


class Lineage:
    """Every revision that a reader can name, oldest first, and the maps between them."""

    def __init__(self, first: Document) -> None:
        self._documents = [first]
        self._steps: list[LineMap | None] = []

    @property
    def newest(self) -> Document:
        return self._documents[-1]

    def revision(self, number: int) -> Document | None:
        """The revision of that number, None if there never was one."""
        position = number - self._documents[0].revision
        return self._documents[position] if 0 <= position < len(self._documents) else None

    def extend(self, document: Document, step: LineMap | None) -> Document:
        """Make `document` the newest revision; `step` is None if it came from outside."""
        numbered = replace(document, revision=self.newest.revision + 1)
        self._documents.append(numbered)
        self._steps.append(step)
        return numbered

    def to_newest(self, number: int) -> LineMap | None:
        """The map from a known revision to the newest; None if the file changed outside."""
        position = number - self._documents[0].revision
        whole = LineMap.unchanged(len(self._documents[position].lines))
        for step in self._steps[position:]:
            if step is None:
                return None
            whole = whole.then(step)
        return whole

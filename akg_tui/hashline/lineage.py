"""The revisions of a file, and the current number of each line of an older one.

Owns the line maps and their composition. A map is exact or absent, never a guess: a revision made
by another program has no map from the revision before it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from akg_tui.hashline.document import Document
from akg_tui.hashline.splice import Span, in_order


@dataclass(frozen=True, slots=True)
class LineMap:
    """A map from the line numbers of one revision to those of a later revision.

    - `to`: for each line its number in the later revision, 0 if an edit changed or removed it.
    - `count`: number of lines of the later revision.
    """

    to: tuple[int, ...]
    count: int

    @classmethod
    def unchanged(cls, count: int) -> LineMap:
        return cls(tuple(range(1, count + 1)), count)

    @classmethod
    def of_spans(cls, spans: Sequence[Span], count: int) -> LineMap:
        """Return the map of an edit of `count` lines by disjoint `spans`.

        A line in a span is lost even if the new text repeats the line, because the match between
        equal lines is ambiguous. Moved lines get their new numbers.
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
            # The lines of this span are lost, unless a move has already set their new numbers.
        kept = count - done
        to[done:] = range(written + 1, written + kept + 1)
        return cls(tuple(to), written + kept)

    def then(self, later: LineMap) -> LineMap:
        """Return the composition of this map and a later map."""
        follow = (0, *later.to)
        return LineMap(tuple(follow[number] for number in self.to), later.count)

    def line(self, number: int) -> int | None:
        """Return the new number of a line; None if it was edited or removed."""
        return self.to[number - 1] or None

    def run(self, first: int, last: int) -> int | None:
        """Return the new number of line `first` if lines `first` to `last` stay adjacent."""
        start = self.to[first - 1]
        whole = self.to[first - 1 : last] == tuple(range(start, start + last - first + 1))
        return start if start and whole else None

    def gap(self, above: int) -> int | None:
        """Return the new number of lines above a gap, if the lines beside it are still adjacent.

        `above` is the old number of lines above the gap; the edges of the file count as lines.
        """
        upper = self.to[above - 1] if above else 0
        lower = self.to[above] if above < len(self.to) else self.count + 1
        if (above and not upper) or lower != upper + 1:
            return None
        return upper


class Lineage:
    """The revisions that a reader can name, oldest first, and the maps between them."""

    def __init__(self, first: Document) -> None:
        self._documents = [first]
        self._steps: list[LineMap | None] = []

    def copied(self) -> Lineage:
        """Return a lineage that can be extended without a change of this one."""
        other = Lineage(self._documents[0])
        other._documents, other._steps = [*self._documents], [*self._steps]
        return other

    @property
    def newest(self) -> Document:
        return self._documents[-1]

    def revision(self, number: int) -> Document | None:
        """Return the revision of that number; None if there is none."""
        position = number - self._documents[0].revision
        return self._documents[position] if 0 <= position < len(self._documents) else None

    def extend(self, document: Document, step: LineMap | None) -> Document:
        """Append `document` as the newest revision; `step` is None for an outside change."""
        numbered = replace(document, revision=self.newest.revision + 1)
        self._documents.append(numbered)
        self._steps.append(step)
        return numbered

    def to_newest(self, number: int) -> LineMap | None:
        """Return the map from a known revision to the newest; None after an outside change."""
        position = number - self._documents[0].revision
        whole = LineMap.unchanged(len(self._documents[position].lines))
        for step in self._steps[position:]:
            if step is None:
                return None
            whole = whole.then(step)
        return whole

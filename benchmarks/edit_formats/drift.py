"""Ten ways in which a file changes between the view and the edit, on rows with an identity.

Rows are objects, so the oracle can tell a line from equal ones: it never reads a tag, a number or
a line map of the module under test. Pure, with the caller's random generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from akg_tui.hashline.document import Document
from akg_tui.hashline.tags import Tagger


@dataclass(eq=False, slots=True)
class Row:
    """One line of one file; equal only to itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """New rows replace rows `start` to `stop` (half open, from 0)."""

    start: int
    stop: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Rows `start` to `stop` move to the gap that had `to` rows above it."""

    start: int
    stop: int
    to: int


Step: TypeAlias = Change | Move
Drift: TypeAlias = Callable[[Random, Sequence[str], int, int, Sequence[str]], Step]


def after(rows: Sequence[Row], step: Step) -> list[Row]:
    """The rows after the step; rows that it does not name are the same objects."""
    match step:
        case Change(start, stop, texts):
            return [*rows[:start], *map(Row, texts), *rows[stop:]]
        case Move(start, stop, to):
            taken = rows[start:stop]
            if to <= start:
                return [*rows[:to], *taken, *rows[to:start], *rows[stop:]]
            return [*rows[:start], *rows[stop:to], *taken, *rows[to:]]


def as_operation(step: Step, document: Document, tagger: Tagger) -> dict[str, object] | None:
    """The step as an edit operation of the reader; None for a step that changes nothing."""

    def anchor(index: int) -> str:
        return f"{index + 1}{tagger.tag(index + 1, document.lines[index])}"

    match step:
        case Change(start, stop, texts) if start < stop:
            ends = {"from": anchor(start), "to": anchor(stop - 1)}
            if texts:
                return {"op": "replace", **ends, "lines": list(texts)}
            return {"op": "delete", **ends}
        case Change(start, _, texts):
            place = {"after": anchor(start - 1)} if start else {"at": "head"}
            return {"op": "insert", **place, "lines": list(texts)} if texts else None
        case Move(start, stop, to):
            if start <= to <= stop:
                return None
            place = {"after": anchor(to - 1)} if to else {"before": anchor(0)}
            return {"op": "move", "from": anchor(start), "to": anchor(stop - 1), **place}


def expected_lines(
    rows: Sequence[Row], target: Sequence[Row], new: Sequence[str]
) -> tuple[str, ...] | None:
    """The text that the edit of `target` should give; None if its rows are no longer adjacent."""
    first = next((i for i, row in enumerate(rows) if row is target[0]), None)
    if first is None:
        return None
    here = rows[first : first + len(target)]
    if len(here) < len(target) or any(a is not b for a, b in zip(here, target, strict=True)):
        return None
    texts = [row.text for row in rows]
    return (*texts[:first], *new, *texts[first + len(target) :])


def _insert_above(
    rng: Random, texts: Sequence[str], start: int, stop: int, other: Sequence[str]
) -> Step:
    at = rng.randint(0, start)
    return Change(at, at, tuple(rng.choices(other, k=rng.randint(1, 3))))


def _delete_above(
    rng: Random, texts: Sequence[str], start: int, stop: int, other: Sequence[str]
) -> Step:
    if start == 0:
        return _insert_above(rng, texts, start, stop, other)
    at = rng.randrange(start)
    return Change(at, min(start, at + rng.randint(1, 3)), ())


def _twin_above(
    rng: Random, texts: Sequence[str], start: int, stop: int, other: Sequence[str]
) -> Step:
    """The block around the target, pasted a second time above itself."""
    first = max(0, start - rng.randint(0, 4))
    last = min(len(texts), stop + rng.randint(0, 4))
    return Change(first, first, tuple(texts[first:last]))


def _target_edited(
    rng: Random, texts: Sequence[str], start: int, stop: int, other: Sequence[str]
) -> Step:
    at = rng.choice((start, stop - 1))
    return Change(at, at + 1, (_altered(texts[at]),))


def _altered(text: str) -> str:
    """A changed line: a name in it is longer, or a comment follows it."""
    for word in ("stride", "rows", "sum", "offs", "idx", "n"):
        if word in text:
            return text.replace(word, f"{word}_2", 1)
    return f"{text} /**/"


def _target_reindented(
    rng: Random, texts: Sequence[str], start: int, stop: int, other: Sequence[str]
) -> Step:
    return Change(start, stop, tuple(f"    {text}" for text in texts[start:stop]))


def _interior_edited(
    rng: Random, texts: Sequence[str], start: int, stop: int, other: Sequence[str]
) -> Step:
    """Between the first and the last line of the target, where there is anything."""
    at = rng.randrange(start + 1, stop - 1) if stop - start > 2 else start
    return Change(at, at + 1, (_altered(texts[at]),))


def _target_deleted(
    rng: Random, texts: Sequence[str], start: int, stop: int, other: Sequence[str]
) -> Step:
    return Change(start, stop, ())


def _target_moved(
    rng: Random, texts: Sequence[str], start: int, stop: int, other: Sequence[str]
) -> Step:
    places = [to for to in range(len(texts) + 1) if not start <= to <= stop]
    return Move(start, stop, rng.choice(places)) if places else Change(0, 0, ("moved",))


def _rewritten(
    rng: Random, texts: Sequence[str], start: int, stop: int, other: Sequence[str]
) -> Step:
    return Change(0, len(texts), tuple(other))


def _edited_below(
    rng: Random, texts: Sequence[str], start: int, stop: int, other: Sequence[str]
) -> Step:
    at = rng.randint(stop, len(texts))
    return Change(at, min(len(texts), at + rng.randint(0, 2)), tuple(rng.choices(other, k=2)))


DRIFTS: Final[dict[str, Drift]] = {
    "lines inserted above": _insert_above,
    "lines deleted above": _delete_above,
    "twin pasted above": _twin_above,
    "target edited": _target_edited,
    "target re-indented": _target_reindented,
    "range interior edited": _interior_edited,
    "target deleted": _target_deleted,
    "target moved": _target_moved,
    "file rewritten": _rewritten,
    "edited below": _edited_below,
}

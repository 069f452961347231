"""Which plan item wrote each line of a kernel, and what that item gained. Pure.

Computed from the kernel texts of the attempts that were kept, one after the other: a line
belongs to the first version that had it. Holds no state; who asks keeps what it was told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from akg_tui.core.machine import Verdict
from akg_tui.core.state import RunState
from akg_tui.tui.compare import Kind, compare


@dataclass(frozen=True, slots=True)
class Version:
    """A kernel in the line from the seed to the one shown.

    `ratio` is what its item gained over the version before; None for the seed, and for a
    candidate that is not measured yet.
    """

    blob: str
    item: str
    ratio: float | None


def lineage(state: RunState, blob: str) -> tuple[Version, ...]:
    """The seed, every version that was kept after it, and last `blob` where it is not one."""
    versions = [Version(state.seed_blob, "", None)]
    for attempt in state.attempts:
        kept = attempt.verdict is Verdict.KEEP and attempt.number not in state.undone
        if attempt.number and kept:
            gained = attempt.measurement.ratio
            versions.append(Version(attempt.blob, attempt.item, gained.ratio if gained else None))
    blobs = [version.blob for version in versions]
    if blob in blobs:
        # The last that has this text: what came after it is not in it.
        return tuple(versions[: len(blobs) - blobs[::-1].index(blob)])
    measured = state.measured.ratio if state.measured else None
    versions.append(Version(blob, state.active or "", measured.ratio if measured else None))
    return tuple(versions)


def carry(
    owners: Sequence[int], old: Sequence[str], new: Sequence[str], newcomer: int
) -> tuple[int, ...]:
    """Who wrote each line of `new`, given that of `old`; the newcomer where it was not there."""
    carried: list[int] = []
    for run in compare(old, new).runs:
        if run.kind is Kind.SAME:
            carried += owners[run.old - 1 : run.old - 1 + run.rows]
        elif run.kind is Kind.ADDED:
            carried += [newcomer] * run.rows
    return tuple(carried)


def blame(versions: Sequence[Version], lines_of: Callable[[str], Sequence[str]]) -> tuple[int, ...]:
    """For each line of the last version, the index of the version that wrote it.

    Raises what `lines_of` raises for a blob that cannot be read.
    """
    lines = lines_of(versions[0].blob)
    owners: tuple[int, ...] = (0,) * len(lines)
    for number, version in enumerate(versions[1:], 1):
        following = lines_of(version.blob)
        owners = carry(owners, lines, following, number)
        lines = following
    return owners

"""What of the memory concerns a new run: few lines, each with its source, the nearest runs first.

Pure but for `recall`, which reads the memory's folder. A direction counts for a run of the same
DSL and backend and the same class of operator; a kernel only for the same reference.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from akg_tui.core.events import MemoryRecalled
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.kernel.knobs import read_setting
from akg_tui.core.plan.lesson import Lesson, RememberedKernel
from akg_tui.core.plan.submission import folded
from akg_tui.core.state import RunState
from akg_tui.memory.lessons import BestKernel, Direction, RunMemory, machine_of, op_class
from akg_tui.memory.shelf import Shelf

KEPT, SETTINGS, FAILED, DISCARDED = 5, 4, 3, 2
"""The most directions that are recalled: kept ones by their gain, settings of knobs by their speed
over the seed, failed ones and discarded ones."""
KERNELS = 2
MAX_SKIPPED = 5
MAX_PAGES = 20


class _Near(Struct, frozen=True):
    """A run that concerns a new one; a lower `distance` is nearer."""

    memory: RunMemory
    distance: int
    elsewhere: str


def recall(state: RunState, shelf: Shelf) -> tuple[MemoryRecalled, tuple[KernelFiles, ...]] | None:
    """Return what is recalled for a run, with its kernels; None if there is nothing.

    The kernels' paths are those of `notes/` in the run; the caller writes the files. A kernel in
    several files has a folder; it is recalled by a run with the same files alone.
    """
    memories, faults = shelf.read()
    pages, bad = shelf.pages()
    target = state.task.target
    words = op_class(state.task.op)
    fitting = [page for page in pages if page.fits(target.dsl, target.backend)]
    # Those of the operator first, which the bound on their number must not leave out.
    fitting.sort(key=lambda page: (words.isdisjoint(page.ops), page.title))
    titles = [f"{page.cited}: {page.title}" for page in fitting[:MAX_PAGES]]
    near = _near(state, memories)
    files = state.task.files
    found = _kernels(near, files.names)
    recalled = MemoryRecalled(
        lessons=_lessons(near),
        kernels=tuple(
            RememberedKernel(
                run=each.memory.facts.run,
                attempt=kernel.attempt,
                path=f"notes/remembered-{number}" + ("" if kernel.files else ".py"),
                sha256=kernel.sha256,
                over_seed=kernel.over_seed,
                versions=each.memory.facts.versions,
                elsewhere=each.elsewhere,
            )
            for number, (each, kernel) in enumerate(found, 1)
        ),
        pages=tuple(titles),
        skipped=tuple([*faults, *bad][:MAX_SKIPPED]),
    )
    if recalled == MemoryRecalled():
        return None
    return recalled, tuple(kernel.texts(files.kernel) for _, kernel in found)


def _near(state: RunState, memories: Iterable[RunMemory]) -> list[_Near]:
    task, machine, words = state.task, machine_of(state), op_class(state.task.op)
    found: list[_Near] = []
    for memory in memories:
        facts = memory.facts
        same_task = facts.reference == state.reference_sha256
        if (facts.dsl, facts.backend) != (task.target.dsl, task.target.backend):
            continue
        if not same_task and (not words or op_class(facts.op) != words):
            continue
        here = bool(machine) and facts.machine == machine
        elsewhere = "" if here else facts.machine or "an unknown machine"
        found.append(_Near(memory, 2 * (not same_task) + (not here), elsewhere))
    return sorted(found, key=lambda each: each.distance)


def _lessons(near: Iterable[_Near]) -> tuple[Lesson, ...]:
    """Return the directions to tell, each once: of the nearest run that had it."""
    ranked: list[tuple[int, Direction, Lesson]] = []
    seen: set[str] = set()
    for each in near:
        for found in reversed(each.memory.directions):
            if (key := folded(found.text)) in seen:
                continue
            seen.add(key)
            lesson = each.memory.lesson(found, each.elsewhere)
            ranked.append((each.distance, found, lesson))

    def chosen(most: int, states: tuple[str, ...], *, settings: bool = False) -> list[Lesson]:
        fitting = [
            (distance, -((found.over_seed if settings else _low(found)) or 0.0), at)
            for at, (distance, found, _) in enumerate(ranked)
            if found.state in states and not (settings and not read_setting(found.text))
        ]
        return [ranked[at][2] for _, _, at in sorted(fitting)[:most]]

    told = [
        *chosen(KEPT, ("KEPT",)),
        *chosen(SETTINGS, ("KEPT", "DISCARDED"), settings=True),
        *chosen(FAILED, ("FAILED", "UNDONE")),
        *chosen(DISCARDED, ("DISCARDED",)),
    ]
    return tuple(dict.fromkeys(told))


def _low(found: Direction) -> float | None:
    return found.gain.low if found.gain else None


def _kernels(near: Iterable[_Near], files: tuple[str, ...]) -> list[tuple[_Near, BestKernel]]:
    """Return the best kernels of runs of the same reference, each text once."""
    found = [(each, each.memory.kernel) for each in near if each.distance < 2]
    known = [
        (each, kernel)
        for each, kernel in found
        if kernel is not None and tuple(kernel.files) in ((), files)
    ]
    known.sort(key=lambda pair: (pair[0].distance, -pair[1].over_seed.low))
    unique: dict[str, tuple[_Near, BestKernel]] = {}
    for each, kernel in known:
        unique.setdefault(kernel.sha256, (each, kernel))
    return list(unique.values())[:KERNELS]

"""What one run teaches, and its form on disk: JSON lines, the run first.

Pure. Text of another process is untrusted: `decode` checks every value and its bounds.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import Interval
from akg_tui.core.phases import ItemState
from akg_tui.core.plan.lesson import Lesson, LessonState
from akg_tui.core.plan.submission import MAX_ITEM_TEXT
from akg_tui.core.sanitize import strip_to_line
from akg_tui.core.state import Item, RunState
from akg_tui.core.summary import best_of

MAX_OF_A_STATE = 150  # the newest directions of each state
MAX_REASON = 200
MAX_KERNEL = 256 << 10
MOST = 1e6  # of a ratio

_MACHINE = ("gpu", "cpu", "cpus", "caches", "quota")
_VERSIONS = ("torch", "compiler", "cuda", "triton")

_STATES: dict[ItemState, LessonState] = {
    ItemState.KEPT: "KEPT",
    ItemState.DISCARDED: "DISCARDED",
    ItemState.FAILED: "FAILED",
}

Name = Annotated[str, Meta(pattern=r"^[\w.-]{1,128}\Z")]
Short = Annotated[str, Meta(max_length=512)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Count = Annotated[int, Meta(ge=0, le=1 << 40)]
Ratio = Annotated[float, Meta(gt=0, le=MOST)]
Text = Annotated[str, Meta(min_length=1, max_length=MAX_ITEM_TEXT)]
Reason = Annotated[str, Meta(max_length=MAX_REASON)]


class BadMemory(ValueError):
    """A file that is no memory of a run; the message names the line and the fault."""


class RunFacts(Struct, frozen=True, tag="run", forbid_unknown_fields=True, omit_defaults=True):
    """The run: what it tuned, where, and how far it was when it was learned.

    `identity` tells runs of one name apart. `events` is the length of its journal, `reference`
    the digest of the reference, and `machine` names hardware and threads ("" if unknown).
    `edited`: a person has changed the memory, and no later end of the run replaces it.
    """

    form: Literal[1]
    run: Name
    identity: Name
    op: Name
    dsl: Name
    backend: Name
    machine: Short
    versions: Short
    reference: Digest
    agent: Short
    events: Count
    rounds: Count
    at: float
    edited: bool = False

    @property
    def rank(self) -> tuple[bool, int]:
        """Of two memories of one run the one with the higher rank counts."""
        return self.edited, self.events


class Direction(Struct, frozen=True, tag="direction", forbid_unknown_fields=True):
    """A measured direction, with the fields of `akg_tui.core.plan.lesson.Lesson`."""

    attempt: Count
    state: LessonState
    text: Text
    reason: Reason = ""
    gain: Interval | None = None
    over_seed: Ratio | None = None


class BestKernel(Struct, frozen=True, tag="kernel", forbid_unknown_fields=True, omit_defaults=True):
    """The best kernel; `measured`: its ratio over the seed was measured anew at the run's end.

    A kernel of one file is its `text`, one of several is its `files` by name.
    """

    attempt: Count
    sha256: Digest
    over_seed: Interval
    measured: bool
    text: Annotated[str, Meta(max_length=MAX_KERNEL)] = ""
    files: dict[str, str] = {}

    def texts(self, name: str) -> KernelFiles:
        """Return the files; `name` is that of a single one."""
        return KernelFiles(self.files or {name: self.text})


class RunMemory(Struct, frozen=True):
    """All that is kept of one run."""

    facts: RunFacts
    directions: tuple[Direction, ...] = ()
    kernel: BestKernel | None = None

    def lesson(self, found: Direction, elsewhere: str) -> Lesson:
        """Return a direction with its source; `elsewhere` as in `Lesson`."""
        fields = {name: getattr(found, name) for name in found.__struct_fields__}
        return Lesson(run=self.facts.run, elsewhere=elsewhere, **fields)


def op_class(op: str) -> frozenset[str]:
    """Return the words of an operator's name without numbers: `23_Softmax` is `softmax_4096`."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", op)
    words = re.split(r"[\W_]+", spaced)
    return frozenset(word.lower() for word in words if word and not any(map(str.isdigit, word)))


def machine_of(state: RunState) -> str:
    """Return a name for the machine and the threads of a run, from its baseline; "" if unknown."""
    measured = state.baseline
    if measured is None or not measured.environment:
        return ""
    known = [f"{n} {measured.environment[n]}" for n in _MACHINE if n in measured.environment]
    return strip_to_line("; ".join([*known, f"threads {measured.threads}"]), 400)


def learned(state: RunState, kernel: Callable[[str], KernelFiles]) -> RunMemory | None:
    """Return what a run teaches so far; None if nothing was measured but its seed.

    An estimate run measures nothing. `kernel` returns the kernel of an object id.
    """
    if state.task.estimate:
        return None
    directions = [found for item in state.items if (found := _direction(state, item))]
    if not directions:
        return None
    newest: list[Direction] = []
    counts: dict[str, int] = {}
    for found in reversed(directions):
        counts[found.state] = counts.get(found.state, 0) + 1
        if counts[found.state] <= MAX_OF_A_STATE:
            newest.append(found)
    target, seed = state.task.target, state.seed_blob
    identity = hashlib.sha256(f"{state.run_id}\0{state.started_at!r}\0{seed}".encode()).hexdigest()
    versions = state.baseline.environment if state.baseline else {}
    facts = RunFacts(
        form=1,
        run=re.sub(r"[^\w.-]", "_", state.run_id)[:128],
        identity=identity[:12],
        op=state.task.op,
        dsl=target.dsl,
        backend=target.backend,
        machine=machine_of(state),
        versions=strip_to_line(
            ", ".join(f"{n} {versions[n]}" for n in _VERSIONS if n in versions), 300
        ),
        reference=state.reference_sha256,
        agent=strip_to_line(state.agent, 128),
        events=state.seq,
        rounds=state.rounds,
        at=state.started_at,
    )
    return RunMemory(facts, tuple(reversed(newest)), _best(state, kernel))


def _direction(state: RunState, item: Item) -> Direction | None:
    if item.attempt is None or item.state not in _STATES:
        return None
    attempt = state.attempts[item.attempt]
    failed = item.undone or item.state is ItemState.FAILED
    speed = None if failed else attempt.over_seed
    gain = item.ratio if item.ratio is not None and _is_sound(item.ratio) else None
    text = strip_to_line(item.text, MAX_ITEM_TEXT)
    if not text:
        return None
    return Direction(
        attempt=item.attempt,
        state="UNDONE" if item.undone else _STATES[item.state],
        text=text,
        reason=strip_to_line(item.reason, MAX_REASON),
        gain=gain,
        over_seed=speed if speed is not None and 0 < speed <= MOST else None,
    )


def _best(state: RunState, kernel: Callable[[str], KernelFiles]) -> BestKernel | None:
    best, ratios = state.best, best_of(state)
    if best is None or ratios is None or not best.attempt or not _is_sound(ratios.over_seed):
        return None
    files = kernel(best.blob)
    if files.size > MAX_KERNEL:
        return None
    sha256, several = files.sha256, len(files.texts) > 1
    text, texts = ("", files.texts) if several else (files.text, {})
    return BestKernel(best.attempt, sha256, ratios.over_seed, ratios.fresh, text, texts)


def _is_sound(ratio: Interval) -> bool:
    values = (ratio.low, ratio.ratio, ratio.high)
    return all(math.isfinite(v) and 0 < v <= MOST for v in values) and (
        ratio.low <= ratio.ratio <= ratio.high
    )


def encode(memory: RunMemory) -> bytes:
    """Return the lines of a file."""
    rows: list[object] = [memory.facts, *memory.directions]
    rows += [memory.kernel] if memory.kernel else []
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


_ROW = msgspec.json.Decoder(RunFacts | Direction | BestKernel)


def decode(data: bytes) -> RunMemory:
    """Return the memory in the lines of a file. Raises `BadMemory`."""
    rows = [_row(number, line) for number, line in enumerate(data.splitlines(), 1)]
    facts = [row for row in rows if isinstance(row, RunFacts)]
    directions = tuple(row for row in rows if isinstance(row, Direction))
    kernels = [row for row in rows if isinstance(row, BestKernel)]
    if len(facts) != 1 or rows[0] is not facts[0] or len(kernels) > 1:
        raise BadMemory("1: expected one run, first, and at most one kernel")
    kernel = kernels[0] if kernels else None
    if kernel is not None and kernel.texts("").sha256 != kernel.sha256:
        raise BadMemory(f"{len(rows)}: sha256: is not that of the kernel's text")
    return RunMemory(facts[0], directions, kernel)


def _row(number: int, line: bytes) -> RunFacts | Direction | BestKernel:
    try:
        row: RunFacts | Direction | BestKernel = _ROW.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadMemory(f"{number}: {error}") from None
    ratios = [getattr(row, name, None) for name in ("gain", "over_seed")]
    if any(isinstance(ratio, Interval) and not _is_sound(ratio) for ratio in ratios):
        raise BadMemory(f"{number}: a ratio is not one")
    return row

"""Results of stale edits in each format, after ten kinds of change (matrix) and at random (fuzz).

The rows' identity decides every trial. An accepted edit whose lines are no longer there, or whose
result differs from the intended text, is silently wrong.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from akg_tui.hashline.document import Document
from akg_tui.hashline.file_reader import Refusal
from akg_tui.hashline.ops import parse_ops
from akg_tui.hashline.rejection import EditRejected
from akg_tui.hashline.session import EditRequest, EditSession
from akg_tui.hashline.tags import ALPHABET, Tagger
from benchmarks.edit_formats.corpus import generated
from benchmarks.edit_formats.drift import DRIFTS, Row, Step, after, as_operation, expected_lines
from benchmarks.edit_formats.mutations import Mutation, mutate, mutations
from benchmarks.edit_formats.whole_file import BY_LINES, open_any
from benchmarks.edit_formats.writers import CALLS

OWN: Final = "hashline, own edits"
_CORPUS_FILES = 60


@dataclass(frozen=True, slots=True)
class Task:
    """A file with a fault, and the repair: `new` replaces rows `start` to `stop`."""

    kind: str
    document: Document
    start: int
    stop: int
    new: tuple[str, ...]


@dataclass(slots=True)
class Count:
    """Trials of one format under one drift.

    `valid` edits are those whose lines all survive unchanged and together; `recovered`
    were among them and applied as meant; `refused` is over all trials.
    """

    trials: int = 0
    wrong: int = 0
    refused: int = 0
    valid: int = 0
    recovered: int = 0

    def add(self, made: Sequence[str] | None, meant: Sequence[str] | None) -> None:
        """One trial: the lines it led to (None: refused), the lines that were meant."""
        self.trials += 1
        self.valid += meant is not None
        self.refused += made is None
        self.recovered += made is not None and made == meant
        self.wrong += made is not None and made != meant


class Tasks:
    """Repairs of generated kernel files, drawn one by one."""

    def __init__(self, rng: Random, samples: Sequence[Document] = ()) -> None:
        self._rng = rng
        known = [(file, mutations(file)) for file in (*generated(rng, _CORPUS_FILES), *samples)]
        self._files: list[tuple[Document, list[Mutation]]] = [each for each in known if each[1]]

    def draw(self) -> Task:
        """A fault put into a file at random; its repair has at least one old line."""
        while True:
            original, known = self._rng.choice(self._files)
            kind, broken = mutate(original, self._rng, known)
            task = repair(kind, broken, original)
            if task is not None:
                return task

    def other_lines(self) -> Sequence[str]:
        """Lines of any file."""
        return self._rng.choice(self._files)[0].lines


def repair(kind: str, broken: Document, original: Document) -> Task | None:
    """The smallest replacement that turns `broken` into `original`; None if it removes no line."""
    old, new = broken.lines, original.lines
    most = min(len(old), len(new))
    top = next((i for i in range(most) if old[i] != new[i]), most)
    bottom = next((i for i in range(most - top) if old[-1 - i] != new[-1 - i]), most - top)
    start, stop = top, len(old) - bottom
    if start == stop and top:
        top, start = top - 1, start - 1
    if start == stop:
        return None
    return Task(kind, broken, start, stop, tuple(new[top : len(new) - bottom]))


def matrix(tasks: Tasks, rng: Random, trials: int) -> dict[str, dict[str, Count]]:
    """Counts by format, then by drift; `trials` of each."""
    counts = {form: {drift: Count() for drift in DRIFTS} for form in (*BY_LINES, OWN)}
    tagger = Tagger(b"benchmark")
    for drift, step_of in DRIFTS.items():
        for _ in range(trials):
            task = tasks.draw()
            if drift == "range interior edited":
                task = _wider(task)
            texts = task.document.lines
            step = step_of(rng, texts, task.start, task.stop, tasks.other_lines())
            rows = list(map(Row, texts))
            now = after(rows, step)
            current = _document([row.text for row in now], task.document)
            # A line may move past its twins and leave the file, byte for byte, as it was.
            seen = rows if current.data == task.document.data else now
            meant = expected_lines(seen, rows[task.start : task.stop], task.new)
            for form in BY_LINES:
                counts[form][drift].add(_attempt(form, task, current, tagger), meant)
            counts[OWN][drift].add(_attempt_own(task, step, tagger), meant)
    return counts


def _wider(task: Task) -> Task:
    """The same repair as a replacement of two lines more on either side."""
    lines = task.document.lines
    start, stop = max(0, task.start - 2), min(len(lines), task.stop + 2)
    new = (*lines[start : task.start], *task.new, *lines[task.stop : stop])
    return dataclasses.replace(task, start=start, stop=stop, new=new)


def _document(lines: Sequence[str], like: Document) -> Document:
    return Document.from_text("".join(f"{line}\n" for line in lines), path=like.path)


def _attempt(form: str, task: Task, current: Document, tagger: Tagger) -> Sequence[str] | None:
    reader = open_any(form, tagger)
    reader.render(task.document)
    call = CALLS[form](task.document, task.start, task.stop, task.new, tagger)
    if form == "hashline":
        call["allow_broken"] = True  # the rivals have no parse gate either
    made = reader.apply(current, call)
    return None if isinstance(made, Refusal) else made.lines


def _attempt_own(task: Task, step: Step, tagger: Tagger) -> Sequence[str] | None:
    session = EditSession(task.document, tagger)
    session.assume_shown()
    _make_own(session, step, tagger)
    call = CALLS["hashline"](task.document, task.start, task.stop, task.new, tagger)
    request = EditRequest(parse_ops(call["ops"]), task.document.revision, allow_broken=True)
    try:
        return session.check(request).result.document.lines
    except EditRejected:
        return None


def _make_own(session: EditSession, step: Step, tagger: Tagger) -> bool:
    """Make the step as an edit of the reader; False if it would change nothing."""
    operation = as_operation(step, session.document, tagger)
    if operation is None:
        return False
    session.assume_shown()
    ops = parse_ops([operation])
    request = EditRequest(ops, session.document.revision, allow_dup=True, allow_broken=True)
    try:
        session.accept(session.check(request))
    except EditRejected as error:
        if {problem.reason for problem in error.problems} == {"no-op"}:
            return False
        raise
    return True


class OneTag(Tagger):
    """One tag for all lines, so that only the lineage can protect a line."""

    def tag(self, line_number: int, text: str) -> str:
        return ALPHABET[0]


@dataclass(slots=True)
class Fuzz:
    """Counts of stale edits by where the change came from."""

    outside: Count = dataclasses.field(default_factory=Count)
    own: Count = dataclasses.field(default_factory=Count)
    own_without_revision: Count = dataclasses.field(default_factory=Count)


def fuzz(tasks: Tasks, rng: Random, trials: int, tagger: Tagger) -> Fuzz:
    """Stale hashline edits: replacements and inserts, after one to three changes.

    Half of the files are changed from outside, half by the reader; of those, one edit in
    four does not name its revision.
    """
    found = Fuzz()
    drifts = list(DRIFTS.values())
    for trial in range(trials):
        document, start, stop = _slice(tasks, rng)
        rows = now = list(map(Row, document.lines))
        session = EditSession(document, tagger)
        session.assume_shown()
        outside = trial % 2 == 0
        for _ in range(rng.randint(1, 3)):
            low = min(start, len(now) - 1)
            high = max(low + 1, min(stop, len(now)))
            texts = [row.text for row in now]
            if not texts:
                break
            step = rng.choice(drifts)(rng, texts, low, high, tasks.other_lines()[:30])
            if outside or _make_own(session, step, tagger):
                now = after(now, step)
        aim = _aimed(rng, document, start, stop, tagger)
        unnamed = not outside and trial % 8 == 1
        request = EditRequest(
            parse_ops([aim.op]),
            None if unnamed else document.revision,
            allow_dup=True,
            allow_broken=True,
        )
        current = _document([row.text for row in now], document)
        count = found.outside if outside else found.own
        count = found.own_without_revision if unnamed else count
        made: Sequence[str] | None = None
        with contextlib.suppress(EditRejected):
            made = session.check(request, current=current).result.document.lines
        # Changes from outside that undid each other: the file reads as it did when shown.
        undone = outside and current.data == document.data
        count.add(made, aim.meant(rows, rows if undone else now))
    return found


def _slice(tasks: Tasks, rng: Random) -> tuple[Document, int, int]:
    """Up to 40 lines around a repair, and its position; short files make equal lines likely."""
    task = tasks.draw()
    first = max(0, task.start - rng.randint(0, 15))
    lines = task.document.lines[first : task.stop + rng.randint(0, 15)]
    start = task.start - first
    stop = min(task.stop - first, start + 6)
    text = "".join(f"{line}\n" for line in lines)
    return Document.from_text(text, path="kernel.txt"), start, stop


@dataclass(frozen=True, slots=True)
class _Aim:
    """An operation on rows `start` to `stop`, and the lines that shall stand there."""

    op: dict[str, object]
    start: int
    stop: int
    lines: tuple[str, ...]

    def meant(self, rows: Sequence[Row], now: Sequence[Row]) -> tuple[str, ...] | None:
        target = rows[self.start : self.stop]
        at_end = self.op["op"] == "insert" and self.start + 1 == len(rows)
        if at_end and (not now or now[-1] is not target[-1]):
            return None  # an insert at the end of the file is still one only there
        return expected_lines(now, target, self.lines)


def _aimed(rng: Random, document: Document, start: int, stop: int, tagger: Tagger) -> _Aim:
    """A replacement of the target, or an insert below its first line."""
    lines = document.lines
    first = f"{start + 1}{tagger.tag(start + 1, lines[start])}"
    new = "the new line"
    if rng.random() < 0.7:
        last = f"{stop}{tagger.tag(stop, lines[stop - 1])}"
        replacement: dict[str, object] = {"op": "replace", "from": first, "to": last}
        return _Aim({**replacement, "lines": [new]}, start, stop, (new,))
    pair = lines[start : start + 2]
    return _Aim(
        {"op": "insert", "after": first, "lines": [new]},
        start,
        start + len(pair),
        (pair[0], new, *pair[1:]),
    )

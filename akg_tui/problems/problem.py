"""A problem as its reader found it, and the README.md that tells where a task comes from."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from akg_tui.core.sanitize import one_line
from akg_tui.core.task import Case
from akg_tui.store.filesystem import is_file
from akg_tui.store.task_folder import SIZE_LIMIT

LICENCE_LINES = 40
NOT_TAKEN_OVER = (
    "its own check of results is not taken over: the judge compares with the reference element by "
    "element, so of results that are not unique (signs, ties, samples) only the reference's pass"
)
PARENTS = 6

_LICENCE = re.compile(r"SPDX-License-Identifier|Licensed under|Copyright|\(c\) \d{4}", re.I)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem of a public task set, with the reference that it becomes.

    `filename` names the reference in messages. `verbatim`: the reference is the file at `origin`,
    byte for byte. `kept_out` are statements about what a task here can't hold, `changed` about
    what the reader changed. `kernel` is a first kernel that came with the problem, in the file
    `kernel_name`, and `beside` are the names and texts of its other files.
    """

    format: str
    origin: Path
    op: str
    reference: str
    filename: str
    verbatim: bool = False
    kept_out: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    sizes: tuple[tuple[str, int | float], ...] = ()
    """Sizes that the problem states for constants of its reference."""
    cases: tuple[Case, ...] = ()
    """Sizes that differ from case to case, if the problem lists several cases."""
    tolerance: float | None = None
    absolute: float | None = None
    """What the problem tolerates of a value (`tolerance`), and of any value beside that."""
    check: str = ""
    """The problem's own check of results, as `check` of [correctness]."""
    min_gain: float | None = None
    max_rounds: int | None = None
    dsl: str = ""
    arch: str = ""
    kernel: str | None = None
    kernel_name: str = "kernel.py"
    beside: tuple[tuple[str, str], ...] = ()

    @property
    def what(self) -> str:
        """The problem in a few words."""
        return f"{self.origin.name} ({self.format})"


def readme(problem: Problem, decisions: list[str]) -> str:
    """Return the README.md of a task folder: origin, licence, and what is different."""
    origin = problem.origin
    lines = [f"# {problem.op}", "", f"- Format: {problem.format}", f"- Origin: `{origin}`"]
    if is_file(origin):
        digest = hashlib.sha256(origin.read_bytes()).hexdigest()
        lines.append(f"- SHA-256 of the origin: `{digest}`")
    lines.append(f"- Licence: {licence(origin) or 'none found beside the origin'}")
    copied = "the origin, byte for byte" if problem.verbatim else "made from the origin"
    lines.append(f"- `reference.py`: {copied}")
    parts = (
        ("Decisions", decisions),
        ("Changed", problem.changed),
        ("Not carried over", problem.kept_out),
    )
    for title, told in parts:
        if told:
            lines += ["", f"## {title}", "", *(f"- {one_line(each, 400)}" for each in told)]
    return "\n".join(lines) + "\n"


def licence(origin: Path) -> str:
    """Return a line about the licence: of the file itself, or of a LICENSE file above it."""
    if is_file(origin):
        head = _start(origin).splitlines()[:LICENCE_LINES]
        for number, line in enumerate(head, 1):
            if _LICENCE.search(line):
                return f"{one_line(line.strip('#/* '), 200)} (line {number} of the origin)"
    folder = origin.absolute() if origin.is_dir() else origin.absolute().parent
    for place in [folder, *folder.parents][: PARENTS + 1]:
        for path in sorted(place.glob("LICEN[CS]E*")):
            if is_file(path):
                first = next((line for line in _start(path).splitlines() if line.strip()), "")
                return f"{one_line(first, 200)} (`{path}`)"
        if (place / ".git").exists():
            break
    return ""


def _start(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(SIZE_LIMIT).decode("utf-8", "replace")

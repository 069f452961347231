"""What must hold of a task before a model sees it: the file parses, and its repair is possible.

The true edit, as a perfect writer sends it, must restore every byte in every format; otherwise a
format's failures would be the benchmark's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from akg_tui.hashline import Document, Tagger
from akg_tui.hashline.file_reader import Refusal
from benchmarks.edit_formats.languages import parses, same_code
from benchmarks.edit_formats.staleness import repair
from benchmarks.edit_formats.whole_file import ALL_FORMATS, open_any
from benchmarks.edit_formats.writers import CALLS
from benchmarks.edit_models.tasks import EditTask

_TAGGER: Final = Tagger(b"check")


class TaskCheck(Struct, frozen=True):
    """One task. `unrestored` are formats in which the true edit does not give the original back."""

    task: str
    parses: bool
    differs: bool
    unrestored: tuple[str, ...]

    @property
    def sound(self) -> bool:
        return self.parses and self.differs and not self.unrestored


def is_a_task(task: EditTask) -> bool:
    """Whether the broken file parses, is other code, and has a line to begin the repair at."""
    broken, original = documents(task)
    if repair(task.kind, broken, original) is None:
        return False
    # A repair of lines keeps the end of a file as it is, so the fault must have kept it.
    if broken.ends_with_newline != original.ends_with_newline:
        return False
    return parses(broken) and not same_code(broken, original)


def check_task(task: EditTask) -> TaskCheck:
    """Check a task from its texts alone, however it was made."""
    broken, original = documents(task)
    return TaskCheck(
        task=task.id,
        parses=parses(broken),
        differs=broken.data != original.data and not same_code(broken, original),
        unrestored=tuple(form for form in ALL_FORMATS if not _restores(form, task)),
    )


def unsound(tasks: Sequence[EditTask]) -> list[TaskCheck]:
    """The checks of those tasks that no model must be measured with."""
    return [check for task in tasks if not (check := check_task(task)).sound]


def documents(task: EditTask) -> tuple[Document, Document]:
    """The broken file and the original."""
    return (
        Document.from_text(task.broken, path=task.path),
        Document.from_text(task.original, path=task.path),
    )


def _restores(form: str, task: EditTask) -> bool:
    broken, original = documents(task)
    wanted = repair(task.kind, broken, original)
    if wanted is None:
        return False
    reader = open_any(form, _TAGGER)
    reader.render(broken)
    made = reader.apply(broken, CALLS[form](broken, wanted.start, wanted.stop, wanted.new, _TAGGER))
    return not isinstance(made, Refusal) and made.data == original.data

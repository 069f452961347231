"""A fault of a reference or a kernel as a value: its kind, its place, the input it concerns.

Plain data without torch. Judge and sizing process make it, `engine.task_repairs` mends by its kind,
and the sentence is only shown.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from akg_tui.core.kernel.kernel_files import Place


class FaultKind(StrEnum):
    """The kinds of faults after which something is done, and `OTHER`."""

    OTHER = "other"
    MEMORY = "memory"  # a call needs more memory than it may use
    SLOW = "slow"  # a call takes longer than it may
    NO_GPU = "no_gpu"
    SEGFAULT = "segfault"
    UNSTEADY = "unsteady"  # called twice on one input it gives two results
    TOO_EASY = "too_easy"  # a kernel that computes nothing would pass
    TOO_LOOSE = "too_loose"  # the tolerance of the task hides wrong results
    UNDECIDED = "undecided"  # an input decides nothing
    CHECK = "check"  # the task's own check refuses right results, or accepts wrong ones


class Fault(Struct, frozen=True, kw_only=True):
    """The reason to refuse a reference, its task or a kernel.

    `line` is that of `file`; "" is the file of the reference. `answer` is what
    a kernel could return (TOO_EASY). `input` is the name or the position of the input that decides
    nothing, which is `ignored` if no result depends on it at all (UNDECIDED).
    """

    reason: str
    kind: FaultKind = FaultKind.OTHER
    file: str = ""
    line: int | None = None
    detail: str = ""
    answer: str = ""
    copied: int | None = None
    """The position of an input that a kernel could return as its result."""
    input: str | int | None = None
    ignored: bool = False

    @classmethod
    def at(cls, place: Place | None, reason: str) -> Fault:
        """Return a fault with its place, if that is known."""
        if place is None:
            return cls(reason=reason)
        return cls(reason=reason, file=place.file, line=place.line or None)

    @property
    def place(self) -> Place | None:
        """The place, if its file is named."""
        return Place(self.file, self.line or 0) if self.file else None

    def told(self, free: str = "declare [correctness] free_inputs = [{toml}]") -> str:
        """Return the sentence; `free` says how an input is declared that may be ignored.

        It has the places {name} and {toml} for the input.
        """
        if self.input is None:
            return self.reason
        toml = f'"{self.input}"' if isinstance(self.input, str) else self.input
        return f"{self.reason}, or {free.format(name=self.input, toml=toml)}"

    def located(self, filename: str = "") -> str:
        """Return the sentence with the place before it; `filename` is the reference's."""
        file = self.file or filename
        return f"{Place(file, self.line or 0)}: {self.told()}" if file else self.told()

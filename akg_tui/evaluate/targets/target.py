"""What the evaluator asks of a backend. A target is one class that has all of this.

`Target` is asked in the judge, the zygote and the engine, which may not have torch: none of
its methods but `device` may import it. `Device` is used in a kernel's own process alone, so
nothing that it says may decide anything.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from akg_tui.evaluate.targets.roofline import Level


class Device(Protocol):
    """Where a kernel's tensors live and its work is done, as seen from a kernel's process."""

    name: str
    """As torch calls the kind of device."""

    def place(self, value: object) -> object:
        """Return a value on the device: a tensor of the host is copied, all else stays."""

    def synchronise(self) -> None:
        """Return when all work that was handed to the device is done."""

    def flush_caches(self) -> None:
        """Leave nothing of earlier calls in the device's caches, where that must be forced."""

    def elapsed_ms(self, work: Callable[[], object]) -> float:
        """Return how long `work` took by the device's own clock: a cross-check, no verdict."""


class Target(Protocol):
    """One backend of `task.toml`."""

    name: str

    bounds_address_space: bool
    """Whether RLIMIT_AS may bound a kernel: a driver may reserve more than any machine has.
    What it really takes is watched and bounded all the same."""

    def lacking(self) -> str:
        """Return in one line why nothing can run on this target here, or nothing."""

    def zygote_environment(self, threads: int, home: Path) -> dict[str, str]:
        """Return the environment of the zygote, which every kernel's process inherits."""

    def devices(self) -> tuple[str, ...]:
        """Return the device files that a kernel must open."""

    def readable(self) -> tuple[str, ...]:
        """Return the files and folders that a kernel must read to use the device."""

    def fingerprint(self, torch_version: str, threads: int) -> dict[str, str]:
        """Return what a reader of a measurement must know of machine and software."""

    def levels(self) -> list[Level]:
        """Return the levels of memory with what they move; none: no time is impossible."""

    def device(self) -> Device:
        """Return the device, in a kernel's process."""

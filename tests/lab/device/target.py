"""The target for `labdev`: what the judge knows of it, put in the place of another target.

Must not import torch: the engine's side uses it too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from akg_tui.evaluate.targets import TARGETS
from akg_tui.evaluate.targets.cpu import Cpu
from akg_tui.evaluate.targets.roofline import Level

MODULE = "tests.lab.device.in_judge"
"""The module that a judge imports to have this target."""


class LabDevice(Cpu):
    """A device that is not the CPU in PyTorch's eyes, although its work is done there."""

    name = "cuda"
    device = "labdev"
    sealing = "tests.lab.device.sealing"

    def environment(self, threads: int) -> dict[str, str]:
        """Return the host's variables, and where this package is."""
        return super().environment(threads) | self.more

    def __init__(self, **more: str) -> None:
        self.more = more

    def preloaded(self) -> tuple[str, ...]:
        """Return the package that registers the device."""
        return ("tests.lab.device", *super().preloaded())

    def levels(self) -> list[Level]:
        """Return no levels, as no accelerator has."""
        return []


ROOT = Path(__file__).parents[3]


def install(target: LabDevice | None = None) -> None:
    """Put the device in the place of `cuda`, in this process."""
    TARGETS["cuda"] = target or LabDevice()


@contextlib.contextmanager
def installed(target: LabDevice | None = None) -> Iterator[None]:
    """Have the device in the place of `cuda` inside the block."""
    before = TARGETS["cuda"]
    install(target)
    try:
        yield
    finally:
        TARGETS["cuda"] = before

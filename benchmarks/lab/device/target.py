"""The targets for `labdev`: what the judge knows of it, put in the place of other targets.

Must not import torch: the engine's side uses it too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from akg_tui.evaluate.targets import TARGETS, Target
from akg_tui.evaluate.targets.ascend import Ascend
from akg_tui.evaluate.targets.cpu import Cpu
from akg_tui.evaluate.targets.roofline import Level
from benchmarks.lab.device.library import built

MODULE = "benchmarks.lab.device.in_judge"
"""The module that a judge imports to have this target."""


WATCHED = "LABDEV_WATCHED"
"""The variable with the path of a file, in a judge's process."""


class _OnLab(Target):
    """What replaces a target's own device and seal."""

    device = "labdev"
    sealing = "benchmarks.lab.device.sealing"

    def __init__(self, **more: str) -> None:
        self.more = more

    def lacking(self) -> str:
        """Return that nothing is missing."""
        return ""

    def environment(self, threads: int) -> dict[str, str]:
        """Return the target's variables, and more."""
        usual: dict[str, str] = super().environment(threads)  # type: ignore[safe-super]
        return usual | self.more

    def devices(self) -> tuple[str, ...]:
        """Return no files: the device is made of memory and threads."""
        return ()

    def preloaded(self) -> tuple[str, ...]:
        """Return the module that registers the device, and that of the seal."""
        return ("benchmarks.lab.device.registered", self.sealing)

    def levels(self) -> list[Level]:
        """Return no levels, as no accelerator has."""
        return []


class LabDevice(_OnLab, Cpu):
    """A device that is not the CPU in PyTorch's eyes, although its work is done there.

    While the file that `WATCHED` names is there, a comparison is watched: it has a line for each
    reading, and the clock comes to rest with the second one.
    """

    name = "cuda"
    queues = True

    def monitor(self) -> Watched | None:
        """Return what watches the device, if a test wants that."""
        path = Path(os.environ.get(WATCHED, os.devnull))
        return Watched(path) if path.is_file() else None


class Watched:
    """A `Monitor` that writes down what it is asked."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def sample(self) -> None:
        with self._path.open("a") as opened:
            opened.write("sample\n")

    def settled(self) -> bool:
        rests = self._path.read_text().count("sample") >= 2
        with self._path.open("a") as opened:
            opened.write("rests\n" if rests else "moves\n")
        return rests

    def disturbances(self) -> list[str]:
        return ["the device was warm"]


class LabNpu(_OnLab, Ascend):
    """The same device in the place of an NPU: environment and paths are those of `Ascend`."""


ROOT = Path(__file__).parents[3]


def install(*targets: Target) -> None:
    """Put the device in the place of `cuda` and of `ascend`, in this process."""
    for target in targets or (LabDevice(), LabNpu()):
        TARGETS[target.name] = target


@contextlib.contextmanager
def installed(*targets: Target) -> Iterator[None]:
    """Build the device, and have it in the place of `cuda` and of `ascend` inside the block."""
    built()
    before = dict(TARGETS)
    install(*targets)
    try:
        yield
    finally:
        TARGETS.update(before)

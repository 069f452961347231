"""Helion: functions over tiles, which it compiles to Triton; on the CPU Triton interprets them.

On the CPU its kernels are verified, never timed, as those in Triton. On a GPU it is written from
Helion's documentation. Must never import torch, triton or helion.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import linecache
import re

from akg_tui.core.task import Task
from akg_tui.dsl.adapters.adapter import UNKNOWN, CompilerReport
from akg_tui.dsl.adapters.triton import Triton

_FACTS = (
    "The work is done by functions that `helion.kernel` decorates, which loop over `hl.tile(size)` "
    "(`import helion.language as hl`) and compute on tiles with torch's operators: Helion compiles "
    "them to Triton. Helion's own search of configurations is off, so state one, "
    "`@helion.kernel(config=helion.Config(block_sizes=[BLOCK]))`, whose numbers may be knobs."
)


class Helion(Triton):
    """Kernels whose work is done by functions that `helion.kernel` decorates."""

    name = "helion"
    sign = re.compile(r"^\s*(?:import|from)\s+helion\b", re.M)
    builders = frozenset({"kernel", "jit"})
    nothing_built = "nothing has helion.kernel: this task's DSL is Helion"
    generated_for = frozenset()
    report_process = ""
    has_launches = False

    def facts(self, task: Task) -> str:
        """Return how a kernel is written, and that nothing is timed where it is interpreted."""
        return f"{_FACTS} {super().facts(task)}".strip()

    def lacking(self, target: str) -> str:
        """Return how to install Helion if it is missing, or that a target runs none."""
        if target not in ("cpu", "cuda"):
            return f'dsl = "helion" runs on a GPU of NVIDIA: backend = "cuda", not "{target}"'
        if importlib.util.find_spec("helion") is None:
            return "this task's DSL is Helion, which is not installed: pip install helion"
        return super().lacking(target)

    def instead(self) -> str:
        """Return that the interpreter verifies."""
        return self.lacking("cpu") or 'backend = "cpu" verifies kernels in dsl = "helion" here'

    def environment(self, target: str) -> dict[str, str]:
        """Return the variables that select the interpreter, and take the stated configuration.

        Helion's search would take minutes of the first call, and decide by times that the judge
        did not take.
        """
        return {**super().environment(target), "HELION_AUTOTUNE_EFFORT": "none"}

    def preloaded(self, target: str) -> tuple[str, ...]:
        """Return Helion's modules, besides Triton's; loading them takes seconds."""
        return (*super().preloaded(target), "helion", "helion.language")

    def versions(self, target: str) -> dict[str, str]:
        """Return the versions of Helion and of Triton."""
        try:
            version = importlib.metadata.version("helion")
        except importlib.metadata.PackageNotFoundError:
            version = UNKNOWN
        return {"helion": version, **super().versions(target)}

    def report(self, error: BaseException) -> CompilerReport | None:
        """Return Helion's refusal, with the line of the file that it names."""
        if type(error).__module__ != "helion.exc":
            return None
        first = str(error).partition("\n")[0]
        place = getattr(error, "location", None)
        line = getattr(place, "lineno", 0) or 0
        source = "".join(linecache.getlines(place.filename)) if place else ""
        told = f"Helion does not compile: {first}"
        return CompilerReport("build", told, error, str(error), "Helion", line, source)


ADAPTER = Helion()

"""The cases of a task: each has a reference with sizes of its own, and inputs drawn from it.

Owns which sizes belong to a case, and how its name enters a failure. A task without cases has one
case without a name.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.evaluate.prefetch import Prefetched
from akg_tui.evaluate.processes.child_pool import ChildPool, EvaluationError
from akg_tui.evaluate.processes.worker import ChildFailed
from akg_tui.evaluate.reference import Reference


@dataclass(frozen=True)
class JudgedCase:
    """One case: `weight` is its share of all, so the shares of a task add up to 1."""

    name: str
    weight: float
    reference: Reference
    prefetched: Prefetched
    call_s: dict[KernelFiles | None, float] = field(default_factory=dict)
    """By baseline, the approximate seconds of its call: the judge carries them from one comparison
    to the next, and no results."""

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Put the name of the case before the message of a failure inside the block."""
        try:
            yield
        except ChildFailed as failed:
            raise failed.saying(self.told(failed.message)) from failed
        except EvaluationError as broken:
            raise broken.saying(self.told(broken.message)) from broken

    def told(self, text: str) -> str:
        """Return a text about this case, with the name of the case if it has one."""
        return f"case {self.name}: {text}" if self.name else text


def judged_cases(pool: ChildPool, source: str) -> list[JudgedCase]:
    """Return the cases of the pool's task; `source` is the text of its reference."""
    task = pool.task
    whole = math.fsum(case.weight for case in task.cases)
    found = []
    for case in task.cases or (None,):
        reference = Reference(pool, source, task.files.reference, task.constants(case))
        prefetched = Prefetched(pool, reference, share=1 / max(len(task.cases), 1))
        name, weight = (case.name, case.weight / whole) if case is not None else ("", 1.0)
        found.append(JudgedCase(name, weight, reference, prefetched))
    return found

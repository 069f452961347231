"""Counts the bytes and operations of a task's reference by case; prints them as JSON.

Started by `asking` with a task and its reference on standard input. Like `akg-tui new` it asks a
sizing process, whose confined children run the reference with fake tensors.
"""

from __future__ import annotations

import sys

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from akg_tui.core.task import Task
from akg_tui.evidence.findings import CaseWork
from akg_tui.sizing.size_probe import ProbeLost, ReferenceRefused, SizeProbe


class Count(Struct, frozen=True):
    """A request: count the work of this reference in each case of the task."""

    task: Task
    reference: str


def case_works(task: Task, reference: str) -> list[CaseWork]:
    """Return the work of each case, or of the task without cases."""
    found = []
    with SizeProbe(task) as probe:
        for case in task.cases or (None,):
            constants = task.constants(case)
            one = replace(task, reference=replace(task.reference, constants=constants), cases=())
            found.append(_case_work(probe, one, reference, case.name if case else ""))
    return found


def _case_work(probe: SizeProbe, task: Task, reference: str, name: str) -> CaseWork:
    filename = task.files.reference
    try:
        try:
            needs = probe.ask("estimate", task, reference, filename)
        except ReferenceRefused:
            # It looks at values, which fake tensors do not have.
            needs = probe.ask("measure", task, reference, filename)
    except (ReferenceRefused, ProbeLost) as error:
        return CaseWork(name, unknown=str(error)[:300])
    if needs is None:
        return CaseWork(name, unknown="the sizing process did not answer")
    return CaseWork(
        name,
        moved_bytes=needs.inputs + needs.results + needs.weights,
        operations=needs.operations,
        dtype=needs.arithmetic or "float32",
    )


def main() -> None:
    """Answer the request on standard input."""
    count = msgspec.json.decode(sys.stdin.buffer.read(), type=Count)
    print(msgspec.json.encode(case_works(count.task, count.reference)).decode())


if __name__ == "__main__":
    main()

"""What the judge needs to make children of one task: folders, caches, plans.

Owns the scratch folder: each child gets a folder of its own that goes with it, each kernel
a build cache named by its content, so that no kernel can meet another's objects.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from akg_tui.core.measurement import FailureKind
from akg_tui.core.task import Task
from akg_tui.evaluate.region import Region, region_of
from akg_tui.evaluate.wire import Fork, Op, Plan
from akg_tui.evaluate.worker import ChildFailed, Worker, Zygote

START_S = 60.0
MEMORY_SHARE = 0.5
"""Of the machine's memory, for one child: two are alive while they are timed."""


class Nursery:
    """Makes children and loads plans into them; ends them when their block does."""

    def __init__(self, task: Task, scratch: Path, zygote: Zygote) -> None:
        self.task = task
        self._scratch = scratch
        self._zygote = zygote
        self._numbers = itertools.count(1)
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._memory_bytes = int(total * MEMORY_SHARE)

    @contextlib.contextmanager
    def child(self, source: str) -> Iterator[Worker]:
        """Yield a child for `source`, with nothing loaded; kill it when the block ends."""
        folder = self._scratch / "children" / f"{os.getpid()}-{next(self._numbers)}"
        folder.mkdir(parents=True)
        cache = self._scratch / "cache" / hashlib.sha256(source.encode()).hexdigest()[:32]
        cache.mkdir(parents=True, exist_ok=True)
        worker = self._zygote.fork(
            Fork(
                folder=str(folder),
                environment={
                    "HOME": str(folder),
                    "TMPDIR": str(folder),
                    "AKG_CACHE_DIR": str(cache),
                    "TORCH_EXTENSIONS_DIR": str(cache / "torch"),
                },
                threads=self.task.timing.threads,
                memory_bytes=self._memory_bytes,
            )
        )
        try:
            worker.greet(START_S)
            yield worker
        finally:
            if not worker.ended:
                worker.end()
            shutil.rmtree(folder, ignore_errors=True)

    def send_plan(self, worker: Worker, plan: Plan, *regions: Region, op: Op = Op.LOAD) -> None:
        """Send a plan with the regions for its report, state, inputs and outputs."""
        blob = region_of(msgspec.json.encode(plan))
        try:
            worker.send(op, fds=(blob.fd, *(region.fd for region in regions)))
        finally:
            blob.close()

    def await_load(self, worker: Worker) -> int:
        """Wait until the plan is loaded; return the size of its report."""
        return worker.answer(self.task.timing.build_timeout_s, "loading")


class Misjudged(Exception):
    """The evaluation can't be made, through no fault of the candidate."""

    def __init__(self, kind: FailureKind, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.detail = detail


@contextlib.contextmanager
def blamed_on(kind: FailureKind, who: str) -> Iterator[None]:
    """Turn the failure of a child that is not the candidate into an error of the evaluation.

    `who` names the culprit, where the child's own message does not do so already.
    """
    try:
        yield
    except ChildFailed as failed:
        message = failed.message
        if not message.startswith(who):
            message = f"{who}: {message}"
        raise Misjudged(kind, message, failed.detail) from failed

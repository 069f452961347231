"""The judge's pool of child processes: forks spares, gives each a kernel's folders, ends them.

Owns the scratch folder: each child has a private folder, each kernel a build cache named by the
digest of its text, so that no kernel can load the objects of another kernel.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import FailureKind
from akg_tui.core.task import Task
from akg_tui.dsl import torch_headers
from akg_tui.dsl.adapters import DSLS
from akg_tui.evaluate.processes.shared_memory import SharedMemory
from akg_tui.evaluate.processes.worker import ChildFailed, EvaluationFailure, Worker, Zygote
from akg_tui.evaluate.protocol.child_protocol import REPORT_BYTES, Assignment, Fork, Op, Plan
from akg_tui.evaluate.sandbox.build_cache import BuildCaches, CopyFailed
from akg_tui.evaluate.sandbox.process_watch import ResourceLimits, usable_memory
from akg_tui.evaluate.sandbox.protections import Protection
from akg_tui.evaluate.targets.lease import Claim, Lease

START_S = 60.0
WITHOUT_KERNEL = "a process without a kernel"


@dataclass(frozen=True)
class Reporter:
    """A child with the memory of its reports, of which the first has `size` bytes."""

    worker: Worker
    _memory: SharedMemory
    size: int

    def text(self, size: int) -> bytes:
        """Return the last report, of `size` bytes by the child's word."""
        return bytes(self._memory.map[: min(size, REPORT_BYTES)])


class ChildPool:
    """Forks children and loads plans into them; a child ends with its `with` block."""

    def __init__(
        self,
        task: Task,
        scratch: Path,
        zygote: Zygote,
        offered: tuple[Protection, ...],
        claim: Claim | None = None,
    ) -> None:
        self.task = task
        self.lease = Lease(claim, self.wait, zygote.keep_open)
        self._offered = offered
        self._scratch = scratch
        self._zygote = zygote
        self._numbers = itertools.count(1)
        held = {protection.name for protection in offered if protection.held}
        self._private_folders = "private_folder" in held
        self.caches = BuildCaches(scratch / "cache", covered="private_cache" in held)
        self.headers = torch_headers.TorchHeaders(torch_headers.home())
        self._vacated: list[Path] = []
        """The folders of children that are ending."""
        self._free_folders: list[Path] = []
        self.memory_bytes = usable_memory(task.sandbox.memory_gb)
        """The bytes of memory that all processes of one kernel may use together."""

    @property
    def sandbox_missing(self) -> tuple[str, ...]:
        """The protections that this machine lacks, each with the reason."""
        return tuple(str(protection) for protection in self._offered if not protection.held)

    def wait(self, seconds: float) -> None:
        """Wait for something outside of the judge; a cancellation by the engine raises."""
        self._zygote.interrupts.check_within(seconds)

    def fork_spares(self, count: int) -> None:
        """Fork spares in the background until there are `count`.

        A spare is a fresh fork without a kernel, and has all protections except those that
        depend on the writable folders.
        """
        while self._zygote.spare_count < count:
            self._zygote.request_child(
                Fork(
                    folder=str(self._new_folder()),
                    threads=self.task.timing.threads,
                    memory_bytes=self.memory_bytes,
                )
            )

    def await_idle(self) -> None:
        """Wait until no child is being forked or ended, which would disturb a timed call."""
        self._zygote.wait_idle()
        with blamed_on(FailureKind.JUDGE, WITHOUT_KERNEL):
            for spare in self._zygote.spares:
                if spare.is_alive:  # `_assigned` skips a dead spare
                    spare.await_prepared(START_S)
        self._reuse_folders()

    def await_gone(self) -> None:
        """Wait until no child is left that has seen a kernel."""
        self._zygote.await_gone()
        self._reuse_folders()

    def clear(self) -> None:
        """End all spares, and wait until no child is left."""
        self._zygote.wait_idle()
        while self._zygote.spares:
            self._release(self._zygote.take())
        self._zygote.wait_idle()
        self._reuse_folders()

    @contextlib.contextmanager
    def child(self, files: KernelFiles, *, builds: bool = False) -> Iterator[Worker]:
        """Yield a child for `files`, with nothing loaded; kill it when the block ends.

        Only a child that `builds` leaves files in the build cache for others of its files, so it
        may be called on the sample only.
        """
        with self.children([files], builds=builds) as (worker,):
            yield worker

    @contextlib.contextmanager
    def reporting(self, plan: Plan, *, builds: bool = False) -> Iterator[Reporter]:
        """Yield a child that has loaded a plan, and reports."""
        with (
            contextlib.closing(SharedMemory(REPORT_BYTES)) as memory,
            self.child(plan.files, builds=builds) as worker,
        ):
            worker.send_content(Op.LOAD, plan, memory)
            yield Reporter(worker, memory, self.await_load(worker))

    @contextlib.contextmanager
    def children(
        self, sources: Sequence[KernelFiles], *, builds: bool = False
    ) -> Iterator[list[Worker]]:
        """Yield a child for each kernel, started together; they are killed as the block ends."""
        self._restore_caches(sources, builds=builds)
        children: list[Worker] = []
        try:
            # Before a kernel is loaded only our code runs, so no kernel caused a failure.
            with blamed_on(FailureKind.JUDGE, WITHOUT_KERNEL):
                self.fork_spares(len(sources))
                for files in sources:
                    children.append(self._assigned(files, builds=builds))
                for child in children:
                    self._await_confined(child)
            yield children
        finally:
            for child in children:
                self._release(child)

    def _restore_caches(self, sources: Sequence[KernelFiles], *, builds: bool) -> None:
        """Restore build caches as their building child left them, if children can't cover them.

        A kernel that is compared with itself shares its cache.
        """
        if self.caches.covered:
            return
        self._zygote.await_gone()
        for files in dict.fromkeys(sources):
            try:
                self.caches.restore(files.sha256, builds=builds)
            except CopyFailed as error:
                raise ChildFailed(FailureKind.BUILD, str(error)) from error

    def _assigned(self, files: KernelFiles, *, builds: bool) -> Worker:
        """Return a spare with the folders of `files` assigned; `_await_confined` must follow."""
        self.fork_spares(1)
        worker = self._zygote.take()
        # The out-of-memory killer may have killed a waiting spare.
        while not worker.is_alive:
            self._release(worker)
            self.fork_spares(1)
            worker = self._zygote.take()
        try:
            cache, folder = self.caches.folder(files.sha256), str(worker.folder)
            environment = {"HOME": folder, "TMPDIR": folder}
            environment |= DSLS[self.task.target.dsl].caches(cache)
            environment |= self.headers.environment(files.page)
            limits = ResourceLimits(self.memory_bytes, (worker.folder, cache))
            worker.assign(Assignment(str(cache), environment, builds), limits)
        except BaseException:
            self._release(worker)
            raise
        return worker

    def _await_confined(self, worker: Worker) -> None:
        """Wait for a child; raise unless it has all protections that this machine offers."""
        if worker.protections:
            return
        worker.await_confined(START_S)
        tried = worker.protections
        lost = [p.name for p in self._offered if p.held and tried.get(p.name) != ""]
        if lost:
            why = "; ".join(f"{name}: {tried.get(name, 'not tried')}" for name in lost)
            raise EvaluationError(FailureKind.JUDGE, f"the sandbox could not be set up: {why}")

    def _release(self, worker: Worker) -> None:
        if not worker.ended:
            worker.release()
        self._vacated.append(worker.folder)

    def _reuse_folders(self) -> None:
        """Reuse the folders of children that have ended; delete those that hold files."""
        if self._private_folders:
            # A child wrote to a private tmpfs over the folder, so the folder is still empty.
            self._free_folders += self._vacated
        else:
            for folder in self._vacated:
                shutil.rmtree(folder, ignore_errors=True)
        self._vacated.clear()

    def _new_folder(self) -> Path:
        """Return an empty folder that no child uses."""
        if self._free_folders:
            return self._free_folders.pop()
        folder = self._scratch / "children" / f"{os.getpid()}-{next(self._numbers)}"
        folder.mkdir(parents=True)
        return folder

    def await_load(self, worker: Worker) -> int:
        """Wait until the plan is loaded, which builds it; return the size of its report."""
        try:
            return worker.answer(self.task.timing.build_timeout_s, "loading")
        except ChildFailed as failed:
            if failed.kind is not FailureKind.TIMEOUT:
                raise
            why = (
                f"{failed.message}; the limit is build_timeout_s under [timing] in task.toml: "
                "a build that needs longer gets it there, then try again"
            )
            fault = msgspec.structs.replace(failed.fault, reason=why)
            raise ChildFailed(failed.kind, why, failed.detail, fault) from failed


class EvaluationError(EvaluationFailure):
    """The evaluation failed, through no fault of the candidate."""


@contextlib.contextmanager
def blamed_on(kind: FailureKind, name: str) -> Iterator[None]:
    """Turn the failure of a child that is not the candidate into an `EvaluationError`.

    `name`, the file or what the child does, is put before a message that does not name that file.
    """
    try:
        yield
    except ChildFailed as failed:
        message = failed.message
        if failed.fault.file != name:
            message = f"{name}: {message}"
        raise EvaluationError(kind, message, failed.detail, failed.fault) from failed

"""A run that this process only reads: at rest, or at work in another process.

Implements `akg_tui.engine.run_handle.RunHandle` without taking the lock or writing. Commands go to
the process at work, if it accepts them (`akg_tui.engine.attach`); a run at rest refuses them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from shlex import quote

from akg_tui.core.commands import Command
from akg_tui.core.decide import Rejected
from akg_tui.core.events import PlanChange, Record
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.past_states import Past
from akg_tui.core.sanitize import Said
from akg_tui.engine.attach import Ask, Attached, NotAttached
from akg_tui.engine.live import Live
from akg_tui.engine.run_handle import KEPT_KERNELS
from akg_tui.store.errors import StoreError
from akg_tui.store.history import History
from akg_tui.store.journal_reader import JournalTail
from akg_tui.store.lock import holder
from akg_tui.store.run_at_rest import read_kept_edit
from akg_tui.store.run_folder import HISTORY
from akg_tui.store.run_list import JOURNAL, check_is_run, fold_past

POLL_S = 0.2


class Followed:
    """A run read from its journal, and read further as the journal grows.

    Parameters
    ----------
    path : Path
        The run folder. Reading a long run takes a while: construct in a thread.
    steer : bool
        Whether commands are sent to the process at work. If False, no command is ever sent.

    Attributes
    ----------
    past : Past or None
        The states after all events; None if the process at work handed over the last of them.

    Raises
    ------
    RunFolderError, JournalDamaged
        If the folder is not a run, or its journal cannot be trusted.
    """

    past: Past | None

    def __init__(self, path: Path, *, steer: bool = False) -> None:
        check_is_run(path)
        self.path = str(path)
        self.live = Live()
        self._path = path
        self._steer = steer
        self._kernel = lru_cache(KEPT_KERNELS)(self._read_kernel)
        self._attached: Attached | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sent = asyncio.Event()
        if not (steer and self._handed_over()):
            self._tail, self._past = _read_through(path)
            self.past = self._past
            self.state = fold_past(path / JOURNAL, self._past)
        self.live.at_rest = self._rests

    def _handed_over(self) -> bool:
        """Take the state from the process at work, and read no event before it; whether that is
        possible.
        """
        try:
            self._attached = Attached.to(self._path)
            state = self._attached.state()
            if state is None:
                return False
            self._tail = JournalTail(self._path / JOURNAL)
            self._tail.skip(state.seq)
        except (NotAttached, StoreError, ValueError):
            return False
        self._past, self.past = Past(self._tail.records, front=state), None
        self.state = state
        return True

    @property
    def _rests(self) -> bool:
        """Whether no process is at work on the run, and it is not over."""
        return self.pid is None and not self.state.finished

    @property
    def records(self) -> Sequence[Record]:
        return self._tail.records

    @property
    def pid(self) -> int | None:
        """The id of the process at work on the run, or None."""
        return None if self.state.finished else holder(self._path)

    def send(self, command: Command) -> Rejected | None:
        """Send the command to the process at work; return the refusal, or None."""
        if not self._steer:
            return Rejected("this is a replay: it shows a run and changes nothing")
        if self.state.finished:
            run = quote(str(self._path))
            return Rejected(
                Said(
                    "the run is over; it goes on with: akg-tui resume {path} --more-rounds N",
                    path=run,
                )
            )
        return self._through(lambda link: link.send(command))

    def ask(self, what: Ask) -> Rejected | None:
        """Ask the server of the process at work; return the refusal, or None."""
        return self._through(lambda link: link.ask(what))

    def _through(self, call: Callable[[Attached], Rejected | None]) -> Rejected | None:
        try:
            if self._attached is None:
                self._attached = Attached.to(self._path)
            refused = call(self._attached)
        except NotAttached as error:
            self._attached = None
            return Rejected(error.said)
        if self._loop is not None:  # what came of it is read now, not at the next look
            self._loop.call_soon_threadsafe(self._sent.set)
        return refused

    def kernel(self, blob: str) -> KernelFiles:
        """Return the kernel of an object id; for a lost kernel, a line with the error."""
        try:
            return self._kernel(blob)
        except StoreError as error:
            told = f"(this kernel cannot be read: {error})\n"
            return KernelFiles(dict.fromkeys(self.state.task.files.names, told))

    def _read_kernel(self, blob: str) -> KernelFiles:
        return self._history.read_kernel(blob)

    @cached_property
    def _history(self) -> History:
        return History.open(self._path / HISTORY, kernel_file=self.state.task.files.editable)

    def plan_change(self, kept: str) -> PlanChange:
        """Return the hand edit as `akg_tui.engine.engine.Engine.plan_change` does."""
        return read_kept_edit(self._path, kept, self.state)

    async def more(self) -> bool:
        """Read at most one chunk; return whether it had events. Raises like the constructor.

        Only the reading runs in a thread: the event loop alone touches states.
        """
        if not await asyncio.to_thread(self._tail.more):
            return False
        if self._tail.records is not self._past.records:  # it was read again from the start
            self.past = self._past = Past(self._tail.records)
            await asyncio.to_thread(fold_past, self._path / JOURNAL, self._past)
        self.state = fold_past(self._path / JOURNAL, self._past)
        return True

    async def run(self) -> None:
        """Follow the journal and the live view of the process at work, until cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            self._sent.clear()
            while await self.more():
                pass  # far behind the journal: the screen draws between two chunks
            activity = await self._activity()
            now = self._attached.live() if self._attached is not None else None
            if now is not None:
                now.onto(self.live)
                self.live.at_rest = False
            else:
                await self.close()
                if self.live.activity != activity:
                    self.live.show(activity, holds=True)
                    self.live.at_rest = self._rests
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._sent.wait(), POLL_S)

    async def _activity(self) -> str:
        """Describe the process at work; attach to it if commands may be sent."""
        if self.state.finished:
            return ""
        pid = self.pid
        if pid is None:
            return Said(
                "nobody is at work on it; go on with: akg-tui resume {run}",
                run=quote(str(self._path)),
            )
        if not self._steer:
            return Said("process {n} is at work on it", n=pid)
        if self._attached is None:
            try:
                self._attached = await asyncio.to_thread(Attached.to, self._path)
            except NotAttached:
                return Said("process {n} is at work on it, and takes no commands from here", n=pid)
        return Said("attached to process {n}", n=pid)

    async def close(self) -> None:
        """Detach; the run itself goes on."""
        if self._attached is not None:
            self._attached.close()
            self._attached = None


def _read_through(path: Path) -> tuple[JournalTail, Past]:
    """Read and fold a journal, a chunk at a time. Raises like `Followed`."""
    tail = JournalTail(path / JOURNAL)
    past = Past(tail.records)
    while tail.more():
        if tail.records is not past.records:  # the journal was read again from the start
            past = Past(tail.records)
        fold_past(path / JOURNAL, past)
    return tail, past

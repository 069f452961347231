"""A recorded run: its journal and its kernels in one small archive, and a handle on it.

The archive holds the journal, without facts about the machine, and every kernel that it names. A
handle shows the run after one event of it and takes no commands.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.core import events as ev
from akg_tui.core.commands import Command
from akg_tui.core.decide import Rejected
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.past_states import Past
from akg_tui.core.state import RunState
from akg_tui.engine.live import Live
from akg_tui.store.errors import RunFolderError
from akg_tui.store.history import History
from akg_tui.store.journal_format import NO_LINE, digest, inspect, lines_of, prepare
from akg_tui.store.run_folder import HISTORY
from akg_tui.store.run_list import JOURNAL, check_is_run, fold_journal

KERNELS = "kernels/"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same run gives the same bytes


class Recording(Struct, frozen=True):
    """`lines` are the journal's, each with its line end; `kernels` are by blob id."""

    path: Path
    lines: Sequence[bytes]
    records: Sequence[ev.Record]
    kernels: Mapping[str, str]

    def journal(self, upto: int) -> bytes:
        """The journal as it was after event `upto`."""
        return b"".join(self.lines[:upto])


def record(run: Path, archive: Path) -> Recording:
    """Write the archive of a run that is at rest.

    Raises
    ------
    StoreError
        If the run cannot be read or trusted, or the archive not be written.
    """
    check_is_run(run)
    inspected = inspect(run / JOURNAL)
    if inspected.fault is not None:
        raise inspected.fault
    state = fold_journal(run / JOURNAL, inspected.records)
    history = History.open(run / HISTORY, kernel_file=state.task.files.editable)
    blobs = [state.seed_blob]
    blobs += [r.event.blob for r in inspected.records if isinstance(r.event, ev.KernelEdited)]
    parts = {JOURNAL: _anonymous(inspected.records)}
    parts |= {
        f"{KERNELS}{blob}": history.read_kernel(blob).text.encode() for blob in sorted(set(blobs))
    }
    try:
        with zipfile.ZipFile(archive, "w") as packed:
            for name, data in parts.items():
                told = zipfile.ZipInfo(name, _EPOCH)
                told.external_attr = 0o644 << 16
                packed.writestr(told, data, zipfile.ZIP_DEFLATED, 9)
    except OSError as error:
        raise RunFolderError(f"cannot write {archive}: {error.strerror}") from error
    return read(archive)


def _anonymous(records: Sequence[ev.Record]) -> bytes:
    """The journal's bytes without facts about the machine that measured."""
    lines: list[bytes] = []
    link = NO_LINE
    for each in records:
        event = each.event
        if isinstance(event, ev.EvalFinished):
            measurement = replace(event.measurement, environment={})
            event = replace(event, measurement=measurement)
        lines.append(prepare(event, each.seq, each.at, link).line)
        link = digest(lines[-1])
    return b"".join(lines)


def read(archive: Path) -> Recording:
    """The recording in an archive.

    Raises
    ------
    RunFolderError
        If the file is no recording, or was changed.
    """
    try:
        with zipfile.ZipFile(archive) as packed:
            parts = {name: packed.read(name) for name in packed.namelist()}
    except (OSError, zipfile.BadZipFile) as error:
        raise RunFolderError(f"cannot read the recording {archive}: {error}") from error
    if JOURNAL not in parts:
        raise RunFolderError(f"{archive}: is not a recording, expected {JOURNAL} in it")
    inspected = inspect(archive, parts[JOURNAL])
    if inspected.fault is not None:
        raise RunFolderError(f"{archive}: its journal is not what was recorded")
    kernels: dict[str, str] = {}
    for name, data in parts.items():
        if blob := name.removeprefix(KERNELS) if name.startswith(KERNELS) else "":
            if hashlib.sha1(b"blob %d\0%b" % (len(data), data)).hexdigest() != blob:  # git's name
                raise RunFolderError(f"{archive}: the kernel {blob} is not what was recorded")
            kernels[blob] = data.decode(errors="replace")
    records = inspected.records
    return Recording(archive, lines_of(parts[JOURNAL], len(records)), records, kernels)


class Recorded:
    """A `akg_tui.engine.run_handle.RunHandle` on a recording as it stood after event `upto`."""

    def __init__(self, recording: Recording, upto: int, *, path: str) -> None:
        self._recording = recording
        self.records: Sequence[ev.Record] = recording.records[:upto]
        self.past = Past(self.records)
        self.state: RunState = self.past.extend()
        self.live = Live()
        self.path = path

    def send(self, command: Command) -> Rejected | None:
        return Rejected("this is a recording: it shows a run and changes nothing")

    def kernel(self, blob: str) -> KernelFiles:
        return KernelFiles({self.state.task.files.kernel: self._recording.kernels[blob]})

    def plan_change(self, kept: str) -> ev.PlanChange:
        raise RunFolderError(f"a recording holds no edit of PLAN.md by hand, so not {kept}")

    async def run(self) -> None:
        """Nothing happens in it."""

    async def close(self) -> None:
        """It holds nothing."""

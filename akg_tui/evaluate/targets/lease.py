"""The right to time on a device: of a user's judges on one machine, one holds it at a time.

A judge takes it for one slice after another, the timed calls of one cluster, so that several runs
go on side by side. It is an flock, which the system releases when its holder is dead and the
process that ends its kernels is gone too, and a record of the holder, which a killed one leaves
behind. Builds and verification need no lease.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from akg_tui.core.task import Task
from akg_tui.evaluate.targets.adapters import adapters

LOOK_S = 0.005
"""The time between two looks whether the lease is free."""

TOLD_S = 1.0
"""A wait that is as long is told: most slices of another run are shorter."""

_RECORD_BYTES = 8_192


class Claim(Struct, frozen=True):
    """What a judge holds while it times: the lock file of a device, and who it times for.

    `what` is a few words, `folder` the run's; "" if it is no run.
    """

    path: str
    what: str
    folder: str = ""


class Holder(Struct, frozen=True):
    """Who holds a lease, since when (seconds since 1970), and for what.

    `born` is the start of the process `pid` in the machine's ticks, because another process may get
    its number, and `numbered_by` tells where the two hold.
    """

    pid: int
    what: str
    since: float
    folder: str = ""
    born: int = 0
    numbered_by: str = ""


def lease_of(task: Task, number: int = 0) -> Path:
    """Return the lock file of a device that the task's kernels can be timed on: the first is 0."""
    target, _ = adapters(task)
    device = target.name
    if target.device_variable:
        device += "-" + target.device_name(number).replace("/", "_")
    return lease_folder() / f"timing-{device}.lock"


def claim(task: Task, what: str, folder: Path | None = None) -> Claim | None:
    """Return the claim of a judge of the task, or None if the user can have no lock file here."""
    path = lease_of(task)
    try:
        with _opened(str(path)) as lock:
            _locked(lock)  # some file systems of a network have no locks
            own = _is_own(path.parent)
    except OSError:
        own = False
    if not own:
        return None
    return Claim(str(path), what, "" if folder is None else str(folder.absolute()))


def held_leases() -> dict[str, Holder]:
    """Return who times now, by the device: `cpu`, `cuda-0`. A folder of another user has none."""
    found: dict[str, Holder] = {}
    with contextlib.suppress(OSError):
        folder = lease_folder()
        for path in sorted(folder.glob("timing-*.lock")) if _is_own(folder) else ():
            with contextlib.suppress(OSError):
                if (holder := _read(_bytes_of(path))) and _is_alive(holder):
                    found[path.stem.removeprefix("timing-")] = holder
    return found


def _is_own(folder: Path) -> bool:
    return folder.stat().st_uid == os.getuid()


def _bytes_of(path: Path) -> bytes:
    """Return what a regular file holds; b"" for anything else, such as a pipe that would block."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb") as file:
        is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        return file.read(_RECORD_BYTES) if is_file else b""


class Taken(Exception):
    """Others hold the lease, or wait for it, and the work at hand yields to them."""


class Lease:
    """A judge's lease; `waited_s` are the seconds that it has waited for others.

    Without a claim it is always free. While others hold it, `wait` is called again and again with
    the seconds to wait, and may raise. `tell` is called with the words for the holder of a long
    wait, and with "" at its end. If it `yields`, it raises `Taken` and does not wait. `share` gets
    the descriptor of the lock, for a process whose kernels may outlive this one: it keeps a
    duplicate open.
    """

    def __init__(
        self,
        claim: Claim | None,
        wait: Callable[[float], None],
        share: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._claim = claim
        self._wait = wait
        self._share = share
        self.tell: Callable[[str], None] = lambda _: None
        self.waited_s = 0.0
        self.yields = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease during the block, if its file can still be used."""
        with contextlib.ExitStack() as opened:
            lock = turn = None
            if self._claim is not None:
                # Anew each time: a cleaner of temporary files may have removed them.
                with contextlib.suppress(OSError):
                    lock = opened.enter_context(_opened(self._claim.path))
                    turn = opened.enter_context(_opened(self._claim.path + ".next"))
            if self._claim is None or lock is None or turn is None:
                yield
                return
            self._take(lock, turn)
            # Not released by closing it: it may be shared.
            opened.callback(fcntl.flock, lock, fcntl.LOCK_UN)
            opened.callback(os.ftruncate, lock, 0)
            self._share(lock)
            with contextlib.suppress(OSError):  # a full disk: then nobody is told who times
                os.ftruncate(lock, 0)  # a killed holder's record may be longer
                os.pwrite(lock, _record(self._claim), 0)
            fcntl.flock(turn, fcntl.LOCK_UN)
            yield

    def _take(self, lock: int, turn: int) -> None:
        # Who waits holds the next turn, so that who held the lease last does not come first again.
        begun, told = time.monotonic(), False
        try:
            while not (_locked(turn) and _locked(lock)):
                if self.yields:
                    raise Taken
                if not told and (now := time.monotonic()) > begun + TOLD_S:
                    self.waited_s += now - begun
                    begun = now
                    holder = _read(os.pread(lock, _RECORD_BYTES, 0))
                    self.tell(holder.what if holder else "another run")
                    told = True
                self._wait(LOOK_S)
        finally:
            self.waited_s += time.monotonic() - begun
        if told:
            self.tell("")


def lease_folder() -> Path:
    """Return the folder of the lock files, on a file system of this machine alone.

    It is the same for a person's sessions and for what outlives them.
    """
    # Not by TMPDIR, which differs between sessions; absolute, because a judge has another folder.
    stated = os.environ.get("AKG_TUI_LEASES")
    return Path(stated or f"/tmp/akg-tui-{os.getuid()}").absolute()


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    """Yield a descriptor of a file, whose folder is made if it is not there. Raises `OSError`."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _record(claim: Claim) -> bytes:
    pid = os.getpid()
    holder = Holder(
        pid=pid,
        what=claim.what,
        since=time.time(),
        folder=claim.folder,
        born=_own_born(pid),
        numbered_by=_numbered_by(),
    )
    return msgspec.json.encode(holder)


def _read(data: bytes) -> Holder | None:
    try:
        return msgspec.json.decode(data, type=Holder)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # empty, or read while it is written
        return None


def _is_alive(holder: Holder) -> bool:
    here = holder.numbered_by == _numbered_by()
    return here and _born(holder.pid) == holder.born


@functools.cache
def _numbered_by() -> str:
    """Return a name for what gives the processes their numbers: this start of the machine."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8")
    return f"{boot.strip()} {Path('/proc/self/ns/pid').stat().st_ino}"


def _born(pid: int) -> int:
    """Return the start of a process; 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])


_own_born = functools.cache(_born)

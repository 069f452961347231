"""Settles an estimate run on another machine by ssh: sends it, follows the judge, takes the result.

The other machine needs ssh, tar and the same version of akg-tui. HOST and what comes back are
untrusted text: no word of them reaches a shell unquoted, and only plain files are unpacked.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from akg_tui import __version__
from akg_tui.core.sanitize import name_fault, one_line
from akg_tui.store.errors import StoreError
from akg_tui.store.run_folder import HISTORY, TASK, RunFolder, staged_run
from akg_tui.store.run_list import JOURNAL, read_state

SSH = "ssh"
OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=15")
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%\[\]-]*")
SENT = (JOURNAL, HISTORY, TASK)
"""The files of a run that are sent to another machine, and brought back from it."""
MOST_BYTES = 1 << 30
UNREACHED, NOT_EXECUTABLE, NOT_FOUND = 255, 126, 127
WIDTH = 300

Tell = Callable[[dict[str, Any]], None]
"""Shows an event of the run on the other machine, as `--json` prints it."""


class RemoteFault(Exception):
    """The run could not be settled there; the message is one line."""


def settle_on(host: str, run: Path, program: str, words: Sequence[str] = (), *, tell: Tell) -> Path:
    """Settle a run on `host` by `program`, with more `words` for it; return the run brought back.

    Called again after a lost connection, it goes on there where it stopped.

    Raises
    ------
    RemoteFault
        If the machine, its akg-tui or its device cannot be used, or its answer cannot.
    StoreError
        If the run cannot be read, or the result not be written.
    """
    if not HOST.fullmatch(host):
        raise RemoteFault("that is no name of a host")
    _check_version(host, program)
    state, name = read_state(run), run.resolve().name
    place = f".cache/akg_tui/settle/{re.sub(r'[^A-Za-z0-9]', '-', state.run_id)}-{state.seq}"
    _send(host, run, place)
    settled = _measured(host, place, [program, "settle", f"./{name}", "--here", *words], tell)
    found = re.fullmatch(rf"{re.escape(name)}-settled(-\d{{1,6}})?", Path(settled).name)
    if found is None:
        raise RemoteFault("it answered with a run that is not the one that was asked for")
    return _bring_back(host, f"{place}/{found[0]}", run)


def _check_version(host: str, program: str) -> None:
    with _remote(host, shlex.join([program, "--version"])) as process:
        said = process.read_all()
    theirs = one_line(said.decode(errors="replace").removeprefix("akg-tui ").strip(), 40)
    if theirs != __version__:
        raise RemoteFault(f"it has akg-tui {theirs or 'of unknown version'}, not {__version__}")


def _send(host: str, run: Path, place: str) -> None:
    folder = shlex.quote(place)
    command = f"mkdir -p {folder} && cd {folder} && tar -xf -"
    with (
        _remote(host, command) as process,
        contextlib.suppress(BrokenPipeError),
        tarfile.open(fileobj=process.given, mode="w|") as packed,
    ):
        for part in SENT:
            packed.add(run / part, f"./{run.resolve().name}/{part}", filter=_plain)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what is neither a file nor a folder, and the user's names."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry if entry.isfile() or entry.isdir() else None


def _measured(host: str, place: str, words: Sequence[str], tell: Tell) -> str:
    """Run the settling there; return the path of its run."""
    settled = ""
    with _remote(host, f"cd {shlex.quote(place)} && {shlex.join([*words, '--json'])}") as process:
        for line in process.answer:
            try:
                told = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if not isinstance(told, dict):
                continue
            if told.get("type") == "summary":
                settled = str(told.get("run", ""))
            else:
                tell(told)
    return settled


def _bring_back(host: str, place: str, run: Path) -> Path:
    parts = shlex.join(SENT)
    with staged_run(run.resolve().parent, place.rpartition("/")[2]) as (staged, path):
        with _remote(host, f"cd {shlex.quote(place)} && tar -cf - {parts}") as process:
            _unpack(process.answer, staged)
        _check(staged, run)
    RunFolder.open(path).close()  # sets the work tree and PLAN.md
    return path


def _unpack(answer: IO[bytes], staged: Path) -> None:
    left = MOST_BYTES
    try:
        with tarfile.open(fileobj=answer, mode="r|") as packed:
            for entry in packed:
                left -= entry.size
                name = entry.name.removeprefix("./").rstrip("/")
                known = name.partition("/")[0] in SENT and not name_fault(name, folders=True)
                if not (entry.isfile() or entry.isdir()) or not known or left < 0:
                    raise RemoteFault("it sent what is not a run")
                packed.extract(entry, staged, filter="data")
    except tarfile.TarError as error:
        raise RemoteFault(f"its run came back damaged: {one_line(str(error), WIDTH)}") from error


def _check(staged: Path, run: Path) -> None:
    """Check that what came back settles this run, in its present state."""
    asked = read_state(run)
    try:
        taken = read_state(staged).settles
    except StoreError as error:
        raise RemoteFault(f"its run came back damaged: {one_line(str(error), WIDTH)}") from error
    wanted = [(each.number, each.blob) for each in asked.shortlist]
    kernels = [(each.attempt, each.blob) for each in taken.kernels] if taken else []
    if taken is None or taken.parent != asked.run_id or kernels != wanted:
        raise RemoteFault("it answered with a run that is not the one that was asked for")


class _Process:
    """A command on the other machine: what it is given, and what it answers."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.given: IO[bytes] = process.stdin
        self.answer: IO[bytes] = process.stdout

    def read_all(self) -> bytes:
        """Return the answer, bounded."""
        return self.answer.read(1 << 16)


@contextlib.contextmanager
def _remote(host: str, command: str) -> Iterator[_Process]:
    """Run a command of a POSIX shell on `host`; raise `RemoteFault` unless it succeeds."""
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(
                [SSH, *OPTIONS, "--", host, command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
            )
        except OSError as error:
            raise RemoteFault(f"ssh cannot be started: {error.strerror}") from error
        with process:
            fault: RemoteFault | None = None
            try:
                yield _Process(process)
            except RemoteFault as found:
                # If the command failed, its own message is the reason that is told.
                fault = found
            except BaseException:
                process.kill()
                raise
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()  # type: ignore[union-attr]
            if fault is not None:
                process.kill()
            code = process.wait()
        complaints.seek(0)
        said = complaints.read(1 << 16).decode(errors="replace")
    if code > 0:
        raise RemoteFault(_reason(code, said))
    if fault is not None:
        raise fault


def _reason(code: int, said: str) -> str:
    last = one_line(said.strip().rpartition("\n")[2], WIDTH)
    if code == UNREACHED:
        return f"it cannot be reached, or the connection was lost: {last or 'ssh says no reason'}"
    if code in (NOT_FOUND, NOT_EXECUTABLE):
        return f"akg-tui is not found there (--command PATH names it): {last}"
    return last.removeprefix("akg-tui: ") or f"the command ended there with exit code {code}"

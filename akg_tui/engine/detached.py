"""Engines that outlive their terminal: how one is started, its log, and the user's list of them.

A detached engine is the process ``akg-tui resume RUN --detach --foreground`` in a session of its
own. This module starts it, and reads and writes the registry: a file for each run that was ever
detached, in the user's state folder. It decides nothing about a run and never writes its journal.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from akg_tui.core.sanitize import SaidError, one_line
from akg_tui.engine.attach import SOCKET, Attached, NotAttached
from akg_tui.store.errors import StoreError, writing
from akg_tui.store.filesystem import open_below, replace_file
from akg_tui.store.run_list import find_runs
from akg_tui.store.user_files.user_folders import state_folder

LOG = "engine.log"
COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "akg_tui")
START_S = 60.0
POLL_S = 0.02
REGISTERED = 100  # the registry keeps the newest; `akg-tui runs` finds all runs of a folder


class NotStarted(SaidError):
    """The detached engine ended before it took commands; the message is the end of its log."""


class Started(Struct, frozen=True):
    """A detached engine. `socket` is "" if its file system has no sockets.

    If it has ended because the run is over, `pid` is 0.
    """

    run: str
    pid: int
    socket: str


def engine_command(run: Path, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the command of a detached engine."""
    return (*COMMAND, "resume", str(run.absolute()), "--detach", "--foreground", *options)


def start(run: Path, options: Sequence[str] = ()) -> Started:
    """Start a detached engine on a run at rest; return as soon as it takes commands.

    Raises
    ------
    NotStarted
        If it ends at once: the run is at work elsewhere, cannot be opened, or lacks a key.
    StoreError
        If the log cannot be written.
    """
    run = run.absolute()
    with writing(run / LOG):
        log = open_below(run, LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    with os.fdopen(log, "rb") as file:
        began = os.fstat(log).st_size
        process = subprocess.Popen(
            engine_command(run, options),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        until = time.monotonic() + START_S
        while process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(NotAttached):
                link = Attached.to(run)
                link.close()
                if link.pid == process.pid:
                    return Started(str(run), process.pid, str(run / SOCKET))
            time.sleep(POLL_S)
        if process.returncode:
            file.seek(began)
            last = file.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            why = one_line(last.removeprefix("akg-tui: "), 1000)
            raise NotStarted(why or f"the engine ended with exit code {process.returncode}")
    return Started(str(run), process.pid if process.returncode is None else 0, "")


class Registered(Struct, frozen=True):
    """A run that was detached, and the machine of its engine; "" when the engine has ended."""

    run: str
    host: str

    @property
    def elsewhere(self) -> bool:
        """Whether its engine is on another machine, which shares the home folder."""
        return self.host not in ("", socket.gethostname())


def register(run: Path) -> None:
    """Note a run that is detached now. Raises `StoreError` if the registry cannot be written."""
    _note(run, socket.gethostname())


def withdraw(run: Path) -> None:
    """Note that the engine of a run ends: any machine may go on with it. Raises `StoreError`."""
    _note(run, "")


def _note(run: Path, host: str) -> None:
    path = str(run.resolve())
    folder = _folder()
    name = hashlib.sha256(path.encode()).hexdigest()[:16]
    data = msgspec.json.encode(Registered(path, host))
    with writing(folder / name):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / name, data, alone=False)
        os.utime(folder / name)
    for old in _files()[REGISTERED:]:
        with contextlib.suppress(OSError):
            old.unlink()


def registered() -> Iterator[Registered]:
    """Yield the detached runs whose folders are there, the newest first."""
    for file in _files():
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            found = msgspec.json.decode(file.read_bytes(), type=Registered)
            if Path(found.run).is_dir():
                yield found


def known_runs(folder: Path) -> list[Path]:
    """Return the runs of the registry, and those at or below a folder, each once."""
    found = [Path(each.run) for each in registered()]
    if folder.is_dir():
        found += find_runs(folder)
    return list({run.resolve(): run for run in reversed(found)}.values())[::-1]


def _folder() -> Path:
    return state_folder() / "detached"


def _files() -> list[Path]:
    """Return the files of the registry, the newest first."""
    found: list[tuple[float, Path]] = []
    with contextlib.suppress(OSError):
        for path in _folder().iterdir():
            with contextlib.suppress(OSError):
                found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)]


def unit(run: Path, options: Sequence[str] = ()) -> str:
    """Return a systemd user unit that works on a run whenever the machine is up, until it is over.

    Raises `StoreError` if the path cannot stand in a unit.
    """
    words = engine_command(run, options)
    if any(not word.isprintable() for word in words):
        raise StoreError("{path}: such a name cannot stand in a unit", path=run)
    return f"""\
[Unit]
Description=akg-tui: {_escaped(run.name)}

[Service]
ExecStart={" ".join(map(_quoted, words))}
Restart=on-failure
RestartPreventExitStatus=2
SuccessExitStatus=130
TimeoutStopSec=10

[Install]
WantedBy=default.target
"""


def _escaped(text: str) -> str:
    return text.replace("%", "%%").replace("\\", "\\\\")


def _quoted(word: str) -> str:
    """Return a word of ExecStart=, as `man 5 systemd.service` quotes it."""
    return '"' + _escaped(word).replace('"', '\\"').replace("$", "$$") + '"'

"""A run at work, steered from another terminal: a socket in the run folder, and its client.

The server passes a person's commands on to core, as the screen in front of the engine does,
and tells what goes on right now. It journals nothing and decides nothing. Who may connect:
processes of the same user that are no child of the run; a kernel under test is not one.

One JSON object a line, both ways, at most `LINE_BYTES` long. To the server
``{"id": N, "order": NAME, "with": {…}}`` (`akg_tui.core.commands`); from it
``{"akg_tui": 1, "run": ID, "pid": PID}`` first, then ``{"id": N, "refused": WHY or null}``
for each order and ``{"live": {…}}`` whenever that has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from akg_tui.core.commands import BadCommand, Command, command_from_json, command_to_json
from akg_tui.core.decide import Rejected
from akg_tui.core.measurement import Progress
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import RunState
from akg_tui.engine.live import Live, SubagentStream
from akg_tui.store.errors import StoreError

SOCKET = "attach.sock"
PROTOCOL = 1
LINE_BYTES = 256 * 1024
MAX_CLIENTS = 8
LIVE_S = 0.1
ANSWER_S = 0.5
STREAM_CHARS = 4_000

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid of a peer: `man 7 unix`, SO_PEERCRED


class Steered(Protocol):
    """What the server needs of a run at work."""

    @property
    def state(self) -> RunState: ...

    @property
    def live(self) -> Live: ...

    @property
    def path(self) -> str: ...

    def send(self, command: Command) -> Rejected | None: ...


class SubagentNow(Struct, frozen=True):
    """A subagent at work and what it is writing, as it is sent."""

    id: str
    agent: str
    told: str
    text: str

    def as_stream(self) -> SubagentStream:
        made = SubagentStream(self.id, self.agent, self.told)
        made.stream.write(self.text)
        return made


class LiveNow(Struct, frozen=True):
    """What is going on, as it is sent."""

    activity: str
    notice: str
    progress: Progress | None
    stream: str
    subagents: tuple[SubagentNow, ...] = ()

    @classmethod
    def of(cls, live: Live) -> LiveNow:
        subagents = tuple(
            SubagentNow(one.id, one.agent, one.told, one.stream.text[-STREAM_CHARS:])
            for one in live.subagents.at_work
        )
        stream = live.stream[-STREAM_CHARS:]
        return cls(live.activity, live.notice, live.progress, stream, subagents)

    def onto(self, live: Live) -> None:
        """Make `live` show this."""
        if LiveNow.of(live) == self:
            return
        live.show(self.activity)
        live.notice, live.progress = self.notice, self.progress
        live.write(self.stream)
        live.subagents.show(each.as_stream() for each in self.subagents)


class NotAttached(Exception):
    """Nobody takes commands for this run, or the connection is gone."""


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A path of the socket that fits in an address (108 bytes), however deep the folder is."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


@contextlib.asynccontextmanager
async def served(run: Steered) -> AsyncIterator[str]:
    """Take commands for `run` while the block lasts; the value is why not, or "".

    Only the holder of the run's lock may call this: a socket that is there is a dead one.
    """
    folder = Path(run.path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    server: asyncio.Server | None = None
    door = _Door(run)
    why = ""
    try:
        with _short(folder) as address:
            (folder / SOCKET).unlink(missing_ok=True)
            os.fchmod(listening.fileno(), 0o600)  # before it has a name that others could open
            listening.bind(address)
        server = await asyncio.start_unix_server(door.enter, sock=listening, limit=LINE_BYTES)
    except OSError as error:  # a file system without sockets: the run needs none
        listening.close()
        why = error.strerror or str(error)
    try:
        yield why
    finally:
        if server is not None:
            server.close()
            door.shut()
            with contextlib.suppress(OSError):
                (folder / SOCKET).unlink(missing_ok=True)


class _Door:
    """The connections of a run at work."""

    def __init__(self, run: Steered) -> None:
        self._run = run
        self._guests: set[asyncio.Task[None]] = set()

    async def enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        found = writer.get_extra_info("socket")
        try:
            if why := self._unwelcome(found):
                _tell(writer, {"akg_tui": PROTOCOL, "refused": why})
                return
            self._guests.add(task)
            run_id = self._run.state.run_id
            _tell(writer, {"akg_tui": PROTOCOL, "run": run_id, "pid": os.getpid()})
            telling = asyncio.create_task(self._tell_live(writer))
            try:
                await self._serve(reader, writer)
            finally:
                telling.cancel()
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            self._guests.discard(task)
            writer.close()

    def shut(self) -> None:
        for guest in list(self._guests):
            guest.cancel()

    def _unwelcome(self, found: socket.socket) -> str:
        if len(self._guests) >= MAX_CLIENTS:
            return f"{MAX_CLIENTS} others are attached to this run"
        size = _CREDENTIALS.size
        pid, uid, _ = _CREDENTIALS.unpack(
            found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
        if uid != os.getuid():
            return "another user may not steer this run"
        if not trusted(pid):
            return "a process of the run itself may not steer it"
        return ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                line = await reader.readline()
            except ValueError:  # longer than the limit
                _tell(writer, {"id": None, "refused": f"a line is at most {LINE_BYTES} bytes"})
                return
            if not line.endswith(b"\n"):
                return
            _tell(writer, self._answer(line))
            await writer.drain()

    def _answer(self, line: bytes) -> dict[str, Any]:
        number: object = None
        try:
            plain = msgspec.json.decode(line)
            number = plain.get("id") if isinstance(plain, dict) else None
            refused = self._run.send(command_from_json(plain))
        except (msgspec.DecodeError, BadCommand, StoreError) as error:
            return {"id": number, "refused": one_line(str(error), 500)}
        return {"id": number, "refused": refused.why if refused else None}

    async def _tell_live(self, writer: asyncio.StreamWriter) -> None:
        live, seen = self._run.live, -1
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                if live.version != seen:
                    seen = live.version
                    _tell(writer, {"live": LiveNow.of(live)})
                    await writer.drain()
                await asyncio.sleep(LIVE_S)


def trusted(pid: int) -> bool:
    """Whether a process is no part of this run: not below us, and in our own namespaces.

    What the judge runs is a child of it and, where the system allows it, in a network and a
    user namespace of its own that it cannot leave.
    """
    if pid == os.getpid():
        return True
    try:
        for name in ("net", "user"):
            ours, theirs = (
                Path(f"/proc/{which}/ns/{name}").readlink() for which in ("self", str(pid))
            )
            if ours != theirs:
                return False
        while pid > 1:
            if pid == os.getpid():
                return False
            stat = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
            pid = int(stat.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return False  # it hides, or is gone
    return True


def _tell(writer: asyncio.StreamWriter, plain: dict[str, Any]) -> None:
    writer.write(msgspec.json.encode(plain) + b"\n")


class Attached:
    """A connection to the process at work on a run. Blocks for `ANSWER_S` at most."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._rest = b""
        self._asked = 0
        self._live: LiveNow | None = None

    @classmethod
    def to(cls, folder: Path) -> Attached:
        """Connect, and be greeted. Raises `NotAttached`."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        link.settimeout(ANSWER_S)
        try:
            with _short(folder) as address:
                link.connect(address)
        except OSError as error:
            link.close()
            raise NotAttached("nobody takes commands for this run") from error
        made = cls(link)
        greeting = made._next()
        if why := greeting.get("refused"):
            made.close()
            raise NotAttached(one_line(str(why), 300))
        if greeting.get("akg_tui") != PROTOCOL:
            made.close()
            raise NotAttached("the process at work speaks another version; use the same one")
        return made

    def send(self, command: Command) -> Rejected | None:
        """Have the run take a command. Why it was refused, or None. Raises `NotAttached`."""
        try:
            plain = command_to_json(command)
        except BadCommand as error:
            return Rejected(str(error))
        with self._lock:
            return self._ask(plain)

    def _ask(self, plain: dict[str, Any]) -> Rejected | None:
        self._asked += 1
        plain = {"id": self._asked, **plain}
        try:
            self._link.settimeout(ANSWER_S)
            self._link.sendall(msgspec.json.encode(plain) + b"\n")
        except OSError as error:
            self.close()
            raise NotAttached("the process at work is gone; the command was not taken") from error
        while True:
            told = self._next()
            if told.get("id") == self._asked:
                why = told.get("refused")
                return None if why is None else Rejected(one_line(str(why), 500))

    def live(self) -> LiveNow | None:
        """What goes on now, as far as it was told; None when the connection is gone."""
        if not self._lock.acquire(blocking=False):
            return self._live
        try:
            self._link.settimeout(0)
            self._take(b"")  # what came along with the last answer
            while True:
                data = self._link.recv(1 << 16)
                if not data:
                    return None
                self._take(data)
        except BlockingIOError:
            return self._live or LiveNow("", "", None, "")
        except OSError:
            return None
        finally:
            self._lock.release()

    def close(self) -> None:
        self._link.close()

    def _next(self) -> dict[str, Any]:
        """The next message that is not about what goes on. Raises `NotAttached`."""
        while True:
            for told in self._messages():
                return told
            try:
                self._link.settimeout(ANSWER_S)
                data = self._link.recv(1 << 16)
            except TimeoutError as error:
                self.close()
                raise NotAttached(
                    f"the process at work did not answer in {ANSWER_S} s: look whether it took it"
                ) from error
            except OSError as error:
                self.close()
                raise NotAttached("the connection to the process at work is lost") from error
            if not data:
                self.close()
                raise NotAttached("the process at work has ended the connection")
            self._rest += data

    def _take(self, data: bytes) -> None:
        self._rest += data
        for _ in self._messages():
            pass  # an answer that came too late

    def _messages(self) -> Iterator[dict[str, Any]]:
        while b"\n" in self._rest:
            line, self._rest = self._rest.split(b"\n", 1)
            try:
                told = msgspec.json.decode(line, type=dict[str, Any])
                if "live" in told:
                    self._live = msgspec.convert(told["live"], LiveNow)
                    continue
            except (msgspec.DecodeError, msgspec.ValidationError):
                continue
            yield told
        if len(self._rest) > 4 * LINE_BYTES:
            self._rest = b""

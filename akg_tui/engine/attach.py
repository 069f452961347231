"""Attaching to a run at work from another process: a socket in the run folder, and its client.

The server passes a person's commands to the engine and sends the live view. It journals nothing and
decides nothing. It accepts only processes of the same user that are no descendants of the run, so a
kernel under test cannot connect.

The protocol is one JSON object a line, both ways; a line to the server has at most `LINE_BYTES`:
``{"id": N, "order": NAME, "with": {…}}`` (`akg_tui.core.commands`) or ``{"id": N, "ask": ASK}``
(`ASKS`); from the server: ``{"akg_tui": 1, "run": ID, "pid": PID}`` first, then
``{"id": N, "refused": WHY or null}`` for each order and each ask, and ``{"live": {…}}`` whenever
the live view has changed. ``{"ask": "state", "version": V}`` is answered with ``"state": {…}``
besides, the fold of the journal so far, if the client is of the same version.

Any client may watch, one may steer: the first that gives an order, until it hands that over,
another takes it over, or its connection ends. While one steers, no other detaches the run.
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
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from akg_tui import __version__
from akg_tui.core.commands import BadCommand, Command, command_from_json, command_to_json
from akg_tui.core.decide import Rejected
from akg_tui.core.measurement import Progress
from akg_tui.core.sanitize import Said, SaidError, encode_said, one_line
from akg_tui.core.state import RunState
from akg_tui.engine.live import Live, SubagentStream
from akg_tui.engine.run_handle import RunHandle
from akg_tui.store.errors import RunLocked, StoreError
from akg_tui.store.lock import holder
from akg_tui.store.run_at_rest import Refused, command_at_rest

SOCKET = "attach.sock"
PROTOCOL = 1
LINE_BYTES = 256 * 1024
STATE_BYTES = 64 * 1024 * 1024  # the most that a client reads as one line: a million events fit
MAX_CLIENTS = 8
LIVE_S = 0.1
ANSWER_S = 0.5
STREAM_CHARS = 4_000

Ask = Literal["take", "give", "detach"]
ASKS: tuple[Ask, ...] = get_args(Ask)
"""Requests of a client to the server itself: to steer in place of the client that does, to steer no
longer, or that the run goes on without the terminal that it is at work in.
"""

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid of a peer: `man 7 unix`, SO_PEERCRED


class SubagentNow(Struct, frozen=True):
    """A subagent at work and the text that it is writing, in the form of the protocol."""

    id: str
    agent: str
    told: str
    text: str

    def as_stream(self) -> SubagentStream:
        made = SubagentStream(self.id, self.agent, self.told)
        made.stream.write(self.text)
        return made


class LiveNow(Struct, frozen=True):
    """The live view of a run, in the form of the protocol."""

    activity: str
    notice: str
    progress: Progress | None
    stream: str
    subagents: tuple[SubagentNow, ...] = ()
    holds: bool = False

    @classmethod
    def of(cls, live: Live) -> LiveNow:
        subagents = tuple(
            SubagentNow(one.id, one.agent, one.told, one.stream.text[-STREAM_CHARS:])
            for one in live.subagents.at_work
        )
        stream = live.stream[-STREAM_CHARS:]
        return cls(live.activity, live.notice, live.progress, stream, subagents, live.holds)

    def onto(self, live: Live) -> None:
        """Copy this view into `live`."""
        if LiveNow.of(live) == self:
            return
        live.show(self.activity, holds=self.holds)
        live.notice, live.progress = self.notice, self.progress
        live.write(self.stream)
        live.subagents.show(each.as_stream() for each in self.subagents)


class NotAttached(SaidError):
    """No process takes commands for this run, or the connection is lost."""


@contextlib.contextmanager
def _socket_address(folder: Path) -> Iterator[str]:
    """Yield a path of the socket that fits in an address (108 bytes), for folders of any depth."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


@contextlib.asynccontextmanager
async def served(run: RunHandle) -> AsyncIterator[str]:
    """Take commands for `run` while the block lasts; yield why the server cannot start, or "".

    Only the holder of the run's lock may call this: an existing socket file is then stale.
    """
    folder = Path(run.path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    server: asyncio.Server | None = None
    connections = _Connections(run)
    why = ""
    try:
        with _socket_address(folder) as address:
            (folder / SOCKET).unlink(missing_ok=True)
            os.fchmod(listening.fileno(), 0o600)  # before others can open the socket by name
            listening.bind(address)
        server = await asyncio.start_unix_server(
            connections.accept, sock=listening, limit=LINE_BYTES
        )
    except OSError as error:  # a file system without sockets: the run works without one
        listening.close()
        why = error.strerror or str(error)
    try:
        yield why
    finally:
        if server is not None:
            server.close()
            connections.close()
            with contextlib.suppress(OSError):
                (folder / SOCKET).unlink(missing_ok=True)


class _Connections:
    """The connections of a run at work."""

    def __init__(self, run: RunHandle) -> None:
        self._run = run
        self._tasks: set[asyncio.Task[None]] = set()
        self._steers: tuple[asyncio.Task[None], int] | None = None  # a connection, and its process

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        peer = writer.get_extra_info("socket")
        try:
            pid, why = self._looked_at(peer)
            if why:
                _send_line(writer, {"akg_tui": PROTOCOL, "refused": why})
                return
            self._tasks.add(task)
            self._run.live.screens += 1
            run_id = self._run.state.run_id
            _send_line(writer, {"akg_tui": PROTOCOL, "run": run_id, "pid": os.getpid()})
            sending = asyncio.create_task(self._send_live(writer))
            try:
                await self._serve(reader, writer, (task, pid))
            finally:
                sending.cancel()
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            if task in self._tasks:
                self._run.live.screens -= 1
            self._tasks.discard(task)
            if self._steers is not None and self._steers[0] is task:
                self._steers = None
            writer.close()

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    def _looked_at(self, peer: socket.socket) -> tuple[int, str]:
        """Return the process of a client, and why it may not connect, or ""."""
        told = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(told)
        if uid != os.getuid():
            return pid, "another user may not steer this run"
        if not trusted(pid):
            return pid, "a process of the run itself may not steer it"
        if len(self._tasks) >= MAX_CLIENTS:
            return pid, Said("{n} others are attached to this run", n=MAX_CLIENTS)
        return pid, ""

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client: tuple[asyncio.Task[None], int],
    ) -> None:
        while True:
            try:
                line = await reader.readline()
            except ValueError:  # longer than `LINE_BYTES`
                _send_line(
                    writer,
                    {"id": None, "refused": Said("a line is at most {n} bytes", n=LINE_BYTES)},
                )
                return
            if not line.endswith(b"\n"):
                return
            _send_line(writer, self._answer(line, client))
            await writer.drain()

    def _answer(self, line: bytes, client: tuple[asyncio.Task[None], int]) -> dict[str, Any]:
        number: object = None
        try:
            plain = msgspec.json.decode(line)
            number = plain.get("id") if isinstance(plain, dict) else None
            if isinstance(plain, dict) and plain.get("ask") == "state":
                if plain.get("version") != __version__:
                    return {"id": number, "refused": "this run is of another version"}
                return {"id": number, "refused": None, "state": self._run.state}
            if isinstance(plain, dict) and "ask" in plain:
                return {"id": number, "refused": self._asked(plain["ask"], client)}
            command = command_from_json(plain)
            if why := self._steered_by_another(client):
                return {"id": number, "refused": why}
            self._steers = client
            refused = self._run.send(command)
        except (msgspec.MsgspecError, BadCommand, StoreError, UnicodeDecodeError) as error:
            return {"id": number, "refused": one_line(str(error), 500)}
        except RecursionError:
            return {"id": number, "refused": "nested too deeply"}
        return {"id": number, "refused": refused.why if refused else None}

    def _steered_by_another(self, client: tuple[asyncio.Task[None], int]) -> str:
        """Return why a client may not steer, or ""."""
        if self._steers is None or self._steers == client:
            return ""
        return Said(
            "process {n} steers this run: take it over with :take, or with ctl --take",
            n=self._steers[1],
        )

    def _asked(self, ask: object, client: tuple[asyncio.Task[None], int]) -> str | None:
        match ask:
            case "take":
                self._steers = client
            case "give":
                if self._steers == client:
                    self._steers = None
            case "detach":
                if why := self._steered_by_another(client):
                    return why
                if self._run.live.detach is None:
                    return "there is no terminal that this run could leave"
                self._run.live.detach()
            case _:
                return f"expected one of {', '.join(ASKS)}"
        return None

    async def _send_live(self, writer: asyncio.StreamWriter) -> None:
        live, seen = self._run.live, -1
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                if live.version != seen:
                    seen = live.version
                    _send_line(writer, {"live": LiveNow.of(live)})
                    await writer.drain()
                await asyncio.sleep(LIVE_S)


def trusted(pid: int) -> bool:
    """Return whether a process is no descendant of this one but shares its namespaces.

    Processes of the judge are descendants of this one and, where the system allows it, in a network
    and a user namespace that they cannot leave.
    """
    if pid == os.getpid():
        return True
    try:
        for name in ("net", "user"):
            ours, theirs = Path("/proc/self/ns", name), Path(f"/proc/{pid}/ns", name)
            if ours.readlink() != theirs.readlink():
                return False
        while pid > 1:
            if pid == os.getpid():
                return False
            stat = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
            pid = int(stat.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return False  # the process is hidden or has ended
    return True


def _send_line(writer: asyncio.StreamWriter, plain: dict[str, Any]) -> None:
    writer.write(msgspec.json.encode(plain, enc_hook=encode_said) + b"\n")


class Attached:
    """A connection to the process at work on a run. Its calls block for at most `ANSWER_S`."""

    def __init__(self, link: socket.socket) -> None:
        self.pid = 0
        self._link = link
        self._lock = threading.Lock()
        self._rest = b""
        self._asked = 0
        self._live: LiveNow | None = None
        self._state = b""

    @classmethod
    def to(cls, folder: Path) -> Attached:
        """Connect and read the greeting. Raises `NotAttached`."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        link.settimeout(ANSWER_S)
        try:
            with _socket_address(folder) as address:
                link.connect(address)
        except PermissionError as error:
            link.close()
            raise NotAttached("it is another user's run: only its owner may steer it") from error
        except OSError as error:
            link.close()
            raise NotAttached("nobody takes commands for this run") from error
        made = cls(link)
        greeting = made._next()
        if why := greeting.get("refused"):
            raise made._lost(one_line(str(why), 300))
        if greeting.get("akg_tui") != PROTOCOL:
            raise made._lost("the process at work speaks another version; use the same one")
        pid = greeting.get("pid")
        made.pid = pid if isinstance(pid, int) else 0
        return made

    def send(self, command: Command) -> Rejected | None:
        """Send a command to the run; return the refusal, or None. Raises `NotAttached`."""
        try:
            plain = command_to_json(command)
        except BadCommand as error:
            return Rejected(str(error))
        return self._put(plain)

    def ask(self, what: Ask) -> Rejected | None:
        """Ask the server itself; return the refusal, or None. Raises `NotAttached`."""
        return self._put({"ask": what})

    def state(self) -> RunState | None:
        """Return the fold of the run's journal so far, made by the process at work.

        None if this version would not have made the same of it. Raises `NotAttached`.
        """
        refused = self._put({"ask": "state", "version": __version__})
        told, self._state = self._state, b""
        if refused is not None:
            return None
        try:
            state = msgspec.json.decode(told, type=RunState)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
            return None
        return state if msgspec.json.encode(state, enc_hook=encode_said) == told else None

    def _put(self, plain: dict[str, Any]) -> Rejected | None:
        with self._lock:
            self._asked += 1
            try:
                self._link.settimeout(ANSWER_S)
                self._link.sendall(msgspec.json.encode({"id": self._asked, **plain}) + b"\n")
            except OSError as error:
                why = "the process at work is gone; the command was not taken"
                raise self._lost(why) from error
            while (told := self._next()).get("id") != self._asked:
                pass  # a late answer to an earlier command
        refused = told.get("refused")
        return None if refused is None else Rejected(one_line(str(refused), 500))

    def live(self) -> LiveNow | None:
        """Return the newest live view received; None when the connection is lost."""
        if not self._lock.acquire(blocking=False):
            return self._live
        try:
            self._link.settimeout(0)
            while True:
                for _ in self._messages():
                    pass  # a late answer to an earlier command
                data = self._link.recv(1 << 16)
                if not data:
                    return None
                self._rest += data
        except BlockingIOError:
            return self._live or LiveNow("", "", None, "")
        except OSError:
            return None
        finally:
            self._lock.release()

    def close(self) -> None:
        self._link.close()

    def _lost(self, why: str) -> NotAttached:
        self.close()
        return NotAttached(why)

    def _next(self) -> dict[str, Any]:
        """Return the next message other than a live view. Raises `NotAttached`."""
        while True:
            if told := next(self._messages(), None):
                return told
            try:
                self._link.settimeout(ANSWER_S)
                data = self._link.recv(1 << 16)
            except TimeoutError as error:
                why = Said(
                    "the process at work did not answer in {n} s: look whether it took it",
                    n=ANSWER_S,
                )
                raise self._lost(why) from error
            except OSError as error:
                raise self._lost("the connection to the process at work is lost") from error
            if not data:
                raise self._lost("the process at work has ended the connection")
            self._rest += data

    def _messages(self) -> Iterator[dict[str, Any]]:
        while b"\n" in self._rest:
            line, self._rest = self._rest.split(b"\n", 1)
            try:
                parts = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
                if "live" in parts:
                    self._live = msgspec.json.decode(parts["live"], type=LiveNow)
                    continue
                self._state = bytes(parts.pop("state", b""))
                told = {name: msgspec.json.decode(part) for name, part in parts.items()}
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
            yield told
        if len(self._rest) > STATE_BYTES:
            self._rest = b""


def send_to_run(run: Path, command: Command, *, take: bool = False) -> None:
    """Send a run a command: to the process at work on it, or in a session of its own at rest.

    With `take` the caller steers in place of another process.

    Raises
    ------
    Refused
        If the run does not allow the command now, or another process steers it.
    NotAttached, StoreError
        If the process at work takes no commands, or the run cannot be written.
    """
    if holder(run) is None:
        with contextlib.suppress(RunLocked):  # a process that cannot be seen from here
            command_at_rest(run, command)
            return
    with contextlib.closing(Attached.to(run)) as link:
        refused = (link.ask("take") if take else None) or link.send(command)
    if refused is not None:
        raise Refused(refused.why)


def ask_to_detach(run: Path, *, take: bool = False) -> Rejected | None:
    """Let a run at work leave its terminal; return the refusal, or None. Raises `NotAttached`.

    With `take` also if another process steers it.
    """
    with contextlib.closing(Attached.to(run)) as link:
        return (link.ask("take") if take else None) or link.ask("detach")

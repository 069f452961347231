"""The HTTP of the lab: a hand-written server on a free port, so that it can break anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any

from benchmarks.lab.cache import PromptCache
from benchmarks.lab.replies import (
    PING,
    USAGE,
    HalfClose,
    Hold,
    Pings,
    Reply,
    Reset,
    Send,
    Step,
    call,
    message,
    refuse,
)
from benchmarks.lab.rules import Memory, header_fault, shape_fault

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"


@dataclass(frozen=True)
class Request:
    """A request as it came. `usage` is what the simulated cache makes of it."""

    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: dict[str, Any]
    usage: dict[str, Any] = field(default_factory=dict)


Script = Callable[[Request], "Reply | Awaitable[Reply]"]


def able(request: Request) -> Reply:
    """The answer to a probe, from a server that can do all."""
    blocks = [call("report_number", {"number": 7})]
    if "thinking" in request.body:
        blocks.insert(0, {"type": "thinking", "thinking": "seven", "signature": "s7"})
    usage = {**USAGE, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    return message(blocks, usage=usage)


class Lab:
    """A server that answers by `script`, for use in ``async with``.

    Attributes
    ----------
    requests : list of Request
        All that came for `/v1/messages`, also those refused.
    memory : Memory
        What it noted of prefixes and thoughts.
    hung_up : asyncio.Event
        Set when the other side goes away in the middle of a reply.
    """

    def __init__(
        self,
        script: Script,
        *,
        key: str = "sk-lab-secret",
        clock: Callable[[], float] = lambda: 0.0,
        port: int = 0,
    ) -> None:
        self.requests: list[Request] = []
        self.probes: list[dict[str, Any]] = []
        self.on_probe: Callable[[Request], Reply] = able
        self.refused: list[str] = []
        self.memory = Memory()
        self.hung_up = asyncio.Event()
        self.count_tokens: int | None = 10
        self._script = script
        self._key = key
        self._cache = PromptCache(clock)
        self._port = port
        self._server: asyncio.Server | None = None
        self._ahead: dict[asyncio.StreamReader, bytes] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Lab:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first = self._ahead.pop(reader, b"")
        received = first + await reader.readuntil(b"\r\n\r\n")
        head = received.decode("latin-1").split("\r\n")
        path = head[0].split(" ")[1]
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        reply = await self._reply(path, headers, raw)
        return await self._send(reply, reader, writer)

    async def _reply(self, path: str, headers: Mapping[str, str], raw: bytes) -> Reply:
        if path.partition("?")[0] == COUNT:
            if self.count_tokens is None:
                return refuse(404, "not_found_error")
            counted = json.dumps({"input_tokens": self.count_tokens}).encode()
            return Reply([Send(counted)], headers={"content-type": "application/json"})
        if path.partition("?")[0] != MESSAGES:
            return refuse(404, "not_found_error", f"no such path {path}")
        bearer = headers.get("authorization") == f"Bearer {self._key}"
        if not bearer and headers.get("x-api-key") != self._key:
            return refuse(401, "authentication_error", "invalid x-api-key")
        body = json.loads(raw)
        fault = header_fault(headers) or shape_fault(body)
        if fault:
            self.requests.append(Request(path, headers, raw, body))
            self.refused.append(fault)
            return refuse(400, "invalid_request_error", fault)
        if body.get("tools") and body["tools"][0]["name"] == "report_number":
            self.probes.append(body)
            return self.on_probe(Request(path, headers, raw, body))
        self.memory.look(body)
        request = Request(path, headers, raw, body, self._cache.usage(body))
        self.requests.append(request)
        answer = self._script(request)
        return await answer if isinstance(answer, Awaitable) else answer

    async def _send(
        self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        headers = {"request-id": f"req_{len(self.requests)}", **reply.headers}
        lines = [
            f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"
            if reply.status in HTTPStatus._value2member_map_
            else f"HTTP/1.1 {reply.status} Busy"
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["transfer-encoding: chunked", "", ""]
        writer.write("\r\n".join(lines).encode())
        gone = asyncio.create_task(self._watch(reader))
        try:
            for step in reply.steps:
                if not await self._step(step, writer, gone):
                    return False
            if reply.ends:
                writer.write(b"0\r\n\r\n")
                await writer.drain()
            return reply.ends and not (gone.done() and reader.at_eof())
        except ConnectionError:
            self.hung_up.set()
            return False
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        """Ends when the other side goes away while a reply is under way."""
        if first := await reader.read(1):
            self._ahead[reader] = first  # of the next request, which may come at once
        else:
            self.hung_up.set()

    async def _step(
        self, step: Step, writer: asyncio.StreamWriter, gone: asyncio.Task[None]
    ) -> bool:
        match step:
            case Send(data, piece):
                size = piece or len(data) or 1
                for at in range(0, len(data), size):
                    part = data[at : at + size]
                    writer.write(b"%x\r\n%s\r\n" % (len(part), part))
                    await writer.drain()
                    if piece:
                        await asyncio.sleep(0)
            case Hold(until):
                waiting = asyncio.create_task(until.wait())
                await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                return until.is_set()
            case Pings():
                while not gone.done():
                    writer.write(b"%x\r\n%s\r\n" % (len(PING), PING))
                    await writer.drain()
                    await asyncio.wait({gone}, timeout=0.005)
                return False
            case Reset():
                sock = writer.get_extra_info("socket")
                linger = struct.pack("ii", 1, 0)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
                return False
            case HalfClose():
                writer.write_eof()
                await gone
                return False
        return True


@contextlib.contextmanager
def served(script: Any) -> Iterator[Lab]:
    """A server of scripted replies in a thread of its own: a command has its own event loop."""
    lab, ready, loop = Lab(script), threading.Event(), asyncio.new_event_loop()
    done = asyncio.Event()

    async def serve() -> None:
        async with lab:
            ready.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    try:
        yield lab
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()

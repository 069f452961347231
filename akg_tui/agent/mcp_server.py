"""The MCP server of a run: its tools and `situation`, over stdio.

The only module that uses the SDK of the protocol, the extra `akg-tui[mcp]`; imported by the command
alone. Decides nothing: `Driver` makes the calls, and the run's executor answers them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from akg_tui import __version__
from akg_tui.agent.chat import ToolSpec
from akg_tui.agent.driver import Driver, Told

HEARTBEAT_S = 5.0
SITUATION = "situation"
_INSTRUCTIONS = (
    "You tune one compute kernel inside a state machine. Call `situation` first: it tells the "
    "rules, the task, the facts and the kernel. The phase decides which tools are allowed; each "
    "answer tells what to do next. While the harness measures, call `situation` to wait."
)
_ABOUT_SITUATION = (
    "Tells the state of the run: at first the rules, the task, the facts, the plan and "
    "the kernel, later the phase, the last verdict and the open items. It waits while the harness "
    "is at work, up to about a minute; then call it again. `whole` tells everything again."
)
_SITUATION = types.Tool(
    name=SITUATION,
    description=_ABOUT_SITUATION,
    input_schema={
        "type": "object",
        "properties": {"whole": {"type": "boolean", "default": False}},
        "required": [],
        "additionalProperties": False,
    },
    annotations=types.ToolAnnotations(read_only_hint=True),
)

Context = ServerRequestContext[Any, Any]


def server_of(
    driver: Driver, specs: Sequence[ToolSpec], begin: Callable[[], str] = str
) -> Server[Any]:
    """Return a server that offers the tools `specs`, whose calls `driver` makes.

    `begin` is called before each call; it makes sure that the run is at work, and returns why it
    cannot be, which is then the answer, or "".
    """
    tools = [
        _SITUATION,
        *(
            types.Tool(name=each.name, description=each.description, input_schema=each.parameters)
            for each in specs
        ),
    ]

    async def on_list(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def on_call(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        given = params.arguments or {}
        if why := begin():
            return _answer(Told((why,), failed=True))
        async with _heartbeat(context, driver.outside):
            return _answer(await _told(driver, params.name, given))

    return Server(
        "akg-tui",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=on_list,
        on_call_tool=on_call,
    )


def _answer(told: Told) -> types.CallToolResult:
    content = [types.TextContent(type="text", text=text) for text in told.texts]
    return types.CallToolResult(content=list(content), is_error=told.failed)


async def _told(driver: Driver, name: str, given: dict[str, Any]) -> Told:
    if name != SITUATION:
        return await driver.call(name, given)
    if set(given) - {"whole"} or type(given.get("whole", False)) is not bool:
        return Told((f"{SITUATION} takes only whole, true or false",), failed=True)
    return await driver.situation(whole=given.get("whole", False))


@contextlib.asynccontextmanager
async def _heartbeat(context: Context, doing: Callable[[], str]) -> AsyncIterator[None]:
    """Report progress during a call, so that clients which count silence do not give it up."""

    async def beat() -> None:
        for count in range(1, 1 << 30):
            await asyncio.sleep(HEARTBEAT_S)
            await context.session.report_progress(float(count), None, doing())

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # a client that is gone is no fault


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client on standard input and output, until the input ends."""
    async with stdio_server(stdin=cast(Any, _Lines())) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


class _Lines:
    """The lines of standard input, which nothing else in this process reads any more.

    A thread of its own reads them and ends with the process: the SDK's own reader would hold a
    signal up until the next line comes.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._source = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        rest = b""
        with contextlib.suppress(RuntimeError):  # the loop has ended before the input
            while data := os.read(self._source, 1 << 16):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    text = line.decode(errors="replace")
                    self._loop.call_soon_threadsafe(self._lines.put_nowait, text)
            self._loop.call_soon_threadsafe(self._lines.put_nowait, None)

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if line is None:
            raise StopAsyncIteration
        return line

"""The workbench over HTTP on loopback: textual-serve, with a token at the start of every path.

Owns access control. Each page is one process of the command line, with the browser as its
terminal. Imported only by `serve`.
"""

from __future__ import annotations

import asyncio
import hmac
import shlex
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from aiohttp import web
from textual_serve.server import Server

from akg_tui.tui.textual_internals import served_application

HOST = "127.0.0.1"
FRAMES_PER_SECOND = 15

# The browser must load nothing from other hosts, and must not send them the token as a referrer.
_HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
        " font-src 'self'; img-src 'self' data:; connect-src 'self' ws:; base-uri 'none'"
    ),
}

_REFUSED = "A token is needed: open the address that akg-tui serve printed.\n"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Target:
    """The content of one page: a name for people, and the arguments of the page's command."""

    name: str
    command: tuple[str, ...]


class _Page(Server):
    """The server of one target, mounted in a larger application: starts and prints nothing."""

    def __init__(self, target: Target, port: int) -> None:
        super().__init__(
            f"TEXTUAL_FPS={FRAMES_PER_SECOND} exec {shlex.join(target.command)}",
            host=HOST,
            port=port,
            title=target.name,
            templates_path=Path(__file__).parent / "served",
        )

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing: `serve` passes the address to `tell`."""


async def application(targets: Sequence[Target], port: int, token: str) -> web.Application:
    """Return an application with all targets below ``/TOKEN/``; other paths get status 403."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        shown = request.path.removeprefix("/").partition("/")[0]  # `*` is a path too
        if not hmac.compare_digest(shown.encode(errors="replace"), token.encode()):
            return web.Response(status=403, text=_REFUSED, headers=_HEADERS)
        return await handler(request)

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)

    async def index(request: web.Request) -> web.Response:
        if len(targets) == 1:
            raise web.HTTPFound(f"/{token}/0/")
        rows = "".join(
            f'<li><a href="/{token}/{number}/">{escape(target.name)}</a></li>'
            for number, target in enumerate(targets)
        )
        page = f"<!DOCTYPE html><title>akg-tui</title><h1>akg-tui</h1><ul>{rows}</ul>"
        return web.Response(text=page, content_type="text/html")

    app = web.Application(middlewares=[guard])
    app.on_response_prepare.append(add_headers)
    app.router.add_get(f"/{token}/", index)
    for number, target in enumerate(targets):
        app.add_subapp(f"/{token}/{number}/", await served_application(_Page(target, port)))
    return app


async def serve(
    targets: Sequence[Target], listener: socket.socket, token: str, tell: Callable[[str], None]
) -> None:
    """Serve on `listener` until SIGINT or SIGTERM; call `tell` with the address once open."""
    port = listener.getsockname()[1]
    runner = web.AppRunner(await application(targets, port, token), shutdown_timeout=5.0)
    await runner.setup()
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    try:
        await web.SockSite(runner, listener).start()
        tell(f"http://{HOST}:{port}/{token}/")
        await over.wait()
    finally:
        await runner.cleanup()


def listening(port: int) -> socket.socket:
    """Return a socket bound to `port` on the loopback address; 0 takes a free port.

    Raises
    ------
    OSError
        If the port is taken or not permitted.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError:
        listener.close()
        raise
    return listener

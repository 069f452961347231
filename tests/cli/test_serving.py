"""The workbench in a browser: a real server, a real client, a real websocket."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from akg_tui.cli import main

TOKEN_PAGE = re.compile(r"open (http://127\.0\.0\.1:(\d+)/([\w-]+)/)")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small task folder."""
    from akg_tui.resources import sample_kernels

    folder = tmp_path_factory.mktemp("served") / "a task; echo <b>"
    folder.mkdir()
    for name in ("task.toml", "reference.py", "kernel.py"):
        (folder / name).write_bytes((sample_kernels() / "row_softmax" / name).read_bytes())
    return folder


class Served:
    """`akg-tui serve`, from its first line to its end."""

    def __init__(self, *folders: Path, cwd: Path | None = None) -> None:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "LANG": "C.UTF-8"}
        environment["PYTHONPATH"] = str(Path(__file__).parents[2])
        command = [sys.executable, "-m", "akg_tui", "serve", "--port", "0", *map(str, folders)]
        self.process = subprocess.Popen(
            command, cwd=cwd, stdout=subprocess.PIPE, text=True, env=environment,
            start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        found = TOKEN_PAGE.match(self.process.stdout.readline())
        assert found is not None
        self.address, self.port, self.token = found[1], int(found[2]), found[3]
        self.origin = f"http://127.0.0.1:{self.port}"

    def close(self) -> int:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)
        return self.process.returncode


@pytest.fixture(scope="module")
def served(task: Path) -> Iterator[Served]:
    server = Served(task)
    yield server
    assert server.close() == 0, "ctrl+c ends serving"


async def test_without_the_token_everything_is_refused(served: Served) -> None:
    wrong = served.token[:-1] + ("a" if served.token[-1] != "a" else "b")
    paths = ["/", "/ws", "/static/js/textual.js", f"/?token={served.token}", "//"]
    paths += [f"/{wrong}/", f"/{wrong}/0/", f"/{wrong}/0/ws", f"/x/{served.token}/"]
    async with aiohttp.ClientSession() as client:
        for path in paths:
            async with client.get(served.origin + path) as reply:
                assert reply.status == 403, path
                assert served.token not in await reply.text()
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(f"{served.origin}/{wrong}/0/ws")
        assert refused.value.status == 403


async def test_with_the_token_there_is_the_page_and_nothing_comes_from_elsewhere(
    served: Served,
) -> None:
    async with aiohttp.ClientSession() as client:
        async with client.get(served.address) as reply:
            page = await reply.text()
            assert reply.status == 200
            assert reply.headers["Referrer-Policy"] == "no-referrer"
            assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
        assert "<b>" not in page, "a folder's name is not markup"
        (socket,) = re.findall(r'data-session-websocket-url="([^"]+)"', page)
        assert socket == f"ws://127.0.0.1:{served.port}/{served.token}/0/ws"
        links = re.findall(r'(?:src|href)="([^"]+)"|url\("([^"]+)"\)', page)
        assert links
        for link in (one or other for one, other in links):
            assert link.startswith(f"{served.origin}/{served.token}/0/static/")
            async with client.get(link) as reply:
                assert reply.status == 200, link


async def test_the_socket_shows_the_workbench_and_takes_keys(served: Served) -> None:
    shown = b""
    address = f"ws://127.0.0.1:{served.port}/{served.token}/0/ws?width=120&height=40"
    async with aiohttp.ClientSession() as client, client.ws_connect(address) as socket:
        await socket.send_json(["resize", {"width": 120, "height": 40}])

        async def until(*texts: str) -> None:
            nonlocal shown
            while not all(text.encode() in shown for text in texts):
                message = await socket.receive()
                assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), message
                if message.type is aiohttp.WSMsgType.BINARY:
                    shown += message.data

        await asyncio.wait_for(until("akg-tui", "1 plan"), 60)
        shown = b""
        await socket.send_json(["stdin", "?"])
        await asyncio.wait_for(until("type to search"), 60)


async def test_without_a_folder_the_list_is_served_and_what_is_no_message_ends_its_page_alone(
    tmp_path: Path,
) -> None:
    server = Served(cwd=tmp_path)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"HTTP/1.1 403" in await asyncio.wait_for(reader.read(), 30)
    writer.close()
    address = f"ws://127.0.0.1:{server.port}/{server.token}/0/ws"
    data = (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT)
    shown = b""
    async with aiohttp.ClientSession() as client:
        async with client.ws_connect(f"{address}?width=120&height=40") as socket:
            await socket.send_json(["resize", {"width": 120, "height": 40}])
            while b"There is no run here yet." not in shown:
                message = await asyncio.wait_for(socket.receive(), 60)
                shown += message.data if message.type is aiohttp.WSMsgType.BINARY else b""
        for text in ("[" * 100_000, '["stdin", "\\ud800"]', "{}"):
            async with client.ws_connect(f"{address}?width={'9' * 5000}") as socket:
                await socket.send_str(text)
                while (message := await asyncio.wait_for(socket.receive(), 60)).type in data:
                    pass
                assert message.type is not aiohttp.WSMsgType.ERROR, text[:60]
        async with client.get(server.address) as reply:
            assert reply.status == 200
    assert server.close() == 0


def test_it_listens_on_this_machine_only(served: Served) -> None:
    listening = Path("/proc/net/tcp").read_text()
    assert f"0100007F:{served.port:04X}" in listening
    assert f"00000000:{served.port:04X}" not in listening


def test_what_cannot_be_served_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "/nowhere"]) == 2
    told = "/nowhere is no run (events.jsonl) and no task (task.toml)"
    assert told in capsys.readouterr().err


def test_a_port_that_is_taken_is_told(
    served: Served, task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", str(served.port), str(task)]) == 2
    assert f"port {served.port}: " in capsys.readouterr().err


async def test_several_folders_have_a_page_that_lists_them(task: Path) -> None:
    server = Served(task, task)
    async with aiohttp.ClientSession() as client, client.get(server.address) as reply:
        page = await reply.text()
    assert server.close() == 0
    assert f'href="/{server.token}/0/"' in page
    assert f'href="/{server.token}/1/"' in page
    assert "&lt;b&gt;" in page

"""A run at work, followed and steered from outside through its folder."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.commands import PERSON_COMMANDS, BadCommand, command_from_json, command_to_json
from akg_tui.core.fold import fold
from akg_tui.core.phases import Gate, Mode
from akg_tui.core.task import Policy
from akg_tui.engine import attach
from akg_tui.engine.attach import PROTOCOL, SOCKET, Attached, NotAttached, ask_to_detach, served
from akg_tui.engine.engine import Engine
from akg_tui.engine.follower import Followed
from akg_tui.store.journal import read
from akg_tui.store.journal_reader import PAGE
from akg_tui.store.run_list import JOURNAL
from tests.engine.runs import create, engine


@asynccontextmanager
async def at_work(folder: Path, mode: Mode = Mode.STEP) -> AsyncIterator[Engine]:
    """A run that waits for a person."""
    work = engine(create(folder, mode=mode))
    task = asyncio.create_task(work.run())
    await until(lambda: "waiting" in work.live.activity)
    try:
        yield work
    finally:
        task.cancel()
        await asyncio.wait({task})
        await work.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


def test_every_command_of_a_person_travels_whole() -> None:
    samples: list[cmd.Command] = [
        cmd.SetMode(Mode.REVIEW),
        cmd.ChangePolicy(Policy(max_rounds=3)),
        cmd.AnswerGate(2, approve=False, comment="no\x1b[31m"),
        cmd.ReorderItems(("p2", "p1")),
        cmd.AdoptPlanEdit("PLAN.md.edited-1", ev.PlanChange()),
        cmd.HintSubagent("s2", "use less"),
        cmd.StopSubagent("s2", "late"),
        cmd.Stop("enough"),
    ]
    for command in samples:
        assert command_from_json(json.loads(json.dumps(_plain(command)))) == command


def _plain(command: cmd.Command) -> dict[str, object]:
    import msgspec

    return msgspec.to_builtins(command_to_json(command))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("plain", "told"),
    [
        ([], "Expected `object`, got `array`"),
        ({"order": "Settle", "with": {"commit": "0"}}, "'Settle' is not a person's command"),
        ({"order": "Observe", "with": {}}, "is not a person's command"),
        ({"order": "Hint", "with": {"text": 3}}, "Expected `str`, got `int`"),
        ({"order": "Hint", "with": {"text": "x", "by": "me"}}, "unknown field `by`"),
        ({"order": "Hint", "with": "x"}, "Expected `object`, got `str`"),
    ],
)
def test_nothing_else_is_an_order(plain: object, told: str) -> None:
    with pytest.raises(BadCommand, match=told):
        command_from_json(plain)
    with pytest.raises(BadCommand):
        command_to_json(cmd.Settle("0"))
    assert "Observe" not in PERSON_COMMANDS


def test_an_order_cannot_say_that_it_comes_from_the_command_line() -> None:
    plain = {"order": "SetMode", "with": {"mode": "auto", "source": "command line"}}
    assert command_from_json(plain) == cmd.SetMode(Mode.AUTO, "user")


async def test_a_run_at_work_is_followed_and_steered(tmp_path: Path) -> None:
    async with at_work(tmp_path / "task") as work:
        followed = Followed(Path(work.path), steer=True)
        following = asyncio.create_task(followed.run())
        await until(lambda: followed.live.activity == work.live.activity != "")
        assert followed.state == work.state
        assert followed.kernel(followed.state.seed_blob) == work.kernel(work.state.seed_blob)
        assert await asyncio.to_thread(followed.send, cmd.Hint("wider")) is None
        assert work.state.hints == ("wider",)
        assert work.live.screens == 1, "somebody is there to answer a question"
        refused = await asyncio.to_thread(followed.send, cmd.AnswerGate(9, approve=True))
        assert refused is not None
        assert refused.why
        await asyncio.to_thread(followed.send, cmd.SetMode(Mode.AUTO))
        await until(lambda: bool(followed.state.finished))
        assert list(followed.records) == list(work.records)
        following.cancel()
        await followed.close()
        await until(lambda: work.live.screens == 0)
    assert not (Path(work.path) / SOCKET).exists()


async def test_the_state_is_handed_over_and_followed_from_there(tmp_path: Path) -> None:
    async with at_work(tmp_path / "task") as work:
        path = Path(work.path)
        for number in range(PAGE):
            assert work.send(cmd.SetGate(Gate.PLAN, on=number % 2 == 0)) is None
        handed, whole = await asyncio.to_thread(Followed, path, steer=True), Followed(path)
        assert handed.past is None, "no event was folded"
        assert handed.state == whole.state == fold(read(path / JOURNAL))
        assert list(handed.records) == list(whole.records)
        work.send(cmd.Hint("wider"))
        assert await handed.more()
        assert handed.state == work.state
        await handed.close()
        (path / JOURNAL).write_bytes(b"".join(islice((path / JOURNAL).open("rb"), 9)))
        cut = await asyncio.to_thread(Followed, path, steer=True)
        assert cut.past is not None, "the journal is not that of the state"
        assert cut.state.seq == 9
        await cut.close()


@pytest.mark.parametrize("told", [{"refused": "no"}, {"refused": None}, {"lanes": []}])
async def test_a_state_of_another_version_is_folded_by_the_viewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: dict[str, object]
) -> None:
    def answered(self: object, line: bytes, client: object) -> dict[str, object]:
        state = {"refused": None, "state": {**msgspec.to_builtins(work.state), **told}}
        return {"id": json.loads(line)["id"], **(told if "refused" in told else state)}

    async with at_work(tmp_path / "task") as work:
        monkeypatch.setattr(attach._Connections, "_answer", answered)
        followed = await asyncio.to_thread(Followed, Path(work.path), steer=True)
        assert followed.past is not None
        assert followed.state == work.state
        await followed.close()


async def test_no_event_is_lost_while_viewers_come_and_go_under_load(tmp_path: Path) -> None:
    async with at_work(tmp_path / "task") as work:

        async def load() -> None:
            for number in itertools.count():
                work.send(cmd.SetGate(Gate.PLAN, on=number % 2 == 0))
                await asyncio.sleep(0)

        loading = asyncio.create_task(load())
        for _ in range(20):
            viewer = await asyncio.to_thread(Followed, Path(work.path), steer=True)
            begun = viewer.state.seq
            viewing = asyncio.create_task(viewer.run())
            await until(lambda begun=begun, viewer=viewer: viewer.state.seq > begun + 20)  # type: ignore[misc]
            viewing.cancel()
            await asyncio.wait({viewing})
            await viewer.close()
            seen = list(viewer.records)
            assert seen == list(work.records[: len(seen)])
            assert viewer.state == fold(seen[: viewer.state.seq])
        loading.cancel()
        await until(lambda: work.live.screens == 0)


async def test_a_replay_sends_nothing_and_one_at_rest_says_how_to_go_on(tmp_path: Path) -> None:
    async with at_work(tmp_path / "task") as work:
        replay = Followed(Path(work.path))
        assert "is a replay" in replay.send(cmd.Hint("x")).why  # type: ignore[union-attr]
        assert not replay.live.at_rest
    rest = Followed(Path(work.path), steer=True)
    assert rest.live.at_rest
    assert "nobody takes commands" in rest.send(cmd.Hint("x")).why  # type: ignore[union-attr]
    following = asyncio.create_task(rest.run())
    await until(lambda: "akg-tui resume" in rest.live.activity)
    following.cancel()


async def test_who_only_watches_may_not_detach_the_run(tmp_path: Path) -> None:
    async with at_work(tmp_path / "task") as work:
        left: list[bool] = []
        work.live.detach = lambda: left.append(True)
        path = Path(work.path)
        steers = await asyncio.to_thread(Attached.to, path)
        assert await asyncio.to_thread(steers.send, cmd.Hint("mine")) is None
        refused = await asyncio.to_thread(ask_to_detach, path)
        assert refused is not None
        assert "steers this run" in refused.why
        assert not left
        assert await asyncio.to_thread(lambda: ask_to_detach(path, take=True)) is None
        assert left
        steers.close()


def greeted(folder: Path, greeting: dict[str, object]) -> Attached:
    """Connect to a process that says only this."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / SOCKET))
        listening.listen()

        def greet() -> None:
            with listening.accept()[0] as link:
                link.sendall(json.dumps(greeting).encode() + b"\n")

        with ThreadPoolExecutor() as threads:
            threads.submit(greet)
            return Attached.to(folder)


@pytest.mark.parametrize("pid", ["x", [1], None])
def test_a_greeting_with_a_bad_process_number_harms_nothing(tmp_path: Path, pid: object) -> None:
    link = greeted(tmp_path, {"akg_tui": PROTOCOL, "pid": pid})
    assert link.pid == 0
    link.close()


def test_a_process_of_a_newer_version_is_not_steered(tmp_path: Path) -> None:
    with pytest.raises(NotAttached, match="another version"):
        greeted(tmp_path, {"akg_tui": PROTOCOL + 1, "pid": 1})


async def test_the_socket_is_for_its_owner_alone(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / "task"  # an address holds 108 bytes
    async with at_work(deep) as work:
        assert (Path(work.path) / SOCKET).stat().st_mode & 0o777 == 0o600
        link = await asyncio.to_thread(Attached.to, Path(work.path))
        link.close()


async def test_a_child_of_the_run_may_not_steer_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from akg_tui.core import commands as cmd\n"
        "from akg_tui.engine.attach import Attached\n"
        "Attached.to(Path(sys.argv[1])).send(cmd.Hint('mine'))\n"
    )
    async with at_work(tmp_path / "task") as work:
        command = [sys.executable, "-c", code, work.path]
        ran = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, check=False
        )
        assert "a process of the run itself may not steer it" in ran.stderr
        assert work.state.hints == ()


async def test_rubbish_is_answered_and_harms_nothing(tmp_path: Path) -> None:
    def rubbish(path: str) -> list[bytes]:
        with socket.socket(socket.AF_UNIX) as link:
            os.chdir(path)
            link.connect(SOCKET)
            file = link.makefile("rwb")
            answers = []
            deep = b"[" * 100_000 + b"]" * 100_000
            old = b'{"ask": "state", "version": "0"}'
            for line in (b"\xff\x00", b"[]", b'{"order": "Hint"}', old, deep, b"[" * 300_000):
                file.write(line + b"\n")
                file.flush()
                while b'"refused"' not in (told := file.readline()):
                    assert told
                answers.append(told)
            return answers

    here = Path.cwd()
    async with at_work(tmp_path / "task") as work:
        try:
            answers = await asyncio.to_thread(rubbish, work.path)
        finally:
            os.chdir(here)
        assert b"another version" in answers[-3]
        assert b"nested too deeply" in answers[-2]
        assert b"a line is at most" in answers[-1]
        assert work.state.hints == ()
        link = await asyncio.to_thread(Attached.to, Path(work.path))
        assert await asyncio.to_thread(link.send, cmd.Hint("still there")) is None
        link.close()


async def test_a_dead_socket_is_replaced_and_a_folder_without_sockets_is_told(
    tmp_path: Path,
) -> None:
    work = engine(create(tmp_path / "task"))
    dead = Path(work.path) / SOCKET
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(dead))
    with pytest.raises(NotAttached):
        Attached.to(Path(work.path))
    async with served(work) as why:
        assert why == ""
        link = await asyncio.to_thread(Attached.to, Path(work.path))
        link.close()
    dead.mkdir()
    async with served(work) as why:
        assert why
    await work.close()

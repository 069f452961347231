"""Scripts without leave: confined by every protection, in a scratch, and evidence of nothing."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest

from akg_tui.agent.tools import scripts
from akg_tui.agent.tools.scripts import NO_EVIDENCE
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Gate
from akg_tui.core.task import Agent
from akg_tui.evaluate.sandbox.protections import offered
from tests.agent.test_tools import UNIQUE, become, calling, running

LOST = [str(each) for each in offered() if not each.held]
everywhere = pytest.mark.skipif(bool(LOST), reason=f"this machine lacks: {', '.join(LOST)}")

BUILDS = """\
import ctypes, pathlib, subprocess, sys
from akg_tui.dsl import compile_cpp

print(pathlib.Path("work/kernel.py").read_text().splitlines()[0])
print(sorted(each.name for each in pathlib.Path("task").iterdir()))
lib = compile_cpp('extern "C" int seven() { return 7; }', ("-O1",))
print(lib.seven())
pathlib.Path("a.c").write_text('int printf(const char*, ...); int main() { printf("ran\\\\n"); }')
subprocess.run(["cc", "-w", "-o", "a.out", "a.c"], check=True)
print(subprocess.run(["./a.out"], capture_output=True, text=True).stdout.strip())
for place in ("notes/x", "work/kernel.py", "../x"):
    try:
        pathlib.Path(place).write_text("x")
        print(place, "was written")
    except OSError:
        print(place, "is closed")
for hidden in ("events.jsonl", "history.git/HEAD"):
    try:
        print(open(pathlib.Path("work").resolve().parent / hidden).read(10))
    except OSError:
        print(hidden, "is closed")
"""


@everywhere
async def test_a_script_reads_the_run_builds_and_runs_programs_and_changes_nothing(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as call:
        result = await call("execute_script", script_path="notes/a.py", content=BUILDS)
        assert result.status == "success", result.error_information
        said = call.kept("result.json")["output"].splitlines()
        assert said == [
            'SPEED = "A"  # tune: ["A", "B", "C", "WRONG"]',
            "['reference.py', 'task.toml']",
            "7",
            "ran",
            "notes/x is closed",
            "work/kernel.py is closed",
            "../x is closed",
            "events.jsonl is closed",
            "history.git/HEAD is closed",
        ]
        assert re.search(rf" end\]\n\([\d.]+ of 300 s; {NO_EVIDENCE}\)\Z", result.output)
        assert (call.run / "notes/a.py").read_text() == BUILDS
        assert [path.name for path in (call.run / "notes").iterdir()] == ["a.py"]


COMPARES = """\
import os
from akg_tui.dsl.bench import bench, remaining

print(0 < remaining() <= 40)
found = bench({"long": lambda: sum(range(100_000)), "short": lambda: sum(range(100))}, 0.1)
print([each.name for each in found], found[0].ratio > 10)
os._exit(3)  # which flushes nothing
"""


@everywhere
async def test_a_script_compares_variants_and_what_it_printed_comes_back_however_it_ends(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as call:
        given = {"script_path": "notes/a.py", "content": COMPARES, "timeout": 40}
        result = await call("execute_script", **given)
        assert result.status == "error"
        said = call.kept("result.json")["output"].splitlines()
        assert (said[0], said[3]) == ("True", "['short', 'long'] True")
        assert re.match(r"short: [\d.]+ us of CPU a call \(least [\d.]+\), [\d.]+ x long", said[1])


async def test_what_a_script_printed_is_kept_when_a_person_ends_its_visit(tmp_path: Path) -> None:
    async with calling(tmp_path, agent=Agent(allow_script=True)) as call:
        sleep = f"sleep {UNIQUE}2"
        call.note("a.sh", f"echo first; echo odd >&2; {sleep} & echo > ready; {sleep}")
        os.mkfifo(call.run / "notes/ready")
        given = {"script_path": "notes/a.sh", "working_dir": "notes"}
        work = asyncio.create_task(call("execute_script", **given))
        await asyncio.to_thread((call.run / "notes/ready").read_text)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        answered = call.engine.records[-1].event
        assert isinstance(answered, ev.ToolAnswered)
        assert (answered.status, answered.output) == ("error", "first\n")
        assert answered.error_information == "execute_script was stopped\nodd"
        assert not call.engine.state.open_calls
        assert call.kept("output.txt").startswith("first\n")
        await become(lambda: running(sleep) == 0)


@everywhere
async def test_a_script_that_writes_to_notes_needs_leave(tmp_path: Path) -> None:
    async with calling(tmp_path) as call:
        path = call.note("a.sh", "touch ran\n")
        why = await call.refused("execute_script", script_path=path, working_dir="notes")
        assert "is not allowed in this run" in why
        assert why.endswith("Without working_dir it may run, in a scratch.")
        assert not (call.run / "notes/ran").exists()


async def test_what_a_person_refused_stays_refused_without_the_gate(tmp_path: Path) -> None:
    async with calling(tmp_path) as call:
        path = call.note("a.sh", "echo ran\n")
        call.engine.send(cmd.SetGate(Gate.SCRIPT, on=True))
        assert "waits for a person" in await call.refused("execute_script", script_path=path)
        gate = call.engine.state.gate
        assert gate is not None
        call.engine.send(cmd.AnswerGate(gate.gate, approve=False))
        call.engine.send(cmd.SetGate(Gate.SCRIPT, on=False))
        why = await call.refused("execute_script", script_path=path)
        assert why == "a person refused this script"


async def test_a_machine_that_lacks_a_protection_runs_no_script_without_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = scripts.run_process

    async def without_network(words: list[str], **how: Any) -> Any:
        assert "--require-all" in words
        assert "--scratch" in words
        confined = words[words.index("-m") : words.index("--")]
        inner = ["/bin/sh", "-c", "echo 'confined: not confined: netns (no)' >&2; exit 125"]
        assert "akg_tui.evaluate.sandbox.run_confined" in confined
        return await real(inner, **how)

    monkeypatch.setattr(scripts, "run_process", without_network)
    async with calling(tmp_path) as call:
        path = call.note("a.sh", "echo ran\n")
        why = await call.refused("execute_script", script_path=path)
        assert why.endswith("The sandbox of this machine lacks: netns (no)")


@everywhere
async def test_a_script_is_ended_when_all_its_processes_use_too_much_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "MEMORY_GB", 0.25)
    each = "import time; x = bytearray(120 << 20); time.sleep(60)"
    body = f"""\
import subprocess, sys, time
for _ in range(4):
    subprocess.Popen([sys.executable, "-c", {each!r}])
time.sleep(60)
"""
    async with calling(tmp_path) as call:
        why = await call.refused("execute_script", script_path=call.note("a.py", body))
        assert "the process was ended: its" in why
        assert "GiB, more than 0.2" in why


async def test_a_script_waits_until_a_measurement_is_done(tmp_path: Path) -> None:
    async with calling(tmp_path, agent=Agent(allow_script=True)) as call:
        path = call.note("a.sh", "echo ran\n")
        async with call.engine.computing:
            work = asyncio.create_task(call.good("execute_script", script_path=path))
            await asyncio.sleep(0)
            assert not work.done()
        assert await work == "ran\n"

"""Each tool on a real run: what it does, what it answers, and what it leaves in the trace."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from akg_tui.agent.chat import ToolResult, ToolUse
from akg_tui.agent.tools.executor import MAX_TOLD, ToolExecutor
from akg_tui.agent.tools.measuring import PROBES_A_VISIT
from akg_tui.agent.tools.run_access import Agents, SubagentCall
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.phases import Gate, Phase
from akg_tui.core.task import Agent, Task
from akg_tui.engine.engine import Engine
from akg_tui.evaluate.sandbox.protections import offered
from akg_tui.evidence.compile_report import MOST_LINES
from akg_tui.evidence.findings import CompilerRemark, KernelFindings, MachineCode
from akg_tui.evidence.page import Evidence
from akg_tui.evidence.roof import Roof
from tests.agent.live import held
from tests.fresh_interpreter import printed

SCRIPTS = Agent(allow_script=True)
ROOT = Path(__file__).parents[2]


class Caller:
    """Makes calls in a run, and remembers where the last one left its trace."""

    def __init__(self, engine: Engine, agents: Agents | None = None) -> None:
        self.engine = engine
        self.run = Path(engine.path)
        self.executor = ToolExecutor(engine, agents)

    async def __call__(self, tool: str, **arguments: Any) -> ToolResult:
        return await self.executor.execute(ToolUse("u1", tool, arguments))

    async def good(self, tool: str, **arguments: Any) -> str:
        """The raw output of a call that must succeed, as the trace has it."""
        result = await self(tool, **arguments)
        assert result.status == "success", result.error_information
        return self.kept("result.json")["output"]

    async def refused(self, tool: str, **arguments: Any) -> str:
        result = await self(tool, **arguments)
        assert result.status == "error", result.output
        return self.kept("result.json")["error_information"]

    @property
    def node(self) -> Path:
        return sorted((self.run / "trace").iterdir())[-1]

    def kept(self, name: str) -> Any:
        text = (self.node / name).read_text()
        return json.loads(text) if name.endswith(".json") else text

    def note(self, name: str, text: str) -> str:
        path = self.run / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return f"notes/{name}"


@contextlib.asynccontextmanager
async def calling(
    folder: Path, agents: Agents | None = None, **held_with: Any
) -> AsyncIterator[Caller]:
    """The caller in a run that is held."""
    async with held(folder, **held_with) as engine:
        yield Caller(engine, agents)


# What every call leaves behind


async def test_a_call_is_kept_with_request_result_and_output(tmp_path) -> None:
    async with calling(tmp_path) as call:
        await call("write_file", content="hello", file_path="notes/a.md")
        assert call.kept("request.json") == {
            "tool": "write_file",
            "arguments": {"content": "hello", "file_path": "notes/a.md"},
        }
        result = call.kept("result.json")
        assert result == {
            "status": "success",
            "output": "notes/a.md: 5 bytes",
            "error_information": "",
        }
        assert call.kept("output.txt") == "notes/a.md: 5 bytes"
        seq = int(call.node.name.split("-")[0])
        assert isinstance(call.engine.records[seq - 1].event, ev.ToolCalled)
        await call("write_file", content="x", file_path="/etc/passwd")
        result = call.kept("result.json")
        assert set(result) == {"status", "output", "error_information"}
        assert result["status"] == "error"


def measured(code: str) -> dict[str, str]:
    return {"task_code": "task/reference.py", "generated_code": code, "op_name": "relu"}


FAST = 'SPEED = "C"\n\n\nclass ModelNew:\n    pass\n'
WRONG = FAST.replace("C", "WRONG")


async def test_a_result_is_chained_into_the_next_call(tmp_path) -> None:
    async with calling(tmp_path) as call:
        await call.good("profile_kernel", **measured(FAST))
        first = f"trace/{call.node.name}/result.json"
        speedup = f"read_json_file('{first}')['output']['speedup']"
        # The whole value is a number, and stays one; within a text it is text.
        why = await call.refused("write_file", content=speedup, file_path="notes/a.txt")
        assert "content is number, expected string" in why
        name = f"notes/read_json_file('{first}')['output']['op_name'].txt"
        assert (
            await call.good("write_file", content="x", file_path=name) == "notes/relu.txt: 1 bytes"
        )
        call.note("data.json", '{"rows": [{"nested": 2}]}')
        second = "read_json_file('notes/data.json')['rows'][0]['nested']"
        lines = call.note("lines.txt", "one\ntwo\n")
        assert (await call.good("read_file", file_path=lines, offset=second)).startswith("two\n")
        why = await call.refused("read_file", file_path="read_json_file('trace/none.json')['a']")
        assert "No such file" in why


class Noisy:
    """A tool's code that logs, and then fails as its prompt says."""

    async def run(self, call: SubagentCall) -> ToolResult:
        log = logging.getLogger("somebody")
        log.info("quiet")
        log.warning("the disk is nearly full")
        await asyncio.sleep(0)
        log.error("x" * 5_000)
        if call.arguments["prompt"] == "break":
            raise RuntimeError("a bug")
        failed = call.arguments["prompt"] == "fail"
        return ToolResult.error("could not") if failed else ToolResult.success("done")


async def test_what_a_tool_logs_is_summarised_in_its_result_and_in_no_other(tmp_path) -> None:
    async with calling(tmp_path, {"subagent": Noisy()}) as call:
        logging.getLogger("somebody").warning("before: nobody's")
        why = await call.refused("task", prompt="fail")
        assert why.startswith("could not\nWARNING somebody: the disk")
        assert len(why) < 1_000
        assert "quiet" not in why
        assert "before" not in why
        assert len(call.kept("captured_errors.log")) > 5_000
        assert "the disk is nearly full" in await call.good("task", prompt="work")
        assert call.kept("result.json")["error_information"] == ""


async def test_a_tool_that_breaks_is_a_result_with_its_trace_kept(tmp_path) -> None:
    async with calling(tmp_path, {"subagent": Noisy()}) as call:
        why = await call.refused("task", prompt="break")
        assert why.startswith("task broke: RuntimeError: a bug")
        assert "Traceback" in call.kept("captured_errors.log")


async def test_a_huge_result_is_cut_for_the_model_and_whole_in_the_trace(tmp_path) -> None:
    async with calling(tmp_path) as call:
        text = "".join(f"{number} {'x' * 90}\n" for number in range(4_000))
        result = await call("read_file", file_path=call.note("a.txt", text), limit=5_000)
        assert len(result.output) < MAX_TOLD + 500
        assert f"all of them in trace/{call.node.name}/output.txt" in result.output
        assert call.kept("output.txt") == text
        told = call.engine.records[-1].event
        assert isinstance(told, ev.ToolAnswered)
        assert len(told.output) == 2_000


async def test_huge_and_unwritable_arguments_are_refused_or_mended(tmp_path) -> None:
    async with calling(tmp_path) as call:
        why = await call.refused("write_file", content="x" * (3 << 20))
        assert "at most 2097152 are taken" in why
        called = call.engine.records[-2].event
        assert isinstance(called, ev.ToolCalled)
        assert set(called.arguments) == {"too_large_bytes"}
        await call.refused("read_file", file_path="\ud800", offset=1 << 70)
        deep: Any = []
        for _ in range(50):
            deep = [deep]
        await call.refused("edit_kernel", ops=deep)
        for _ in range(100_000):
            deep = [deep]
        assert "nested too deeply" in await call.refused("edit_kernel", ops=deep)


async def test_a_result_that_json_cannot_hold_is_mended(tmp_path) -> None:
    async with calling(tmp_path) as call:
        call.note("a.json", '{"name": "\\ud800", "n": 1e999}')
        name = "read_json_file('notes/a.json')['name']"
        arguments = measured(FAST) | {"op_name": name}
        told = json.loads(await call.good("verify_then_profile", **arguments))
        assert told["2-profile_kernel"]["op_name"] == "?"
        why = await call.refused("read_file", file_path=f"notes/{name}")
        assert why == "notes/?: No such file or directory"
        number = "read_json_file('notes/a.json')['n']"
        why = await call.refused("read_file", file_path="notes/a.json", offset=number)
        assert "offset is not a finite number, expected integer" in why


async def test_a_tool_of_any_name_is_answered_and_kept_inside_the_trace(tmp_path) -> None:
    names = "", "x" * 100_000, "../../x", "\ud800", "a\0b", "read_kernel\n", "\x1b[2J", "读"
    async with calling(tmp_path) as call:
        for name in names:
            assert "there is no tool" in await call.refused(name, a=1)
            assert call.node.parent == call.run / "trace"
            answered = call.engine.records[-1].event
            assert isinstance(answered, ev.ToolAnswered)
            assert len(answered.tool) <= 200
            assert call.engine.state.open_calls == ()


# read_file, write_file


async def test_a_file_is_read_in_parts_and_a_folder_is_listed(tmp_path) -> None:
    async with calling(tmp_path) as call:
        path = call.note("a.txt", "one\ntwo\nthree\n")
        part = await call.good("read_file", file_path=path, offset=2, limit=1)
        assert part == "two\n\n(lines 2 to 2 of 3; offset shows others)"
        assert "none from 9 on" in await call.refused("read_file", file_path=path, offset=9)
        assert await call.good("read_file", file_path=str(call.run / path)) == "one\ntwo\nthree\n"
        assert "class Model" in await call.good("read_file", file_path="task/reference.py")
        assert (await call.good("read_file", file_path="task")).split() == [
            "reference.py",
            "task.toml",
        ]
        (call.run / "notes" / "b").write_bytes(b"\xff\xfe\x00")
        assert "not UTF-8 text" in await call.refused("read_file", file_path="notes/b")


async def test_a_written_file_is_named_by_the_call_or_by_operator_and_type(tmp_path) -> None:
    async with calling(tmp_path) as call:
        assert "notes/speed.txt:" in await call.good("write_file", content="a")
        named = {"op_name": "relu", "file_type": "python"}
        assert "notes/relu.py:" in await call.good("write_file", content="a", **named)
        why = await call.refused("write_file", content="b", overwrite=False, **named)
        assert "exists already" in why
        assert (call.run / "notes" / "relu.py").read_text() == "a"
        await call.good("write_file", content="b", file_path="notes/relu.py")
        assert (call.run / "notes" / "relu.py").read_text() == "b"
        path = {"file_path": "notes/deep/er/x.md"}
        await call.good("write_file", content="é", encoding="latin-1", **path)
        assert (call.run / "notes/deep/er/x.md").read_bytes() == b"\xe9"
        why = await call.refused("write_file", content="b", overwrite=False, **path)
        assert "exists already" in why
        why = await call.refused("write_file", content="漢", encoding="ascii", **path)
        assert "no ascii form at character 0" in why
        why = await call.refused("write_file", content="a", encoding="rot13", **path)
        assert "is not one of" in why


# check_python_code, check_markdown


async def test_python_is_checked_and_formatted_under_notes_alone(tmp_path) -> None:
    async with calling(tmp_path) as call:
        path = call.note("a.py", "x=1\n")
        assert "was formatted" in await call.good("check_python_code", file_path=path)
        assert (call.run / path).read_text() == "x = 1\n"
        assert "the form too" in await call.good("check_python_code", file_path=path)
        why = await call.refused("check_python_code", file_path=call.note("b.py", "x = 1\ny = (\n"))
        assert why.startswith("notes/b.py:2: ")
        kernel = (call.run / "work" / "kernel.py").read_bytes()
        await call.good("check_python_code", file_path="work/kernel.py")
        assert (call.run / "work" / "kernel.py").read_bytes() == kernel


async def test_settings_and_plugins_beside_a_file_are_not_loaded(tmp_path) -> None:
    async with calling(tmp_path) as call:
        call.note("setup.cfg", "[pycodestyle]\nignore = E225\n")
        call.note(".pymarkdown", '{"plugins": {"md041": {"enabled": false}}}')
        call.note("pymarkdown/__main__.py", "raise SystemExit('owned')\n")
        await call.good("check_python_code", file_path=call.note("a.py", "x=1\n"))
        assert (call.run / "notes" / "a.py").read_text() == "x = 1\n"
        why = await call.refused("check_markdown", file_path=call.note("a.md", "text\n"))
        assert "notes/a.md:1:1: MD041" in why


async def test_markdown_is_checked_by_line(tmp_path) -> None:
    async with calling(tmp_path) as call:
        good = call.note("a.md", "# Title\n\nText.\n")
        assert "nothing to mend" in await call.good("check_markdown", file_path=good)
        why = await call.refused("check_markdown", file_path=call.note("b.md", "# A\n\n#B\n"))
        assert why.startswith("notes/b.md:3:1: MD018")


# execute_script


async def test_a_script_is_refused_unless_the_task_or_a_person_allows_it(tmp_path) -> None:
    async with calling(tmp_path, agent=Agent(allow_script=False)) as call:
        path = call.note("a.sh", "touch ran; echo hello\n")
        why = await call.refused("execute_script", script_path=path)
        assert "not allowed in this run" in why
        call.engine.send(cmd.SetGate(Gate.SCRIPT, on=True))
        assert "waits for a person" in await call.refused(
            "execute_script", script_path=path, args=["x"]
        )
        assert call.engine.state.gate.detail == f"{path} x\ntouch ran; echo hello\n"
        call.engine.send(cmd.AnswerGate(call.engine.state.gate.gate, approve=False))
        why = await call.refused("execute_script", script_path=path, args=["x"])
        assert why == "a person refused this script"
        assert not (call.run / "notes" / "ran").exists()
        await call.refused("execute_script", script_path=path)
        call.engine.send(cmd.AnswerGate(call.engine.state.gate.gate, approve=True))
        there = {"script_path": path, "working_dir": "notes"}
        assert await call.good("execute_script", **there) == "hello\n"
        assert (call.run / "notes" / "ran").exists()


async def test_leave_is_for_the_text_that_was_asked_about(tmp_path) -> None:
    async with calling(tmp_path) as call:
        call.engine.send(cmd.SetGate(Gate.SCRIPT, on=True))
        path = call.note("a.sh", "echo this\n")
        await call.refused("execute_script", script_path=path)
        call.engine.send(cmd.AnswerGate(call.engine.state.gate.gate, approve=True))
        call.note("a.sh", "echo another\n")  # changed once the person had read it
        assert "waits for a person" in await call.refused("execute_script", script_path=path)
        call.note("a.sh", "echo this\n")
        assert await call.good("execute_script", script_path=path) == "this\n"
        assert call.kept("a.sh") == "echo this\n"


async def test_a_script_gets_its_arguments_input_and_folder_and_no_secrets(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    body = (
        "import os, sys, socket\n"
        "print(sys.argv[1:], sys.stdin.read(), os.path.basename(os.getcwd()))\n"
        "print('key' if 'ANTHROPIC_API_KEY' in os.environ else 'no key')\n"
        "try:\n    socket.create_connection(('127.0.0.1', 9), 1)\n"
        "except OSError as error:\n    print('net', type(error).__name__)\n"
    )
    async with calling(tmp_path, agent=SCRIPTS) as call:
        path = call.note("deep/a.py", body)
        said = await call.good(
            "execute_script",
            script_path=path,
            args=["a b", "$HOME"],
            stdin_input="typed",
            working_dir="notes/deep",
        )
        assert said.startswith("['a b', '$HOME'] typed deep\nno key\nnet ")


async def test_a_script_that_fails_gives_its_output_its_status_and_its_stderr(tmp_path) -> None:
    async with calling(tmp_path, agent=SCRIPTS) as call:
        path = call.note("a.sh", "echo out; echo trouble >&2; exit 3\n")
        result = await call("execute_script", script_path=path)
        assert result.status == "error"
        assert "out" in result.output
        kept = call.kept("result.json")
        assert kept["error_information"] == "notes/a.sh: ended with status 3\ntrouble"
        assert call.kept("captured_errors.log") == "trouble\n"


async def test_a_script_that_hangs_is_killed_with_all_it_started(tmp_path) -> None:
    sleep = f"sleep {UNIQUE}1"
    # Only a namespace ends one that left the group too.
    apart = "pidns" in {protection.name for protection in offered() if protection.held}
    body = f"{'setsid' if apart else ''} {sleep} & {sleep} & {sleep}\n"
    async with calling(tmp_path, agent=SCRIPTS) as call:
        path = call.note("a.sh", body)
        work = asyncio.create_task(call.refused("execute_script", script_path=path, timeout=3))
        await become(lambda: running(sleep) == 3)
        assert "was killed, with all it started, after 3 s" in await work
        await become(lambda: running(sleep) == 0)


UNIQUE = 10_000_000 + os.getpid()
"""Tells this test's processes from all others: inside, their numbers are a namespace's own."""


def running(line: str) -> int:
    """How many processes of the machine run this command line, seen from outside."""
    found = 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                words = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
                found += words == line.encode().split()
    return found


async def become(holds: Callable[[], bool]) -> None:
    """Wait until it holds: a namespace ends a moment after its first process does."""
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_flood_of_output_is_bounded(tmp_path) -> None:
    async with calling(tmp_path, agent=SCRIPTS) as call:
        path = call.note("a.sh", "yes beginning 2>/dev/null | head -c 30000000; echo the end\n")
        said = await call.good("execute_script", script_path=path)
        assert len(said) < 1_100_000
        assert said.startswith("beginning")
        assert "[cut]" in said
        assert said.endswith("the end\n")


# verify_kernel, profile_kernel


async def test_a_kernel_is_verified_and_profiled_without_any_event_but_the_calls(tmp_path) -> None:
    async with calling(tmp_path) as call:
        before = call.engine.state
        facts = json.loads(await call.good("verify_kernel", **measured(FAST)))
        assert facts["correct"] is True
        assert facts["op_name"] == "relu"
        facts = json.loads(await call.good("profile_kernel", **measured(FAST), run_times=7))
        assert (facts["gen_time_us"], facts["base_time_us"], facts["speedup"]) == (1000, 3000, 3)
        assert facts["correctness"] == "not verified"
        assert not {"correct", "max_error"} & set(facts)
        assert call.engine._judge.probes == [(False, 0, 0), (True, 7, 5)]
        kinds = {type(record.event) for record in call.engine.records[before.seq :]}
        assert kinds == {ev.ToolCalled, ev.ToolAnswered}
        assert call.engine.state.attempts == before.attempts


async def test_a_profile_tells_what_binds_in_plan_too_as_one_page(tmp_path) -> None:
    asked = []

    async def inspect(task: Task, reference: str, kernel: KernelFiles) -> Evidence:
        asked.append((task.op, kernel.text))
        roof = Roof("", 3_000_000, 10, "L2", 6e9, 1e9, "float32")
        remark = CompilerRemark(4, "missed", "not vectorized: \x1b[31mred")
        code = MachineCode(compiler="g++", remarks=(remark,) * 300)
        left_out = {"hot loop": "not allowed here"}
        return Evidence((roof,), KernelFindings(code=code, left_out=left_out))

    async with held(tmp_path, hold=Phase.PLAN) as engine:
        engine._inspect = inspect
        text = await Caller(engine).good("profile_kernel", **measured(FAST))
        assert asked == [("speed", FAST)]
        assert len(text.splitlines()) <= MOST_LINES
        facts = json.loads(text)
        assert (facts["gen_time_us"], facts["speedup"]) == (1000, 3)
        assert facts["roofline"][0]["binds"] == "memory (L2, 6 GB/s)"
        assert facts["roofline"][0]["share_of_limit"] == 0.5
        assert facts["left_out"]["hot loop"] == "not allowed here"
        assert facts["remarks"][0] == "kernel.py:4 missed: not vectorized: ␛[31mred"


async def test_a_wrong_kernel_is_an_error_and_the_reference_may_be_given_whole(tmp_path) -> None:
    async with calling(tmp_path) as call:
        reference = (call.run / "task" / "reference.py").read_text()
        arguments = measured(WRONG) | {"task_code": f"\n{reference}\n\n"}
        assert "wrong: wrong values" in await call.refused("verify_kernel", **arguments)
        arguments = measured("notes/k.py") | {"cur_path": "notes/out"}
        call.note("k.py", FAST)
        await call.good("verify_kernel", **arguments)
        assert json.loads((call.run / "notes/out/verify_result.json").read_text())["correct"]


async def test_probes_of_a_visit_are_numbered(tmp_path) -> None:
    async with calling(tmp_path) as call:
        for _ in range(PROBES_A_VISIT):
            await call.good("verify_kernel", **measured(FAST))
        assert "edit the kernel" in await call.refused("verify_kernel", **measured(FAST))


async def test_a_probe_that_takes_too_long_tells_the_stages_that_it_reached(
    tmp_path, monkeypatch
) -> None:
    async with held(tmp_path) as engine:

        async def slow(*args: object, limit_s: float, **kwargs: object) -> Measurement:
            why = f"built in 31 s, given up in verification after {limit_s:g} s"
            return Measurement(outcome=Outcome.FAILED, failure=FailureKind.TIMEOUT, message=why)

        monkeypatch.setattr(engine._judge, "probe", slow)
        call = Caller(engine)
        why = await call.refused("verify_kernel", **measured(FAST), timeout=7)
        assert why.endswith("built in 31 s, given up in verification after 7 s")
        why = await call.refused("profile_kernel", generated_code=FAST)
        assert why.endswith("given up in verification after 600 s")


# call_workflow, call_agent


async def test_a_workflow_runs_its_steps_and_keeps_each_in_its_place(tmp_path) -> None:
    async with calling(tmp_path) as call:
        told = json.loads(await call.good("verify_then_profile", **measured(FAST)))
        assert told["1-verify_kernel"]["correct"] is True
        assert told["2-profile_kernel"]["speedup"] == 3
        # The second step's name came out of the first one's result.
        assert told["2-profile_kernel"]["op_name"] == "relu"
        assert sorted(p.name for p in call.node.iterdir() if p.is_dir()) == [
            "1-verify_kernel",
            "2-profile_kernel",
        ]
        step = json.loads((call.node / "2-profile_kernel" / "request.json").read_text())
        assert step["arguments"]["generated_code"] == FAST


async def test_a_workflow_ends_at_the_first_step_that_fails(tmp_path) -> None:
    async with calling(tmp_path) as call:
        why = await call.refused("verify_then_profile", **measured(WRONG))
        assert why.startswith("step 1, verify_kernel: wrong")
        assert call.engine._judge.probes == [(False, 0, 0)]
        # What a model sends is passed on as it is: in a step it is no expression any more.
        code = "$op_name read_json_file('$1/x')"
        await call.refused("verify_then_profile", **measured(code))
        step = json.loads((call.node / "1-verify_kernel" / "request.json").read_text())
        assert step["arguments"]["generated_code"] == code


async def test_a_workflow_is_allowed_where_all_of_its_steps_are(tmp_path) -> None:
    async with held(tmp_path, hold=Phase.PLAN) as engine:
        why = await Caller(engine).refused("verify_then_profile", **measured(FAST))
        assert "verify_kernel is not allowed in phase PLAN" in why


REVIEWER = """\
agents:
  critic:
    prompt: You doubt {everything}.
    tools: [read_kernel, read_file]
tools:
  reviewer:
    type: call_agent
    agent: critic
    function:
      name: reviewer
      description: Ask for a second opinion.
      parameters:
        type: object
        properties: {prompt: {type: string}}
        required: [prompt]
"""


async def test_a_tool_for_which_nobody_is_there_is_not_offered(tmp_path) -> None:
    async with calling(tmp_path, tools=REVIEWER) as call:
        offered = {spec.name for spec in call.executor.specs}
        assert "reviewer" not in offered
        assert "there is no tool" in await call.refused("reviewer", prompt="look")


def test_no_tool_needs_a_heavy_import_before_it_is_called() -> None:
    code = (
        "import sys, akg_tui.cli, akg_tui.engine.engine\n"
        "heavy = {'yaml', 'pydantic', 'autopep8', 'pymarkdown', 'torch', 'akg_tui.knowledge'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert printed(code) == "[]\n"

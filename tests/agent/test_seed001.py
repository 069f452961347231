"""The tool system, statement by statement: what is offered, its defaults, its results."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from akg_tui.agent.chat import ToolResult
from akg_tui.agent.tools.registry import own_tools
from akg_tui.agent.tools.run_access import Host
from akg_tui.core import events as ev
from akg_tui.core.phases import Phase, Verdict
from akg_tui.core.task import Agent
from tests.agent.live import held
from tests.agent.test_tools import AGENT, FAST, Caller, Critic, calling, measured

BASIC = {
    "read_file": "file_path",
    "write_file": "content",
    "ask_user": "message",
    "check_python_code": "file_path",
    "check_markdown": "file_path",
    "execute_script": "script_path",
}
KEYS = {"status", "output", "error_information"}


def default(tool: str, argument: str) -> Any:
    return own_tools()[tool].properties[argument]["default"]


async def test_c01_there_are_six_basic_tools_with_their_required_arguments(tmp_path: Path) -> None:
    own = own_tools()
    basic = {name: known.required for name, known in own.items() if known.kind == "basic_tool"}
    assert basic == {name: (argument,) for name, argument in BASIC.items()}
    async with calling(tmp_path) as call:
        for name, argument in BASIC.items():
            why = await call.refused(name)
            assert why == f"{name} needs the argument {argument!r}"


async def test_c02_a_result_is_status_output_and_error_information(tmp_path: Path) -> None:
    async with calling(tmp_path) as call:
        await call("write_file", content="x", file_path="notes/a.txt")
        good = call.kept("result.json")
        assert set(good) == KEYS
        assert (good["status"], good["error_information"]) == ("success", "")
        await call("read_file", file_path="notes/none.txt")
        bad = call.kept("result.json")
        assert set(bad) == KEYS
        assert bad["status"] == "error"
        assert bad["error_information"]


async def test_c03_write_file_overwrites_and_makes_a_name_of_operator_and_type(
    tmp_path: Path,
) -> None:
    assert default("write_file", "overwrite") is True
    async with calling(tmp_path) as call:
        named = {"op_name": "relu", "file_type": "py"}
        assert "notes/relu.py" in await call.good("write_file", content="old", **named)
        assert "notes/relu.py" in await call.good("write_file", content="new", **named)
        assert (call.run / "notes/relu.py").read_text() == "new"
        await call.refused("write_file", content="x", file_path="notes/relu.py", overwrite=False)
        assert (call.run / "notes/relu.py").read_text() == "new"


async def test_c04_a_script_has_300_seconds(tmp_path: Path, monkeypatch: Any) -> None:
    from akg_tui.agent.tools import scripts

    given: list[float] = []
    real = scripts.run_process

    async def noted(*args: Any, timeout_s: float, **kwargs: Any) -> Any:
        given.append(timeout_s)
        return await real(*args, timeout_s=timeout_s, **kwargs)

    monkeypatch.setattr(scripts, "run_process", noted)
    async with calling(tmp_path, agent=Agent(allow_script=True)) as call:
        await call.good("execute_script", script_path=call.note("a.sh", "echo hello\n"))
    assert given == [300]


async def test_c05_the_judges_tools_have_the_required_arguments_and_defaults(
    tmp_path: Path,
) -> None:
    own = own_tools()
    required = ("task_code", "generated_code", "op_name")
    assert own["verify_kernel"].required == own["profile_kernel"].required == required
    for tool in ("verify_kernel", "profile_kernel"):
        assert default(tool, "device_id") == 0
        assert default(tool, "task_id") == "default_task"
        bare = [default(tool, name) for name in ("framework", "backend", "arch", "dsl")]
        assert bare == ["torch", "cuda", "a100", "triton"]
    assert default("verify_kernel", "timeout") == 300
    async with calling(tmp_path) as call:
        await call.good("profile_kernel", **measured(FAST))
        assert call.engine._judge.probes == [(True, 50, 5)]  # type: ignore[attr-defined]


async def test_c06_a_profile_says_nothing_of_correctness(tmp_path: Path) -> None:
    async with calling(tmp_path) as call:
        facts = json.loads(await call.good("profile_kernel", **measured(FAST)))
        assert not {"correct", "max_error", "verified"} & set(facts)
        assert call.engine.state.count(Verdict.KEEP) == 0
        assert not [r for r in call.engine.records if isinstance(r.event, ev.Decided)]


async def test_c07_four_types_of_tools_go_to_four_places_and_an_unknown_one_is_an_error(
    tmp_path: Path,
) -> None:
    async with held(tmp_path, tools=AGENT) as engine:
        call = Caller(engine, Host(agents={"critic": Critic("critic was asked")}))
        assert "notes/a.txt" in await call.good("write_file", content="x", file_path="notes/a.txt")
        assert json.loads(await call.good("verify_kernel", **measured(FAST)))["correct"]
        done = json.loads(await call.good("verify_then_profile", **measured(FAST)))
        assert list(done) == ["1-verify_kernel", "2-profile_kernel"]
        assert await call.good("reviewer", prompt="look") == "critic was asked"
        assert "there is no tool 'compile_everything'" in await call.refused("compile_everything")
    kinds = {known.kind for known in own_tools().values()}
    assert kinds == {"basic_tool", "domain_tool", "call_agent", "call_workflow"}


async def test_c08_an_expression_keeps_its_type_alone_and_is_text_within_a_text(
    tmp_path: Path,
) -> None:
    data = {"rows": [{"nested": 7, "name": "relu"}]}
    async with calling(tmp_path) as call:
        call.note("data.json", json.dumps(data))
        call.note("lines.txt", "".join(f"{n}\n" for n in range(20)))
        whole = "read_json_file('notes/data.json')['rows'][0]['nested']"
        # An integer as the whole argument, where an integer is wanted …
        seventh = await call.good("read_file", file_path="notes/lines.txt", offset=whole, limit=1)
        assert seventh.startswith("6\n")
        # … text inside a longer one, and no text where the whole is no text.
        name = "notes/read_json_file('notes/data.json')['rows'][0]['name'].txt"
        assert "notes/relu.txt" in await call.good("write_file", content="x", file_path=name)
        why = await call.refused("write_file", content=whole, file_path="notes/n.txt")
        assert "content is integer, expected string" in why


async def test_c09_warnings_and_errors_are_summarised_in_the_result(tmp_path: Path) -> None:
    async def noisy(arguments: Mapping[str, Any]) -> ToolResult:
        logging.getLogger("judge").info("quiet")
        logging.getLogger("judge").warning("the clock drifts")
        return ToolResult.success("made")

    async with held(tmp_path, hold=Phase.PLAN, agent=Agent(allow_script=True)) as engine:
        call = Caller(engine, Host(tools={"write_report": noisy}))
        told = await call.good("write_report")
        assert "the clock drifts" in told
        assert "quiet" not in told
        script = call.note("a.sh", "echo out; echo trouble >&2; exit 3\n")
        assert "trouble" in await call.refused("execute_script", script_path=script)


async def test_c10_a_result_is_kept_under_its_trace_node(tmp_path: Path) -> None:
    async with held(tmp_path) as engine:
        call = Caller(engine)
        await call("write_file", content="hello", file_path="notes/a.md")
        called = next(r for r in reversed(engine.records) if isinstance(r.event, ev.ToolCalled))
        assert call.node.name == f"{called.seq:06d}-write_file"
        assert call.kept("request.json")["arguments"]["content"] == "hello"
        assert set(call.kept("result.json")) == KEYS

"""Seed 001, the tools: the page's tables, YAML and expressions as they stand there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from akg_tui.agent.tools.declaration import Kind
from akg_tui.agent.tools.registry import own_tools
from akg_tui.core.measurement import LEAST_CLUSTERS, NOT_VERIFIED, FailureKind, Outcome
from akg_tui.evaluate import Judge
from akg_tui.evaluate.statistics import MAIN
from tests.agent.test_declarations import SEED, merge
from tests.agent.test_tools import FAST, ROOT, WRONG, calling, measured
from tests.evaluate.kernels import REFERENCE, kernel
from tests.evaluate.test_judge import IN_SESSION

TABLES = """\
write_file
| `content` | string | 是 | 要写入的文件内容 |
| `file_path` | string | 否 | 显式文件路径。未提供时根据 op_name 和 file_type 自动生成 |
| `op_name` | string | 否 | 算子名称，用于自动命名 |
| `file_type` | string | 否 | 文件类型/扩展名，用于自动命名 |
| `encoding` | string | 否 | 文件编码(默认 "utf-8") |
| `overwrite` | bool | 否 | 是否覆盖已有文件(默认 True) |
execute_script
| `script_path` | string | 是 | 要执行的脚本路径 |
| `args` | list | 否 | 传递给脚本的命令行参数 |
| `stdin_input` | string | 否 | 传递给脚本的标准输入 |
| `timeout` | int | 否 | 执行超时时间，秒(默认 300) |
| `working_dir` | string | 否 | 脚本执行的工作目录 |
verify_kernel
| `task_code` | string | 是 | 框架实现代码(需包含 class Model) |
| `generated_code` | string | 是 | 待验证的生成代码(需包含 class ModelNew) |
| `op_name` | string | 是 | 算子名称(如 "relu"、"matmul") |
| `task_id` | string | 否 | 任务 ID(默认 "default_task") |
| `device_id` | int | 否 | 设备 ID(默认 0) |
| `timeout` | int | 否 | 超时时间，秒(默认 300) |
| `cur_path` | string | 否 | 当前 trace 节点路径(默认 "") |
| `framework` | string | 否 | 计算框架(默认 "torch") |
| `backend` | string | 否 | 硬件后端(默认 "cuda") |
| `arch` | string | 否 | 硬件架构(默认 "a100") |
| `dsl` | string | 否 | 目标 DSL(默认 "triton") |
profile_kernel
| `task_code` | string | 是 | 框架实现代码 |
| `generated_code` | string | 是 | 待分析的生成代码 |
| `op_name` | string | 是 | 算子名称 |
| `task_id` | string | 否 | 任务 ID(默认 "default_task") |
| `device_id` | int | 否 | 设备 ID(默认 0) |
| `run_times` | int | 否 | 性能测试运行次数(默认 50) |
| `warmup_times` | int | 否 | 预热次数(默认 5) |
| `cur_path` | string | 否 | 当前 trace 节点路径(默认 "") |
| `framework` | string | 否 | 计算框架(默认 "torch") |
| `backend` | string | 否 | 硬件后端(默认 "cuda") |
| `arch` | string | 否 | 硬件架构(默认 "a100") |
| `dsl` | string | 否 | 目标 DSL(默认 "triton") |
"""
JSON_TYPES = {"string": "string", "int": "integer", "bool": "boolean", "list": "array"}


def rows() -> list[tuple[str, str, str, bool, str]]:
    """Return tool, argument, type, whether it is required, and the default as the page has them."""
    found, tool = [], ""
    for line in TABLES.splitlines():
        if not line.startswith("|"):
            tool = line
            continue
        name, kind, needed, what = (cell.strip(" `") for cell in line.strip("|").split("|"))
        default = re.search(r"\(默认 (.*)\)", what)
        found.append((tool, name, kind, needed == "是", default[1] if default else ""))
    return found


@pytest.mark.parametrize(("tool", "name", "kind", "needed", "default"), rows())
def test_seed001_an_argument_is_the_one_of_the_page(
    tool: str, name: str, kind: str, needed: bool, default: str
) -> None:
    own = own_tools()[tool]
    assert own.properties[name]["type"] == JSON_TYPES[kind]
    if tool != "profile_kernel":  # which takes the run's kernel and task where none is given
        assert (name in own.required) == needed
    if default:
        assert own.properties[name]["default"] == json.loads(default.replace("True", "true"))


@pytest.mark.parametrize(
    ("expression", "meant"),
    [
        ("read_json_file('path/to/result.json')['output']", "the page's first"),
        ("read_json_file('path/to/result.json')['data']['code']", "the page's second"),
    ],
)
async def test_seed001_the_pages_own_expressions_are_resolved_before_a_call(
    tmp_path: Path, expression: str, meant: str
) -> None:
    async with calling(tmp_path) as call:
        result = {"output": "the page's first", "data": {"code": "the page's second"}}
        path = call.note("path/to/result.json", json.dumps(result))
        asked = expression.replace("path/to/result.json", path)
        await call.good("write_file", content=asked, file_path="notes/next.txt")
        assert (call.run / "notes" / "next.txt").read_text() == meant


def test_seed001_the_pages_own_yaml_is_a_file_that_can_be_merged() -> None:
    found = merge(SEED)
    assert found["read_file"].description == "读取文件内容。"
    assert list(found["read_file"].properties) == ["file_path"]
    assert found["verify_kernel"].required == ("task_code", "generated_code", "op_name")
    assert found["edit_kernel"] == own_tools()["edit_kernel"]
    spec = found["read_file"].spec
    assert spec.parameters == {
        "type": "object",
        "properties": {"file_path": {"type": "string", "description": "文件路径"}},
        "required": ["file_path"],
    }


async def test_seed001_the_pages_own_yaml_measures_for_the_runs_target(tmp_path: Path) -> None:
    async with calling(tmp_path, tools=SEED) as caller:
        (spec,) = [s for s in caller.executor.specs if s.name == "verify_kernel"]
        assert "backend" not in spec.parameters["properties"]
        assert '"correct": true' in await caller.good("verify_kernel", **measured(FAST))
        why = await caller.refused("profile_kernel", **measured(FAST), backend="cuda")
        assert "this run's is 'cpu'" in why


BASIC = {
    "read_file": "file_path",
    "write_file": "content",
    "ask_user": "message",
    "check_python_code": "file_path",
    "check_markdown": "file_path",
    "execute_script": "script_path",
}


async def test_seed001_there_are_six_basic_tools_with_their_required_arguments(tmp_path) -> None:
    own = own_tools()
    basic = {name: known.required for name, known in own.items() if known.kind == "basic_tool"}
    assert basic == {name: (argument,) for name, argument in BASIC.items()}
    assert {known.kind for known in own.values()} == set(get_args(Kind))
    async with calling(tmp_path) as call:
        for name, argument in BASIC.items():
            why = await call.refused(name)
            assert why == f"{name} needs the argument {argument!r}"


async def test_seed001_profile_kernel_does_not_verify(tmp_path) -> None:
    async with calling(tmp_path) as call:
        facts = json.loads(await call.good("profile_kernel", **measured(WRONG)))
        assert (facts["gen_time_us"], facts["speedup"]) == (500, 6)
        assert facts["correctness"] == "not verified"
        assert call.engine._judge.asked == [(False, "", 0)]


TASK_CODE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(16)]
def get_init_inputs():
    return []
"""


async def test_seed001_any_task_code_with_a_model_is_measured_in_a_judge_of_its_own(
    tmp_path,
) -> None:
    async with calling(tmp_path) as call:
        await call.good("read_kernel")
        node = str(call.node.relative_to(call.run))
        own = measured(FAST) | {"task_code": TASK_CODE, "cur_path": node}
        await call.good("verify_kernel", **own)
        await call.good("profile_kernel", **own)
        text = TASK_CODE.strip()
        assert call.engine._judge.asked == [(True, text, 0), (False, text, 0)]
        kept = [json.loads((call.run / node / f"{n}_result.json").read_text()) for n in KINDS]
        assert [k["op_name"] for k in kept] == ["relu", "relu"]
        assert call.engine.state.attempts[-1].number == 0


KINDS = ("verify", "profile")


async def test_seed001_another_framework_or_device_is_refused_with_the_reason(tmp_path) -> None:
    async with calling(tmp_path) as call:
        for change, why in (
            ({"framework": "mindspore"}, "expected results with torch alone"),
            ({"device_id": 1}, "device 1: the target cpu has device 0 only"),
            ({"task_code": "x = 1\ny = 2"}, "task_code: line 1: the file defines no class Model"),
            ({"cur_path": "trace/000000-none"}, "trace/000000-none/request.json"),
            ({"cur_path": "work"}, "expected a node of trace/ or a folder of notes/"),
        ):
            for tool in ("verify_kernel", "profile_kernel"):
                assert why in await call.refused(tool, **measured(FAST) | change)
        assert call.engine._judge.probes == []


def test_seed001_the_sampling_rule_is_one_in_schema_docs_and_code() -> None:
    rule = f"{LEAST_CLUSTERS} pairs of processes"
    assert rule in own_tools()["profile_kernel"].properties["run_times"]["description"]
    assert rule in (ROOT / "docs" / "tools.md").read_text()
    assert MAIN.looks[0].clusters == LEAST_CLUSTERS


@IN_SESSION
async def test_seed001_a_wrong_kernel_is_timed_but_not_verified_against_any_reference(
    judge: Judge,
) -> None:
    wrong = kernel("return torch.zeros_like(x)")
    assert (await judge.probe(wrong, timed=False)).failure is FailureKind.WRONG
    found = await judge.probe(wrong, samples=1, verified=False)
    assert (found.outcome, found.message) == (Outcome.CORRECT, NOT_VERIFIED), found
    assert found.ratio is not None
    assert found.candidate_ms is not None
    assert found.max_error is None
    breaks = await judge.probe(kernel("raise ValueError('no')"), samples=1, verified=False)
    assert breaks.failure is FailureKind.CALL, breaks
    other = REFERENCE.replace("torch.softmax(x, dim=-1)", "torch.relu(x)")
    relu = kernel("return torch.relu(x)")
    found = await judge.probe(relu, timed=False, reference=other)
    assert (found.outcome, found.message) == (Outcome.CORRECT, ""), found
    assert (await judge.probe(relu, timed=False)).failure is FailureKind.WRONG

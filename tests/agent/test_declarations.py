"""A tool is declared once, ours in Python, a user's in YAML; every fault is told with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import asdict

from akg_tui.agent.tools import BadTools, registry
from akg_tui.agent.tools import __path__ as tools_path
from akg_tui.agent.tools.declaration import BadArguments, Tools, checked
from akg_tui.agent.tools.registry import for_target, own_tools, specs_of, tools_with
from akg_tui.core import events as ev
from akg_tui.core.task import Target
from tests.agent.test_tools import calling

# The YAML example of the specification, as it stands there.
SEED = """\
tools:
  read_file:
    type: "basic_tool"
    function:
      name: "read_file"
      description: "读取文件内容。"
      parameters:
        type: "object"
        properties:
          file_path:
            type: "string"
            description: "文件路径"
        required: ["file_path"]

  verify_kernel:
    type: "domain_tool"
    function:
      name: "verify_kernel"
      description: "验证生成的算子代码正确性。"
      parameters:
        type: "object"
        properties:
          task_code:
            type: "string"
            description: "框架实现代码"
          generated_code:
            type: "string"
            description: "待验证的生成代码"
          op_name:
            type: "string"
            description: "算子名称"
        required: ["task_code", "generated_code", "op_name"]
"""
FILE = Path("tools.yaml")


def merge(text: str) -> Tools:
    return tools_with(((FILE, text),))


def test_what_a_model_is_told_of_our_tools_is_the_same_to_the_byte(
    request: pytest.FixtureRequest,
) -> None:
    """The list is the prompt cache's prefix: a change costs every run in progress its cache."""
    path = Path(__file__).parent / "told_tools.json"
    told = json.loads(path.read_text())
    found = [asdict(spec) for spec in specs_of(own_tools())]
    if request.config.getoption("update_snapshots"):
        path.write_text(json.dumps(found, indent=1) + "\n")
    else:
        assert json.dumps(found) == json.dumps(told)


COUNTING = '''
"""The tool count_words."""

from typing import Annotated

from akg_tui.agent.tools.declaration import Arg, ToolContext, tool
from akg_tui.agent.tools.file_access import read_text
from akg_tui.agent.tools.run_access import Answer
from akg_tui.core.phases import Phase


@tool("basic_tool", (Phase.EDIT,))
def count_words(
    call: ToolContext,
    file_path: Annotated[str, Arg("Path inside the run.")],
    least: Annotated[int, Arg("Letters of a word.", minimum=1)] = 1,
) -> Answer:
    """Count the words
    of a file."""
    words = read_text(call.files, file_path).split()
    return Answer.success(str(sum(len(word) >= least for word in words)))
'''


async def test_a_tool_is_added_by_its_module_and_one_line_in_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counting.py").write_text(COUNTING)
    monkeypatch.setattr(registry, "MODULES", (*registry.MODULES, "counting"))
    tools_path.append(str(tmp_path))
    caches = registry.own_tools, registry.tools_with
    try:
        [cache.cache_clear() for cache in caches]
        async with calling(tmp_path) as call:
            spec = next(s for s in call.executor.specs if s.name == "count_words")
            assert spec.description == "Count the words of a file."
            told: dict[str, object] = {"description": "Letters of a word.", "type": "integer"}
            told |= {"minimum": 1, "default": 1}
            assert spec.parameters["properties"]["least"] == told
            path = call.note("a.txt", "one three two")
            assert await call.good("count_words", file_path=path, least=4) == "1"
            called, answered = (record.event for record in call.engine.records[-2:])
            assert isinstance(called, ev.ToolCalled)
            assert isinstance(answered, ev.ToolAnswered)
            assert (called.tool, called.arguments["least"]) == ("count_words", 4)
            assert answered.output == "1"
            why = await call.refused("count_words", file_path=path, least=0)
            assert why == "count_words: least is 0, expected at least 1"
            assert "count_words" in await call.refused("submit_plan", items=[])  # allowed now
    finally:
        tools_path.remove(str(tmp_path))
        [cache.cache_clear() for cache in caches]


def test_in_a_run_the_target_is_the_tasks_own() -> None:
    known = for_target(own_tools(), Target(backend="cpu", dsl="cpp", arch="zen4"))
    told = {name: s.get("default") for name, s in known["verify_kernel"].properties.items()}
    assert (told["backend"], told["dsl"], told["arch"]) == ("cpu", "cpp", "zen4")


def changed(old: str, new: str) -> str:
    assert old in SEED
    return SEED.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "tools.yaml:1: None is not allowed, expected table"),
        ("tools: [", "tools.yaml:1: not valid YAML"),
        ("tools:\n  a: b: c\n", "tools.yaml:2: not valid YAML"),
        ("tools: &a [*a]", "unfolded"),
        (changed('"basic_tool"', '"shell_tool"'), "tools.yaml:3: tools.read_file.type: 'sh"),
        (
            changed("      name:", "      nom:"),
            "tools.yaml:5: tools.read_file.function.nom: is not a known field, expected one",
        ),
        (
            changed('            description: "文件路径"', "            descr: x"),
            "tools.yaml:12: tools.read_file.function.parameters.properties.file_path.descr: is",
        ),
        (
            changed('type: "string"', 'type: "text"'),
            "tools.yaml:11: tools.read_file.function.parameters.properties.file_path.type: 'te",
        ),
        (
            changed('name: "read_file"', 'name: "reed_file"'),
            "tools.yaml:5: tools.read_file.function.name: is 'reed_file', expected 'read_file'",
        ),
        (
            changed('["file_path"]', '["file"]'),
            "tools.yaml:7: tools.read_file.function.parameters: required names 'file'",
        ),
        (
            changed("file_path:", "path:").replace('["file_path"]', '["path"]'),
            "tools.yaml:10: tools.read_file.function.parameters.properties.path: read_file takes",
        ),
        (
            changed(
                '          file_path:\n            type: "string"',
                '          file_path:\n            type: "integer"',
            ),
            "tools.yaml:11: tools.read_file.function.parameters.properties.file_path.type: is",
        ),
        (
            SEED.replace("verify_kernel", "run_shell"),
            "tools.yaml:15: tools.run_shell: there is no domain_tool of this name; there are:",
        ),
        (
            changed('type: "domain_tool"', 'type: "basic_tool"'),
            "tools.yaml:16: tools.verify_kernel.type: is basic_tool, but verify_kernel is a domain",
        ),
        (SEED + '  read_file:\n    type: "basic_tool"\n', "read_file: is given twice"),
        (
            changed('type: "basic_tool"', 'type: "basic_tool"\n    steps: [{tool: read_file}]'),
            "a call_workflow, and nothing else, has steps",
        ),
        (
            "tools:\n  w:\n    type: call_workflow\n    function:\n      name: w\n"
            "      description: d\n      parameters: {type: object}\n    steps:\n"
            "      - tool: rm\n",
            "tools.yaml:9: tools.w.steps.0.tool: rm is not a known tool",
        ),
        (
            "tools:\n  w:\n    type: call_workflow\n    function:\n      name: w\n"
            "      description: d\n      parameters: {type: object}\n    steps:\n"
            "      - tool: verify_then_profile\n",
            "verify_then_profile is a workflow itself",
        ),
        (
            "tools:\n  r:\n    type: call_agent\n    agent: crtic\n    function:\n      name: r\n"
            "      description: d\n      parameters: {type: object}\n",
            "tools.yaml:4: tools.r.agent: no agent crtic is declared under agents; there are: sub",
        ),
        (
            "agents:\n  critic:\n    prompt: p\n    tools: [rm]\ntools: {}\n",
            "tools.yaml:4: agents.critic.tools.0: rm is not a known tool",
        ),
        (
            "agents:\n  critic: {prompt: p, model: sweep}\ntools: {}\n",
            "tools.yaml:2: agents.critic.model: a search answers no prompt; name a model",
        ),
        (
            "agents:\n  critic: {tools: []}\ntools: {}\n",
            "tools.yaml:2: agents.critic.prompt: is missing",
        ),
        (
            changed('            description: "文件路径"', "            default: 3"),
            "properties.file_path.default: the default is integer, expected string",
        ),
    ],
)
def test_a_bad_file_is_told_by_file_line_and_field(text: str, told: str) -> None:
    with pytest.raises(BadTools) as error:
        merge(text)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "execute_script needs the argument 'script_path'"),
        ({"script_path": 3}, "script_path is integer, expected string"),
        ({"script_path": None}, "script_path is null, expected string"),
        ({"script_path": "a", "timeout": "300"}, "timeout is string, expected integer"),
        ({"script_path": "a", "timeout": True}, "timeout is boolean, expected integer"),
        ({"script_path": "a", "timeout": 0}, "timeout is 0, expected at least 1"),
        ({"script_path": "a", "timeout": 10**9}, "expected at most 3600"),
        ({"script_path": "a", "args": ["x", 1]}, "args[1] is integer, expected string"),
        ({"script_path": "a", "shell": "x"}, "has no argument 'shell'; it takes: script_path"),
    ],
)
def test_arguments_are_held_against_the_definition(given, why) -> None:
    with pytest.raises(BadArguments) as told:
        checked(own_tools()["execute_script"], given)
    assert why in str(told.value)


def test_the_definitions_in_the_documentation_can_be_used() -> None:
    text = (Path(__file__).parents[2] / "docs" / "tools.md").read_text("utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    found = merge(example)
    assert [step.tool for step in found["check_and_profile"].steps] == [
        "check_python_code",
        "profile_kernel",
    ]
    assert checked(found["execute_script"], {"script_path": "notes/a.sh"})["timeout"] == 60

"""What users write: a fault has a line and a field, and only a faulty file loads what finds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from akg_tui.agent.tools.tool_files import ToolsFile
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.goals import Goal
from akg_tui.core.task import Case, Policy, Task
from akg_tui.store.errors import BadFile
from akg_tui.store.user_files.field_faults import faults_of
from akg_tui.store.user_files.reader import LOCATED, fault_at, settings_at, toml_file, yaml_line
from akg_tui.view.controls.preferences import NAMES, Notify
from akg_tui.view.controls.settings_file import config_file, keymap_file
from tests.fresh_interpreter import printed

ConfigFile = config_file(NAMES, Notify)
KeymapFile = keymap_file("default")
GOALS = (Goal("speedup", ">=", 2.0),)
TASK = Task(
    "op",
    metrics=("m",),
    cases=(Case("wide", {"N": 4}),),
    policy=Policy(automation=AutomationPolicy(goals=GOALS, max_tokens=3)),
)
TOOL = {
    "type": "call_workflow",
    "function": {
        "name": "w",
        "description": "d",
        "parameters": {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}},
    },
    "steps": [{"tool": "read_file", "arguments": {}}],
}
SOUND: list[tuple[type, Any]] = [
    (Task, msgspec.to_builtins(TASK)),
    (ToolsFile, {"tools": {"w": TOOL}, "agents": {"critic": {"prompt": "p", "tools": ["w"]}}}),
    (ConfigFile, msgspec.to_builtins(ConfigFile())),
    (KeymapFile, msgspec.to_builtins(KeymapFile(keys={"a": "b"}))),
]
ODD = (
    None,
    True,
    0,
    -1,
    7,
    1.5,
    1e9,
    "",
    "odd words",
    "m",
    [],
    [1],
    ["m"],
    ["m", "m"],
    {},
    {"a": 1},
)


def changed(plain: Any) -> Iterator[Any]:
    """Yield the values with each part replaced by each odd value, left out, or with one more."""
    yield from ODD
    if isinstance(plain, dict):
        yield {**plain, "nothing_of_this_name": 1}
        for name, inner in plain.items():
            yield {key: value for key, value in plain.items() if key != name}
            yield from ({**plain, name: each} for each in changed(inner))
    elif isinstance(plain, list | tuple):
        for at, inner in enumerate(plain):
            yield from ([*plain[:at], each, *plain[at + 1 :]] for each in changed(inner))


def is_sound(plain: Any, kind: type) -> bool:
    try:
        msgspec.convert(plain, kind, strict=True)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.parametrize(("kind", "plain"), SOUND, ids=lambda each: getattr(each, "__name__", ""))
def test_what_is_refused_has_a_fault_and_what_is_accepted_has_none(kind: type, plain: Any) -> None:
    assert is_sound(plain, kind)
    tried = 0
    for each in changed(plain):
        tried += 1
        assert bool(faults_of(each, kind)) is not is_sound(each, kind), each
    assert tried > 50


def test_a_sound_file_loads_neither_pydantic_nor_tomlkit(tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_text('op = "a"\n[policy]\nmax_rounds = 3\n')
    script = (
        "import sys; from pathlib import Path\n"
        "from akg_tui.core.task import Task\n"
        "from akg_tui.store.user_files.reader import toml_at\n"
        f"print(toml_at(Path({str(tmp_path / 'task.toml')!r})).read(Task).op)\n"
        "print([m for m in ('pydantic', 'tomlkit', 'yaml') if m in sys.modules])"
    )
    assert printed(script) == "a\n[]\n"


def test_the_settings_without_a_fault_count_and_the_others_have_their_defaults(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config.toml"
    assert settings_at(path, ConfigFile) == (ConfigFile(), [])
    path.write_text('theme = "paper"\nsort = 3\n[notify]\nbell = false\non = ["x", "end"]\n')
    found, faults = settings_at(path, ConfigFile)
    assert (found.theme, found.sort, found.notify.bell) == ("paper", "", False)
    assert found.notify.on == ConfigFile().notify.on
    assert faults == [
        f"{path}:2: sort: 3 is not allowed, expected string",
        f"{path}:5: notify.on.0: 'x' is unknown, expected one of: ask, keep, fail, end",
    ]


def test_a_fault_in_a_very_long_file_is_told_without_its_line(tmp_path: Path) -> None:
    text = f"op = 3\n#{'x' * LOCATED}\n"
    with pytest.raises(BadFile, match=r"^task.toml: op: 3 is not allowed"):
        toml_file(Path("task.toml"), text).read(Task)
    assert (
        fault_at(tmp_path / "none.toml", ("op",), "is odd") == f"{tmp_path}/none.toml: op: is odd"
    )


def test_the_line_of_a_field_of_json_or_yaml_is_found() -> None:
    text = '{"goals": [\n  {"metric": "m"},\n  {"metric": "n",\n   "value": 1}\n]}'
    lines = {("goals",): 1, ("goals", "1"): 3, ("goals", "1", "value"): 4, ("goals", "9"): 1}
    assert {field: yaml_line(text, field) for field in lines} == lines
    assert yaml_line("\t{", ("a",)) is None

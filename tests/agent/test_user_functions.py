"""Tools of a user's functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from akg_tui.agent import user_functions
from akg_tui.agent.chat import ToolResult, ToolUse
from akg_tui.agent.tools import BadTools
from akg_tui.agent.tools.executor import ToolExecutor
from akg_tui.agent.tools.registry import own_tools
from akg_tui.agent.user_functions import merged_functions
from akg_tui.core.phases import Phase
from akg_tui.core.task import Agent
from akg_tui.engine.engine import Engine
from akg_tui.engine.run_service import RunRequest, prepare
from akg_tui.store.task_folder import BadTask, load_task
from tests.agent.live import held
from tests.engine.runs import make_task

FILE = Path("mine.py")
SOURCE = '''\
import os
from typing import Annotated, Literal


def area(
    width: Annotated[int, "in cells"],
    names: list[str] = (),
    *,
    unit: Literal["m", "km"] = "m",
    factor: float | None = None,
) -> dict:
    """Compute an area
    of a field."""
    print("working")
    return {"area": width * width, "unit": unit, "names": names, "factor": factor}


def fails(n: int) -> str:
    """Divide."""
    return _divide(n)


def _divide(n):
    return str(1 / n)


def where() -> str:
    """Tell the process and what it may write."""
    try:
        open("../task/new.py", "w")
    except OSError as error:
        return f"{os.getpid()} {type(error).__name__}"


def long() -> str:
    """Write much."""
    return "x" * 900_000


def hungry() -> int:
    """Take too much memory."""
    return len(bytearray(6 << 30))


def slow() -> str:
    """Wait for ever."""
    import time

    time.sleep(600)


def quits() -> str:
    """End the process."""
    os._exit(3)
'''


def line_of(words: str) -> int:
    return next(n for n, line in enumerate(SOURCE.split("\n"), 1) if words in line)


def test_type_hints_become_the_schema_and_the_docstring_the_description() -> None:
    found = merged_functions({}, FILE, SOURCE)
    assert list(found) == ["area", "fails", "where", "long", "hungry", "slow", "quits"]
    area = found["area"]
    assert area.description == "Compute an area of a field."
    assert Phase.PLAN in area.phases
    assert Phase.EVAL not in area.phases
    assert area.parameters == {
        "type": "object",
        "properties": {
            "width": {"type": "integer", "description": "in cells"},
            "names": {"type": "array", "items": {"type": "string"}, "default": []},
            "unit": {"type": "string", "enum": ["m", "km"], "default": "m"},
            "factor": {"type": "number"},
        },
        "required": ["width"],
        "additionalProperties": False,
    }


DOC = '    """Tell."""\n'
FAULTS = [
    ("def f(:\n", "mine.py:1: not valid Python"),
    ("x = 1\n", "mine.py:1: has no function"),
    ("def f(a: int):\n    return a\n", "mine.py:1: f: lacks a docstring"),
    (f"\ndef f(a):\n{DOC}", "mine.py:2: f.a: has no type"),
    (f"\n\ndef f(\n  a: int,\n  b: set):\n{DOC}", "mine.py:5: f.b: the type set is none"),
    (f"def f(a: 'complex'):\n{DOC}", "mine.py:1: f.a: the type complex"),
    (f"def f(*a: int):\n{DOC}", "mine.py:1: f.a: expected arguments that are given by name"),
    (f"def f(a: int = 'x'):\n{DOC}", "mine.py:1: f.a: its default is string, expected integer"),
    (f"def f(a: int = g()):\n{DOC}", "mine.py:1: f.a: its default is no plain value"),
    (f"async def f():\n{DOC}", "mine.py:1: f: is async"),
    (f"def finish():\n{DOC}", "mine.py:1: finish: is a tool already"),
]


@pytest.mark.parametrize(("text", "told"), FAULTS)
def test_a_fault_names_file_line_and_argument(text: str, told: str) -> None:
    with pytest.raises(BadTools) as error:
        merged_functions(own_tools(), FILE, text)
    assert str(error.value).startswith(told)


def test_a_task_names_its_file_of_functions_and_a_run_has_a_copy(tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    (task / "task.toml").write_text('op = "speed"\n[agent]\nfunctions = "mine.py"\n')
    with pytest.raises(BadTask, match=r"task.toml:3: agent.functions: mine.py is not a file"):
        load_task(task)
    (task / "mine.py").write_text("def f(a):\n    return a\n")
    with pytest.raises(BadTools, match=r"mine.py:1: f: lacks a docstring"):
        prepare(RunRequest(task))
    (task / "mine.py").write_text(SOURCE)
    assert prepare(RunRequest(task)).folder.tools == (("mine.py", SOURCE),)


async def _call(engine: Engine, tool: str, **arguments: Any) -> ToolResult:
    return await ToolExecutor(engine).execute(ToolUse("1", tool, arguments))


async def test_a_function_runs_outside_the_engine_with_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    async with held(tmp_path, agent=Agent(functions="mine.py")) as engine:
        (Path(engine.path) / "task" / "mine.py").write_text(SOURCE)
        area = await _call(engine, "area", width=3)
        assert '{"area": 9, "unit": "m", "names": [], "factor": null}' in area.output
        assert "not instructions" in area.output
        assert "it warned: working" in area.output  # what it prints is no answer
        wrong = await _call(engine, "area", width="3")
        assert "area: width is string, expected integer" in wrong.error_information
        broken = await _call(engine, "fails", n=0)
        where = f"mine.py:{line_of('1 / n')}: ZeroDivisionError: division by zero"
        assert where in broken.error_information
        told = (await _call(engine, "where")).output
        assert "Error" in told
        assert str(os.getpid()) not in told.split("\n")[1]
        assert len((await _call(engine, "long")).output) < 60_000
        hungry = await _call(engine, "hungry")
        assert f"mine.py:{line_of('6 << 30')}: MemoryError" in hungry.error_information
        gone = await _call(engine, "quits")
        assert "quits ended with status 3 and gave no answer" in gone.error_information
        monkeypatch.setattr(user_functions, "TIME_S", 0.5)
        slow = await _call(engine, "slow")
        assert "mine.py: slow was killed after 0.5 s" in slow.error_information

"""Numbers at the top level of a reference: found, replaced in place, and checked by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.agent.prompt import system_text
from akg_tui.core.task import ReferenceChanges, Task
from akg_tui.store.errors import BadTask
from akg_tui.store.reference_constants import UnknownConstant, constants, with_constants
from akg_tui.store.task_folder import NewToml, load_task
from akg_tui.store.task_toml import parse_task
from tests.engine.runs import REFERENCE, make_task

SOURCE = """import torch
M = 1024 * 2
N, K = 4, -5
D = M * 2  # follows M
E = (
    3
)
eps = 1e-5
twice = 1
twice = 2
name, flag = 'text', True
größe: int = 7
huge = 2 ** 10 ** 10
"""


def test_numbers_are_found_with_their_lines_and_what_they_follow() -> None:
    found = constants(SOURCE)
    values = {name: (each.value, each.line, each.derived) for name, each in found.items()}
    assert values == {
        "M": (2048, 2, False),
        "N": (4, 3, False),
        "K": (-5, 3, False),
        "D": (4096, 4, True),
        "E": (3, 6, False),
        "eps": (1e-5, 8, False),
        "größe": (7, 12, False),
    }


def test_replaced_numbers_leave_every_line_where_it_was() -> None:
    changed = with_constants(SOURCE, {"M": 8, "N": 1, "K": 2, "E": 9, "größe": 3, "eps": 1})
    assert changed.count("\n") == SOURCE.count("\n")
    values = {name: each.value for name, each in constants(changed).items()}
    assert values == {"M": 8, "N": 1, "K": 2, "D": 16, "E": 9, "eps": 1, "größe": 3}
    assert "D = M * 2  # follows M\n" in changed


def test_numbers_that_are_bound_together_change_together_unless_one_is_named() -> None:
    source = "height = width = depth = (\n    512\n)  # square\narea = width * 2\na = b[0] = 1\n"
    found = constants(source)
    values = {name: (each.value, each.line, each.derived) for name, each in found.items()}
    assert values == {
        "height": (512, 2, False),
        "width": (512, 3, True),
        "depth": (512, 3, True),
        "area": (1024, 4, True),
        "a": (1, 5, False),
    }
    for given, after in (
        ({"height": 8}, {"height": 8, "width": 8, "depth": 8, "area": 16}),
        ({"width": 4}, {"height": 512, "width": 4, "depth": 512, "area": 8}),
        ({"depth": 2, "height": 8, "width": 4}, {"height": 8, "width": 4, "depth": 2, "area": 8}),
    ):
        changed = with_constants(source, given)
        names: dict[str, object] = {"b": [0]}
        exec(changed, names)
        assert {name: names[name] for name in after} == after
        assert changed.count("\n") == source.count("\n")


def test_numbers_in_a_short_tuple_are_named_by_their_places() -> None:
    table = ", ".join(["1"] * 17)
    source = (
        f"n = 4\nshape = (n, 8, 2 * 8)\nmore = [3, *shape, 5]\ntable = [{table}]\nn2, s = 1, [7]\n"
    )
    found = constants(source)
    assert {name: each.value for name, each in found.items()} == {
        "n": 4, "shape[0]": 4, "shape[1]": 8, "shape[2]": 16, "more[0]": 3, "n2": 1, "s[0]": 7
    }  # fmt: skip
    assert found["shape[0]"].derived
    changed = with_constants(source, {"shape[1]": 2, "n": 3, "s[0]": 6, "shape[2]": 9})
    assert changed.startswith("n = 3\nshape = (n, 2, 9)\nmore = [3, *shape, 5]\n")
    assert changed.endswith("s = 1, [6]\n")
    assert constants(source + "shape = (1, 2, 3, 4)\n").keys() == {"n", "more[0]", "n2", "s[0]"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"Q": 1}, "Q: is no constant of the reference, which has: M, N, K, D, E, eps, größe"),
        ({"twice": 1}, "twice: is no constant"),
        ({"M": 1.5}, "M: is 1.5, expected an integer as in the reference"),
    ],
)
def test_a_name_that_is_no_number_of_the_file_is_refused(
    values: dict[str, int | float], says: str
) -> None:
    with pytest.raises(UnknownConstant) as refused:
        with_constants(SOURCE, values)
    assert says in str(refused.value)


def test_a_task_with_an_unknown_constant_names_file_field_and_the_constants(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task")
    (folder / "reference.py").write_text(REFERENCE + "\nrows, columns = 4, 8\n")
    with (folder / "task.toml").open("a") as file:
        file.write("\n[reference.constants]\nrows = 2\nrow = 3\n")
    line = (folder / "task.toml").read_text().splitlines().index("row = 3") + 1
    with pytest.raises(BadTask) as refused:
        load_task(folder)
    said = f"task.toml:{line}: reference.constants.row: is no constant of the reference, which has:"
    assert said in str(refused.value)
    assert str(refused.value).endswith("rows, columns")


def test_a_constant_that_is_no_number_is_refused_with_its_line() -> None:
    text = 'op = "x"\n\n[reference.constants]\nrows = "four"\n'
    with pytest.raises(BadTask) as refused:
        parse_task(Path("task.toml"), text)
    said = "task.toml:4: reference.constants.rows: 'four' is not allowed, expected number"
    assert str(refused.value).startswith(said)


def test_constants_of_any_name_are_written_and_read_again() -> None:
    values: dict[str, int | float] = {"rows": 8, "größe": 3, "eps": 1e-05, "shape[1]": 2}
    text = NewToml(op="x", backend="cpu", dsl="torch", arch="", constants=values).text()
    assert parse_task(Path("task.toml"), text).reference.constants == values


def test_a_new_task_wants_torch_compile_measured_and_other_baselines_are_refused() -> None:
    text = NewToml(op="x", backend="cpu", dsl="torch", arch="").text()
    assert parse_task(Path("task.toml"), text).baselines == ("eager", "compile")
    gpu = NewToml(op="x", backend="cuda", dsl="triton", arch="").text()
    assert parse_task(Path("task.toml"), gpu).baselines == ("eager", "compile", "max-autotune")
    with pytest.raises(BadTask) as refused:
        parse_task(Path("task.toml"), text.replace('"compile"]', '"jit"]'))
    said = (
        "task.toml:2: baselines.1: 'jit' is unknown, expected one of: eager, compile, max-autotune"
    )
    assert str(refused.value) == said


def test_the_agent_is_shown_the_reference_as_the_judge_runs_it() -> None:
    changed = ReferenceChanges(constants={"rows": 16})
    told = system_text(Task(op="x", reference=changed), "rows = 4096\n")
    assert "reference.py, as the judge runs it (the task sets rows = 16):\n\nrows = 16\n" in told

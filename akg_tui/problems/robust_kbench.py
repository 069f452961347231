"""robust-kbench: `func_<way>.py` with `Model` and `get_inputs(…)`, sizes in `config_<way>.json`.

The configuration gives keyword arguments of `get_inputs` and of `Model`. They become numbers at
the top level of the reference, so that they can be changed as sizes.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from akg_tui.problems.case_lists import numeric_cases
from akg_tui.problems.json_files import read_object
from akg_tui.problems.kernelbench import op_of
from akg_tui.problems.module_text import bound_by, renamed
from akg_tui.problems.problem import Problem
from akg_tui.store.errors import BadTask
from akg_tui.store.filesystem import is_file
from akg_tui.store.task_folder import check_reference, file_text, parse_python

FORWARD, BACKWARD = "func_forward.py", "func_backward.py"


def module_in(path: Path) -> Path | None:
    """Return the `func_*.py` at `path` or in that folder, forward before backward."""
    if path.is_dir():
        named = (path / FORWARD, path / BACKWARD, *sorted(path.glob("func_*.py")))
        return next((each for each in named if is_file(each)), None)
    return path if path.name.startswith("func_") and path.suffix == ".py" else None


def read(path: Path) -> Problem:
    """Return the problem in a folder or a `func_*.py`. Raises `BadTask`."""
    found = module_in(path)
    if found is None:
        raise BadTask(path, None, "", f"has no {FORWARD}")
    text = file_text(found)
    module = parse_python(found, text.encode())
    config_path = found.with_name(found.name.replace("func_", "config_", 1)).with_suffix(".json")
    configs = _configs(config_path)
    config = configs[0]
    kept_out: list[str] = []
    inputs = _parameters(found, module, "get_inputs", config["input"] | config["shared"])
    init = _parameters(found, module, "Model", config["init"] | config["shared"])
    taken = {name for statement in module.body for name in bound_by(statement)}
    names = {name: _free(name.upper(), taken) for name in [*inputs, *init]}
    values = {names[n]: value for given in (inputs, init) for n, value in given.items()}
    lines = [f"{name} = {value!r}" for name, value in values.items()]
    made = renamed(text, "get_inputs", "draw_inputs").rstrip("\n")
    passed, settings = (
        ", ".join(f"{name}={names[name]}" for name in given) for given in (inputs, init)
    )
    tail = "\n".join(
        [
            "\n\n# Added by `akg-tui new`: one of the configurations of " + config_path.name + ".",
            *lines,
            "\n\ndef get_inputs():",
            '    """Return the inputs of the configuration."""',
            f"    return list(draw_inputs({passed}))",
            "\n\ndef get_init_inputs():",
            '    """Return the constructor\'s arguments in the configuration."""',
            f"    return dict({settings})\n",
        ]
    )
    check_reference(found, (made + tail).encode())
    cases, told = numeric_cases([_by_name(each, names) for each in configs])
    kept_out += told
    if found.name == BACKWARD:
        kept_out.append("only the function of this file is tuned, not the forward pass")
    return Problem(
        format="robust-kbench",
        origin=found,
        op=op_of(found.parent.name),
        reference=made + tail,
        filename=found.name,
        changed=(
            f"get_inputs() draws the first configuration of {config_path.name}"
            if is_file(config_path)
            else "get_inputs() uses its defaults: there is no configuration beside it",
        ),
        kept_out=tuple(kept_out),
        cases=cases,
    )


def _by_name(config: dict[str, dict[str, Any]], names: dict[str, str]) -> dict[str, object]:
    """Return the settings of a configuration, by the names that they have in the reference."""
    settings = [item for given in config.values() for item in given.items()]
    return {names[key]: value for key, value in settings if key in names}


def _configs(path: Path) -> list[dict[str, dict[str, Any]]]:
    """Return the configurations of inputs, constructor and both; at least one.

    A part with fewer configurations than another one goes on with its last.
    """
    if not is_file(path):
        return [{"input": {}, "init": {}, "shared": {}}]
    plain, lines = read_object(path)
    parts: dict[str, list[dict[str, Any]]] = {}
    for part in ("input", "init", "shared"):
        given: list[dict[str, Any]] = []
        for kind in ("single", "multi"):
            key = f"{kind}_{part}_configs"
            listed = plain.get(key, [])
            if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
                raise BadTask(path, lines(key), key, "expected a list of objects")
            given += [each for each in listed if each]  # {} states nothing
        parts[part] = given or [{}]
    count = max(map(len, parts.values()))
    return [
        {part: given[min(at, len(given) - 1)] for part, given in parts.items()}
        for at in range(count)
    ]


def _parameters(
    path: Path, module: ast.Module, name: str, config: dict[str, Any]
) -> dict[str, Any]:
    """Return the settings that a function or a constructor has parameters for."""
    arguments = _arguments(module, name)
    if arguments is None:
        raise BadTask(path, 1, name, "is missing")
    known = {each.arg for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
    given = {key: value for key, value in config.items() if key in known}
    for key, value in given.items():
        if not isinstance(value, int | float | str | bool | list | None):
            raise BadTask(path, None, key, f"{json.dumps(value)[:60]} can't be passed on")
    return given


def _arguments(module: ast.Module, name: str) -> ast.arguments | None:
    for statement in module.body:
        match statement:
            case ast.FunctionDef(name=found) if found == name:
                return statement.args
            case ast.ClassDef(name=found, body=body) if found == name:
                for each in body:
                    if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                        return each.args
                return ast.arguments([], [], None, [], [], None, [])
    return None


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name

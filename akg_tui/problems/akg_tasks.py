"""AKG and op-autoresearch: a folder with `task.yaml`, a reference, and a first kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from akg_tui.core.sanitize import one_line
from akg_tui.core.task import Dsl
from akg_tui.problems import input_groups, kernelbench
from akg_tui.problems.json_files import Line, check_version, read_yaml
from akg_tui.problems.problem import Problem
from akg_tui.store.errors import BadTask
from akg_tui.store.filesystem import is_file
from akg_tui.store.task_folder import check_kernel, file_text, op_named, parse_python

TASK = "task.yaml"
NEWEST = 1
UNUSED = ("constraints", "guardrails", "smoke_test", "code_checker", "git", "devices", "worker")
"""Parts of task.yaml that no setting here expresses."""


def read(path: Path) -> Problem:
    """Return the problem in a folder or its `task.yaml`. Raises `BadTask`."""
    folder = path if path.is_dir() else path.parent
    task = folder / TASK
    plain, line = read_yaml(task)
    check_version(task, plain, line, NEWEST)
    name = plain.get("name")
    if not isinstance(name, str) or not name:
        raise BadTask(task, line("name") or 1, "name", "is missing, expected the operator's name")
    agent, metric = (_part(task, plain, line, key) for key in ("agent", "metric"))
    reference = _file(folder, agent.get("ref_file"), "reference.py", f"{name}_ref.py")
    if reference is None:
        raise BadTask(folder, None, "", f"has no reference.py and no {name}_ref.py")
    text = file_text(reference)
    module = parse_python(reference, text.encode())
    by_groups = input_groups.groups_function(module) and "def get_inputs(" not in text
    reader = input_groups.read if by_groups else kernelbench.read
    problem = reader(reference, "AKG")
    named = plain.get("editable_files")
    names = [str(each) for each in named] if isinstance(named, list) else []
    editable = [found for each in names if (found := _file(folder, each)) is not None]
    kernel_path = _kernel(editable) or _file(folder, "kernel.py", f"{name}_kernel.py")
    kernel, dsl, kept_out = None, str(plain.get("dsl") or ""), list(problem.kept_out)
    beside: tuple[tuple[str, str], ...] = ()
    known = {path.name for path in editable}
    kept_out += [
        f"editable file {one_line(each, 80)}: no file directly in the folder"
        for each in names
        if each not in known
    ]
    if dsl and dsl not in get_args(Dsl):
        kept_out.append(f"dsl {dsl}: this version has {', '.join(get_args(Dsl))}")
        dsl = ""
    elif kernel_path is not None:
        kernel = file_text(kernel_path)
        check_kernel(kernel_path, kernel.encode())
        beside = tuple((path.name, file_text(path)) for path in editable if path != kernel_path)
    kept_out += [f"{key} in task.yaml" for key in UNUSED if plain.get(key)]
    gain, rounds = metric.get("improvement_threshold"), agent.get("max_rounds")
    return dataclasses.replace(
        problem,
        op=op_named(name),
        kernel=kernel,
        # Under its own name where others may import it.
        kernel_name=kernel_path.name if beside and kernel_path is not None else "kernel.py",
        beside=beside,
        dsl=dsl,
        arch=str(plain.get("arch") or ""),
        kept_out=tuple(kept_out),
        # A percentage there, a fraction here.
        min_gain=gain / 100 if isinstance(gain, int | float) and 0 < gain < 100 else None,
        max_rounds=rounds if isinstance(rounds, int) and rounds > 0 else None,
    )


def _kernel(editable: Sequence[Path]) -> Path | None:
    """Return the file among these that the judge loads: the first that binds ModelNew."""
    python = [path for path in editable if path.suffix == ".py"]
    models = (path for path in python if "ModelNew" in file_text(path))
    return next(models, next(iter(python), None))


def _part(path: Path, plain: dict[str, Any], line: Line, key: str) -> dict[str, Any]:
    value = plain.get(key) or {}
    if not isinstance(value, dict):
        raise BadTask(path, line(key), key, "expected settings by name")
    return value


def _file(folder: Path, *names: object) -> Path | None:
    """Return the first of these names that is a file in the folder."""
    for name in names:
        if isinstance(name, str) and "/" not in name and is_file(folder / name):
            return folder / name
    return None

"""AI-bench: a YAML file with sizes for a problem of KernelBench, whose `.py` lies beside it.

Its dimensions are matched with the numbers of the module: by the order of the constructor's
arguments, or by name, in any case of letters (`BATCH` is `batch_size` too).
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Any

from akg_tui.core.sanitize import one_line
from akg_tui.problems import kernelbench
from akg_tui.problems.case_lists import cases_of
from akg_tui.problems.json_files import Line, check_version, positive, read_yaml
from akg_tui.problems.problem import Problem
from akg_tui.store.errors import BadTask
from akg_tui.store.filesystem import is_file
from akg_tui.store.reference_constants import constants

NEWEST = 1
SECTIONS = ("bench-cpu", "simple-cpu", "ci", "bench-gpu")
"""The sections with sizes, those for a CPU first."""


def read(path: Path) -> Problem:
    """Return the problem beside a YAML file, with the sizes of that file. Raises `BadTask`."""
    plain, line = read_yaml(path)
    check_version(path, plain, line, NEWEST)
    section, entries, count = _entries(path, plain, line)
    module = path.with_suffix(".py")
    if not is_file(module):
        message = f"has the sizes of {module.name}, which is not beside it: copy it there"
        raise BadTask(path, None, "", message)
    problem = kernelbench.read(module, "KernelBench with sizes of AI-bench")
    known = constants(problem.reference)
    names = _names(plain, problem.reference, known)
    listed: list[dict[str, int | float]] = []
    kept_out = [f"sizes of other sections than {section}"] if count > len(entries) else []
    for entry in entries:
        sizes: dict[str, int | float] = {}
        for dim, value in entry["dims"].items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if isinstance(value, int) and value < 1:
                message = f"is {value}, expected a number of at least 1"
                raise BadTask(path, line(str(dim)), str(dim), message)
            name = names.get(str(dim)) or _like(str(dim), known)
            if not number:
                kept_out.append(f"{dim} = {one_line(str(value), 60)}: it is no number")
            elif name is None:
                kept_out.append(f"{dim} = {value}: {module.name} has no such number")
            else:
                sizes[name] = value
        if not listed or sizes.keys() == listed[0].keys():
            listed.append(sizes)
    entry = entries[0]
    cases, told = cases_of(listed)
    stated = entry if entry.get("dtype", "float32") == "float32" else {}
    tolerance, absolute = positive(stated.get("rtol")), positive(stated.get("atol"))
    taken = {"rtol": tolerance, "atol": absolute}
    for each in ("dtype", "rtol", "atol"):
        if each in entry and taken.get(each) is None:
            kept_out.append(f"{each} = {entry[each]}: the reference and the judge decide it")
    return dataclasses.replace(
        problem,
        sizes=tuple(listed[0].items()),
        cases=cases,
        tolerance=tolerance,
        absolute=absolute,
        kept_out=tuple(dict.fromkeys([*kept_out, *told])),
        changed=(f"sizes of {section} in {path.name}",),
    )


def _names(plain: dict[str, Any], reference: str, known: Collection[str]) -> dict[str, str]:
    """Return the numbers of the module that are the constructor's arguments, by dimension."""
    dims = [each.get("dim") for each in plain.get("inits") or [] if isinstance(each, dict)]
    for statement in ast.parse(reference).body:
        match statement:
            case ast.FunctionDef("get_init_inputs", body=[*_, ast.Return(ast.List(elts=given))]):
                if len(given) != len(dims):
                    return {}
                pairs = zip(dims, given, strict=True)
                named = {str(dim): each.id for dim, each in pairs if isinstance(each, ast.Name)}
                return {dim: name for dim, name in named.items() if name in known}
    return {}


def _like(dim: str, known: Collection[str]) -> str | None:
    """Return the number of the module with the dimension's name, or the only one it begins."""
    wanted = dim.lower()
    same = [each for each in known if each.lower() == wanted]
    begun = [each for each in known if each.lower().startswith(f"{wanted}_")]
    return same[0] if same else begun[0] if len(begun) == 1 else None


def _entries(path: Path, plain: dict[str, Any], line: Line) -> tuple[str, list[Any], int]:
    """Return the section in use, its entries with sizes, and the number of all entries."""
    entries = [(name, each) for name in SECTIONS for each in plain.get(name) or []]
    for name, entry in entries:
        if not isinstance(entry, dict):
            raise BadTask(path, line(name), name, "expected a list of entries with dims")
        if isinstance(entry.get("dims"), dict):
            ours = [each for section, each in entries if section == name]
            sized = [each for each in ours if isinstance(each.get("dims"), dict)]
            return name, sized, len(entries)
    raise BadTask(path, 1, SECTIONS[0], f"has no sizes; expected dims in {', '.join(SECTIONS)}")

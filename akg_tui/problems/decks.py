"""kernelbench.com: a folder with `problem.yaml`, `shapes.py` and `reference.py`.

The reference is a module in KernelBench's convention; `shapes.py` lists other values for the
numbers at its top level, one case each.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from akg_tui.core.sanitize import one_line
from akg_tui.problems.case_lists import numeric_cases
from akg_tui.problems.json_files import Line, positive, read_yaml
from akg_tui.problems.kernelbench import op_of
from akg_tui.problems.module_text import ON_THE_CPU, UNSEEDED, on_the_cpu, unseeded
from akg_tui.problems.problem import NOT_TAKEN_OVER, Problem
from akg_tui.store.errors import BadTask
from akg_tui.store.filesystem import is_file, is_file_below
from akg_tui.store.reference_constants import constants, value_of
from akg_tui.store.task_folder import check_reference, file_text, parse_python

TASK, SHAPES, REFERENCE, CHECK = "problem.yaml", "shapes.py", "reference.py", "check.py"


def read(path: Path) -> Problem:
    """Return the problem in a folder or of its `problem.yaml`. Raises `BadTask`."""
    folder = path if path.is_dir() else path.parent
    for needed in (TASK, SHAPES, REFERENCE):
        if not is_file_below(folder, folder / needed):
            message = f"has no {needed} of its own, which a deck of kernelbench.com has"
            raise BadTask(folder, None, "", message)
    plain, line = read_yaml(folder / TASK)
    text = file_text(folder / REFERENCE)
    check_reference(folder / REFERENCE, text.encode())
    drawn = unseeded(text, ("get_inputs",))
    reference = on_the_cpu(drawn)
    changed = [UNSEEDED] * (drawn != text) + [ON_THE_CPU] * (reference != drawn)
    known = constants(reference)
    listed = _shapes(folder / SHAPES)
    ours = [
        {
            name: value
            for name, value in each.items()
            if name in known and not isinstance(value, bool)
        }
        for each in listed
    ]
    lacking = sorted({name for each in listed for name in each} - ours[0].keys())
    cases, told = numeric_cases(ours)
    kept_out = [f"{name} of {SHAPES}: {REFERENCE} has no such number" for name in lacking]
    if is_file(folder / CHECK):
        kept_out.append(f"{CHECK}: {NOT_TAKEN_OVER}")
    if plain.get("forbidden"):
        forbidden = plain["forbidden"]
        calls = ", ".join(map(str, forbidden)) if isinstance(forbidden, list) else str(forbidden)
        kept_out.append(f"forbidden: {one_line(calls, 300)}")
    tolerance = _tolerance(folder / TASK, plain, line)
    return Problem(
        format="kernelbench.com",
        origin=folder,
        op=op_of(folder.resolve().name),
        reference=reference,
        filename=REFERENCE,
        verbatim=reference == text,
        sizes=tuple(ours[0].items()),
        cases=cases,
        changed=tuple(changed),
        kept_out=(*kept_out, *told),
        tolerance=tolerance,
        absolute=tolerance,
    )


def _tolerance(path: Path, plain: dict[str, Any], line: Line) -> float | None:
    """Return the widest tolerance of those that the problem states by type of number.

    The set takes each as a relative and as an absolute one. None, the judge's own bound, stands for
    0, with which results would have to be equal.
    """
    stated = plain.get("tolerance")
    values = list(stated.values()) if isinstance(stated, dict) else [stated] if stated else []
    for value in values:
        if positive(value) is None and (value != 0 or value is False):
            message = f"is {one_line(str(value), 60)}, expected a finite number of at least 0"
            raise BadTask(path, line("tolerance"), "tolerance", message)
    return max(filter(None, map(positive, values)), default=None)


def _shapes(path: Path) -> list[dict[str, int | float]]:
    """Return the numbers of `SHAPES`, a list of mappings, which is read and not run."""
    text = file_text(path)
    module = parse_python(path, text.encode())
    named = {name: each.value for name, each in constants(text).items()}
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="SHAPES")], value=value):
                break
            case ast.AnnAssign(target=ast.Name(id="SHAPES"), value=ast.expr() as value):
                break
    else:
        raise BadTask(path, 1, "SHAPES", "is missing, expected a list of numbers by name")
    if not isinstance(value, ast.List | ast.Tuple) or not value.elts:
        raise BadTask(path, value.lineno, "SHAPES", "expected a list of numbers by name")
    return [_numbers(path, each, named) for each in value.elts]


def _numbers(path: Path, node: ast.expr, named: dict[str, int | float]) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
    for key, value in pairs:
        try:
            match key, value:
                case ast.Constant(value=str() as name), ast.Constant(value=bool() as flag):
                    found[name] = flag
                case ast.Constant(value=str() as name), _:
                    found[name] = value_of(value, named)
                case _:
                    raise ValueError("no name")
        except (ValueError, ArithmeticError):
            message = "expected a number or its name"
            raise BadTask(path, value.lineno, "SHAPES", message) from None
    if not found:
        raise BadTask(path, node.lineno, "SHAPES", "expected numbers by name in each shape")
    return found

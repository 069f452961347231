"""NPUKernelBench: a folder with `module.py`, `prepare_inputs.py` and `test_cases.csv`.

`prepare_inputs` draws the inputs of one row of the table. The reference is `Model`, these functions
and the first row; what only runs on an Ascend NPU is left out or refused.
"""

from __future__ import annotations

import ast
import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from akg_tui.problems.case_lists import groups
from akg_tui.problems.kernelbench import op_of
from akg_tui.problems.module_text import bound_by, needed_for, renamed, without
from akg_tui.problems.problem import NOT_TAKEN_OVER, Problem
from akg_tui.store.errors import BadTask
from akg_tui.store.task_folder import check_reference, file_text, parse_python

MODULE, INPUTS, CASES = "module.py", "prepare_inputs.py", "test_cases.csv"
NPU, CHECK = "torch_npu", "custom_check_precision"

TRUTHS = {
    text: text.lower() == "true" for text in ("true", "True", "TRUE", "false", "False", "FALSE")
}

_TAIL = Path(__file__).with_suffix(".txt").read_text("utf-8")


def folder_of(path: Path) -> Path | None:
    """Return the folder with the three files, at `path` or below it; None if there is none."""
    folder = path if path.is_dir() else path.parent
    for place in (folder, folder / "validation"):
        if all((place / name).is_file() for name in (MODULE, INPUTS)):
            return place
    return None


def read(path: Path) -> Problem:
    """Return the problem in a folder. Raises `BadTask`."""
    folder = folder_of(path)
    if folder is None:
        raise BadTask(path, None, "", f"has no {MODULE} and {INPUTS} in it or in validation/")
    rows = _rows(folder / CASES)
    model = _model_text(folder / MODULE)
    # Its own comparison of results needs modules of the harness.
    inputs = _needed_text(folder / INPUTS, {"get_inputs", "get_init_inputs"})
    for old, new in (("get_inputs", "draw_inputs"), ("get_init_inputs", "draw_init_inputs")):
        inputs = renamed(inputs, old, new)
    listed = "".join(f"    {row!r},\n" for row in rows)
    cases, told = groups(len(rows))
    reference = f"{model}\n\n{inputs.strip()}\n{_TAIL.format(listed=listed)}"
    check_reference(folder / MODULE, reference.encode())
    origin = folder.parent if folder.name == "validation" else folder
    kept_out = ["what is compiled for the NPU (question/, answer/) is not used", *told]
    if any(CHECK in bound_by(each) for each in ast.parse(file_text(folder / INPUTS)).body):
        kept_out.append(f"{CHECK}: {NOT_TAKEN_OVER}")
    return Problem(
        format="NPUKernelBench",
        origin=origin,
        op=op_of(origin.name),
        reference=reference,
        filename=f"{MODULE} (as made)",
        changed=(f"{MODULE}, {INPUTS} and the rows of {CASES} were joined, without {NPU}",),
        kept_out=tuple(kept_out),
        cases=cases,
    )


def _model_text(path: Path) -> str:
    """Return the module's text with only what `Model` needs, without imports of the NPU."""
    text = _needed_text(path, {"Model"})
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and node.id == NPU:
            raise BadTask(path, None, "Model", f"needs {NPU}: it only runs on an Ascend NPU")
    return text


def _needed_text(path: Path, names: set[str]) -> str:
    """Return the text of a module with only what these names need, without imports of the NPU."""
    text = file_text(path)
    module = parse_python(path, text.encode())
    kept = {s.lineno for s in needed_for(module, names) if not _imports_npu(s)}
    return without(text, lambda statement: statement.lineno not in kept)


def _imports_npu(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(NPU):
        return True
    return isinstance(statement, ast.Import) and NPU in bound_by(statement)


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows, with values of the types that pandas, which the set uses, would give."""
    lines = file_text(path).splitlines()
    # Values are lists such as [48, 128], so the columns are separated by semicolons.
    delimiter = ";" if lines and ";" in lines[0] else ","
    rows: list[dict[str, Any]] = list(
        csv.DictReader(io.StringIO("\n".join(lines)), delimiter=delimiter)
    )
    if not rows:
        raise BadTask(path, 1, "", "has no case, expected one a line below the names of columns")
    for name in [name for name in rows[0] if name]:
        stated = [row for row in rows if row[name] is not None]
        for row, value in zip(stated, _column([row[name] for row in stated]), strict=True):
            row[name] = value
    return [{n: value for n, value in row.items() if n and value is not None} for row in rows]


def _column(texts: list[str]) -> Sequence[str | int | float | bool]:
    """Return the values of a column: numbers or truth values if all of them are such."""
    if all(text in TRUTHS for text in texts):
        return [TRUTHS[text] for text in texts]
    for kind in (int, float):
        try:
            values = [kind(text) for text in texts]
        except ValueError:
            continue
        return values if all(map(math.isfinite, values)) else texts
    return texts

"""KernelBench, and every set whose files are Python modules of the same convention.

One file has `Model`, `get_inputs()` and `get_init_inputs()`, with the sizes as numbers at the top
level. It becomes the reference byte for byte; a module of another name, or a function, gets a line.
KernelBook has such modules in rows of JSON.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from akg_tui.problems.json_files import read_object, typed
from akg_tui.problems.module_text import UNSEEDED, own_nodes, renamed, unseeded
from akg_tui.problems.problem import Problem
from akg_tui.problems.wrapped_models import with_model
from akg_tui.store.task_folder import check_reference, file_text, op_named, parse_python

CODE, ENTRY = "python_code", "entry_point"
"""The fields of a row of KernelBook."""

DRAWN = "draw_groups"
"""The name of a `get_inputs` that yields several groups."""

_LAST_GROUP = f"""

# Added by `akg-tui new`: of several groups of inputs the last is taken.
def get_inputs():
    for last in {DRAWN}():
        pass
    return list(last)
"""


def read(path: Path, label: str = "KernelBench") -> Problem:
    """Return the problem in a Python file. Raises `BadTask`."""
    own = file_text(path)
    text, told = with_model(path, own)
    check_reference(path, text.encode())
    return Problem(
        format=label,
        origin=path,
        op=op_of(path.stem),
        reference=text,
        filename=path.name,
        verbatim=text == own,
        changed=(told,) if told else (),
    )


def op_of(stem: str) -> str:
    """Return an operator's name from a file's: `23_Softmax` is `Softmax`."""
    return op_named(re.sub(r"^\d+_(?=\w)", "", stem).strip("_") or stem)


def read_row(path: Path) -> Problem:
    """Return the problem in a row of KernelBook, as an object in a JSON file. Raises `BadTask`."""
    plain, line = read_object(path)
    code, entry = (typed(path, plain, line, key, str) for key in (CODE, ENTRY))
    return _any_model(path, code, "KernelBook", entry)


def read_any_model(path: Path, label: str) -> Problem:
    """Return the problem in a Python file whose class may have another name. Raises `BadTask`."""
    return _any_model(path, file_text(path), label, "")


def _any_model(path: Path, text: str, label: str, entry: str) -> Problem:
    parse_python(path, text.encode())
    drawn = unseeded(text, ("get_inputs",))
    changed = [UNSEEDED] if drawn != text else []
    text, told = with_model(path, drawn, entry)
    changed += [told] if told else []
    if text != (alone := _with_last_group(text)):
        text = alone
        changed.append("get_inputs() draws the last of the groups of inputs that it yields")
    check_reference(path, text.encode())
    return Problem(
        format=label,
        origin=path,
        op=op_of(entry or path.stem),
        reference=text,
        filename=path.name if path.suffix == ".py" else f"{path.name}, {CODE}",
        changed=tuple(changed),
    )


def _with_last_group(source: str) -> str:
    """Return a module whose `get_inputs` returns the last of the groups that it would yield."""
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef) and function.name == "get_inputs":
            nodes = [node for statement in function.body for node in own_nodes(statement)]
            if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
                return renamed(source, "get_inputs", DRAWN).rstrip("\n") + "\n" + _LAST_GROUP
    return source

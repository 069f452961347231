"""KernelBench, and every set whose files are Python modules of the same convention.

One file has `Model`, `get_inputs()` and `get_init_inputs()`, with the sizes as numbers at the top
level. It becomes the reference byte for byte; a module of another name, or a function, gets a line.
KernelBook has such modules in rows of JSON.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from akg_tui.problems.json_files import read_object, typed
from akg_tui.problems.module_text import UNSEEDED, bound_by, own_nodes, renamed, unseeded
from akg_tui.problems.problem import Problem
from akg_tui.problems.wrapped_models import with_model
from akg_tui.store.task_folder import check_reference, file_text, op_named, parse_python

CODE, ENTRY = "python_code", "entry_point"
"""The fields of a row of KernelBook."""

_LAST_GROUP = """

# Added by `akg-tui new`: get_inputs() yields several groups of inputs, of which the last is taken.
def get_inputs():
    *_, last = draw_groups()
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


def _depend(before: Sequence[ast.stmt], target: ast.expr, inside: Sequence[ast.AST]) -> bool:
    """Return whether passes of a loop may depend on earlier ones.

    They do if one reads a name before it binds it, or changes a value that was made before.
    """
    made = {name for each in before for name in bound_by(each)}
    bound = {name for each in inside for name in bound_by(each)}
    known = bound_by(target)
    for each in inside:
        for node in ast.walk(each):
            match node:
                case ast.Name(id=name, ctx=ast.Load()) | ast.AugAssign(target=ast.Name(id=name)):
                    if name in bound - known:
                        return True
                case ast.Call(func=ast.Name(id="next")) | ast.Global() | ast.Nonlocal():
                    return True
                case (
                    ast.Call(func=ast.Attribute(value=ast.Name(id=name)))
                    | ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del())
                    | ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del())
                ) if name in made:
                    return True
        known |= bound_by(each)
    return False


def _with_last_group(source: str) -> str:
    """Return a module whose `get_inputs` returns the last of the groups that it would yield.

    The other groups are not drawn if each pass of a loop at its end yields one, and needs nothing
    of the pass before.
    """
    lines = source.split("\n")
    for function in ast.parse(source).body:
        if not isinstance(function, ast.FunctionDef) or function.name != "get_inputs":
            continue
        nodes = [node for statement in function.body for node in own_nodes(statement)]
        yields = sum(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes)
        leaves = any(isinstance(node, ast.Continue | ast.Break | ast.Return) for node in nodes)
        match function.body:
            case [
                *before,
                ast.For(
                    target=target,
                    iter=passes,
                    body=[*inside, ast.Expr(ast.Yield(ast.expr() as yielded))],
                ),
            ] if yields == 1 and not leaves and not _depend(before, target, [*inside, yielded]):
                last = ast.Subscript(ast.List([ast.Starred(passes)]), ast.Constant(-1))
                if isinstance(passes, ast.List | ast.Tuple) and passes.elts:
                    last = passes.elts[-1]  # type: ignore[assignment]
                chosen = ast.Assign([target], last, lineno=function.lineno)
                function.body = [*before, chosen, *inside, ast.Return(yielded)]
                lines[function.lineno - 1 : function.end_lineno] = [ast.unparse(function)]
                return "\n".join(lines)
        if yields:
            return renamed(source, "get_inputs", "draw_groups").rstrip("\n") + "\n" + _LAST_GROUP
    return source

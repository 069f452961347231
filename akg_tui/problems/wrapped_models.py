"""A `Model` or `get_inputs()` around the problem's own, where `new` can't use that as it is.

A task needs a `Model`, and each input must change the results by more than the tolerance. The
wrapper is appended to the text of the reference; the problem's own `get_inputs()` gets another
name.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping
from pathlib import Path

from akg_tui.problems.module_text import renamed, used_by
from akg_tui.store.errors import BadTask
from akg_tui.store.task_folder import bound_names, parse_python

ALL_TENSORS = "tensors"
"""The place of all tensors that have no factor of their own."""

_TEXTS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


_OWN = ("get_inputs", "get_init_inputs", "metrics")
"""The functions of a reference that compute no results."""


def with_model(path: Path, reference: str, entry: str = "") -> tuple[str, str]:
    """Return a reference that binds `Model`, and what was added in words, or "".

    `Model` is `entry` if the file binds that, else the only module that is no part of another; in a
    file without modules, it calls the only function that no other one calls. Raises `BadTask` if
    there are several.
    """
    module = parse_python(path, reference.encode())
    bound = bound_names(module.body)
    if "Model" in bound and not isinstance(bound["Model"], ast.FunctionDef):
        return reference, ""
    if "Model" in bound:
        reference, module = (text := renamed(reference, "Model", "model_function")), ast.parse(text)
        bound = bound_names(module.body)
    modules = [name for name in bound if _is_module(bound, name)]
    functions = [name for name, each in bound.items() if isinstance(each, ast.FunctionDef)]
    kind = "module" if modules else "function"
    parts = {name: used_by(bound[name]) for name in modules or functions if name not in _OWN}
    whole = [n for n in parts if not any(n in used for other, used in parts.items() if other != n)]
    whole = [entry] if entry in bound else whole
    if len(whole) > 1:
        stated = f"its {kind}s that are no part of another are {', '.join(whole)}"
        raise BadTask(path, 1, "Model", f"is missing, and {stated}: add Model = {whole[0]}")
    if not whole:
        return reference, ""  # its check tells what is expected
    name, function = whole[0], bound[whole[0]]
    told = f"Model is {name}"
    told += "" if name == entry else f", the file's only {kind} that is no part of another"
    added = f"\n\n# Added by `akg-tui new`: {told}.\nModel = {name}\n"
    if isinstance(function, ast.FunctionDef):
        parameters, passed = ast.unparse(function.args), _passed(function.args)
        added = _TEXTS["function"].format(
            told=told, name=name, parameters=parameters, passed=passed
        )
    added += "" if "get_init_inputs" in bound else _TEXTS["no_arguments"]
    return reference.rstrip("\n") + "\n" + added, told


def _is_module(bound: Mapping[str, ast.stmt], name: str, depth: int = 0) -> bool:
    """Return whether a name is a class of the file that inherits from `Module`."""
    statement = bound.get(name)
    if not isinstance(statement, ast.ClassDef) or depth > len(bound):
        return False
    bases = [getattr(each, "attr", getattr(each, "id", "")) for each in statement.bases]
    return any(base == "Module" or _is_module(bound, base, depth + 1) for base in bases)


def _passed(arguments: ast.arguments) -> str:
    """Return the arguments with which a function of such parameters is called."""
    passed = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    passed += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    passed += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    passed += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join(passed)


def with_factors(reference: str, factors: Mapping[int, float] | Mapping[str, float]) -> str:
    """Return a reference whose `get_inputs()` multiplies floats and tensors of them, by place.

    A place is a position or `ALL_TENSORS`.
    """
    inner = renamed(reference, "get_inputs", "draw_unscaled").rstrip("\n")
    return inner + "\n" + _TEXTS["scaling"].format(factors=dict(factors), all_tensors=ALL_TENSORS)


def place_of(reference: str, parameter: str) -> int | None:
    """Return the place of a parameter of `Model.forward`, or of a part of one such as `table[0]`.

    None if it is not found.
    """
    names = [each.arg for each in _parameters(ast.parse(reference))]
    name = parameter.partition("[")[0]
    return names.index(name) if name in names else None


def _parameters(module: ast.Module) -> list[ast.arg]:
    """Return the parameters of `Model.forward` after `self`."""
    for statement in module.body:
        if isinstance(statement, ast.ClassDef) and statement.name == "Model":
            for each in statement.body:
                if isinstance(each, ast.FunctionDef) and each.name == "forward":
                    return [*each.args.posonlyargs, *each.args.args][1:]
    return []

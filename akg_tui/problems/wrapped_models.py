"""A `Model` or `get_inputs()` around the problem's own, where `new` can't use that as it is.

Two readers pass the tensors of lists and dictionaries one by one; each input must change the
results by more than the tolerance. The wrapper is appended to the text of the reference; the
problem's own `Model` or `get_inputs()` gets another name.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from pathlib import Path

from akg_tui.problems.module_text import renamed, used_by
from akg_tui.store.errors import BadTask
from akg_tui.store.task_folder import bound_names, parse_python

LISTS = ("list", "List", "tuple", "Tuple", "Sequence")
"""Annotations of several values."""

DICTIONARIES = ("dict", "Dict", "Mapping")
"""Annotations of values by name."""

ALL_TENSORS = "tensors"
"""The place of all tensors that have no factor of their own."""

FLATTENED = (
    "a list of tensors is passed as its length and then its tensors, a dictionary of tensors as "
    "the list of its keys and then its values"
)

_FLATTENING = '''

# Added by `akg-tui new`: {flattened}.
_NESTED = {places}


def _grouped(values):
    """Return the arguments of forward() with their lists and dictionaries."""
    values, arguments = list(values), []
    while values:
        value = values.pop(0)
        if len(arguments) in _NESTED and isinstance(value, int):
            value, values = values[:value], values[value:]
        elif len(arguments) in _NESTED and isinstance(value, list):
            value, values = dict(zip(value, values)), values[len(value) :]
        arguments.append(value)
    return arguments


class Model(NestedModel):
    """Takes the tensors of lists and dictionaries one by one."""

    def forward(self, *values):
        return super().forward(*_grouped(values))


def get_inputs():
    """Return the inputs, those of lists and dictionaries one by one."""
    flat = []
    for place, value in enumerate(draw_nested()):
        if place not in _NESTED or value is None:
            flat.append(value)
        elif not isinstance(value, dict):
            flat += [len(value), *value]
        elif any(hasattr(each, "clone") for each in value.values()):
            flat += [list(value), *value.values()]
        else:
            flat.append(value)
    return flat
'''

_SCALING = '''

# Added by `akg-tui new`: as drawn, these inputs change the results by less than the tolerance.
_FACTORS = {factors}


def get_inputs():
    """Return the inputs, some of them multiplied by a factor."""
    inputs = list(draw_unscaled())
    for place, value in enumerate(inputs):
        is_tensor = hasattr(value, "is_floating_point") and value.is_floating_point()
        factor = _FACTORS.get(place, _FACTORS.get({all_tensors!r}, 1) if is_tensor else 1)
        if factor != 1 and (is_tensor or isinstance(value, float)):
            inputs[place] = value * factor
    return inputs
'''


_OWN = ("get_inputs", "get_init_inputs", "metrics")
"""The functions of a reference that compute no results."""

_FUNCTION = '''

# Added by `akg-tui new`: {told}.
import torch


class Model(torch.nn.Module):
    """Calls {name}."""

    def forward(self, {parameters}):
        return {name}({passed})
'''

_NO_ARGUMENTS = """

def get_init_inputs():
    return []
"""


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
        added = _FUNCTION.format(told=told, name=name, parameters=parameters, passed=passed)
    added += "" if "get_init_inputs" in bound else _NO_ARGUMENTS
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


def flattened(reference: str, places: Collection[int] = ()) -> tuple[str, bool]:
    """Return a reference that takes no lists or dictionaries of tensors, and if that is a change.

    The parameters are those that the annotations of `Model.forward` tell, and `places`.
    """
    nested = tuple(sorted({*places, *_places(ast.parse(reference))}))
    if not nested:
        return reference, False
    inner = renamed(renamed(reference, "Model", "NestedModel"), "get_inputs", "draw_nested")
    # A set: the elements of a tuple would be sizes of the reference.
    added = _FLATTENING.format(flattened=FLATTENED, places=set(nested))
    return inner.rstrip("\n") + "\n" + added, True


def with_factors(reference: str, factors: Mapping[int, float] | Mapping[str, float]) -> str:
    """Return a reference whose `get_inputs()` multiplies floats and tensors of them, by place.

    A place is a position or `ALL_TENSORS`.
    """
    inner = renamed(reference, "get_inputs", "draw_unscaled").rstrip("\n")
    return inner + "\n" + _SCALING.format(factors=dict(factors), all_tensors=ALL_TENSORS)


def place_of(reference: str, parameter: str) -> int | None:
    """Return the place of a parameter of `Model.forward`; None if it is not found."""
    names = [each.arg for each in _parameters(ast.parse(reference))]
    return names.index(parameter) if parameter in names else None


def _places(module: ast.Module) -> tuple[int, ...]:
    """Return the places of the parameters of `Model.forward` that hold several tensors."""
    return tuple(i for i, each in enumerate(_parameters(module)) if _holds_tensors(each))


def _parameters(module: ast.Module) -> list[ast.arg]:
    """Return the parameters of `Model.forward` after `self`."""
    for statement in module.body:
        if isinstance(statement, ast.ClassDef) and statement.name == "Model":
            for each in statement.body:
                if isinstance(each, ast.FunctionDef) and each.name == "forward":
                    return [*each.args.posonlyargs, *each.args.args][1:]
    return []


def _holds_tensors(argument: ast.arg) -> bool:
    for node in ast.walk(argument):
        match node:
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
                held = {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(inner)}
                if name in (*LISTS, *DICTIONARIES) and "Tensor" in held:
                    return True
    return False

"""A `Model` or `get_inputs()` around the problem's own, where the judge can't use that as it is.

The judge passes tensors, not lists or dictionaries of them; no call may change its inputs; and each
input must change the results by more than the tolerance. The wrapper is appended to the text of the
reference; the problem's own `Model` or `get_inputs()` gets another name.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence

from akg_tui.problems.module_text import renamed

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

COPIED = "Model gets copies of inputs that its forward() writes to: {places}"

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

_COPYING = '''

# Added by `akg-tui new`: forward() writes to some of its inputs, which a reference must not do.
class Model(WritingModel):
    """Passes copies of these inputs on."""

    def forward(self, *values):
        values = list(values)
        for place in {places}:
            if place < len(values) and hasattr(values[place], "clone"):
                values[place] = values[place].clone()
        return super().forward(*values)
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


def with_copies(reference: str, places: Sequence[int]) -> str:
    """Return a reference whose `Model` writes to copies of the inputs in these places."""
    inner = renamed(reference, "Model", "WritingModel").rstrip("\n")
    return inner + "\n" + _COPYING.format(places=tuple(places))


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

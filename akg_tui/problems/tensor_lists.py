"""References whose `forward` takes lists of tensors, made to take the tensors one by one.

The judge passes tensors, not lists of them. Works on text: the parameters are found by their
annotation, `list[torch.Tensor]` in any spelling.
"""

from __future__ import annotations

import ast

from akg_tui.problems.module_text import renamed

LISTS = ("list", "List", "tuple", "Tuple", "Sequence")
"""Annotations of several values."""

CHANGED = "a list of tensors is passed as its length and then its tensors"

_TAIL = '''

# Added by `akg-tui new`: {changed}.
_LISTS = {places!r}


def _grouped(values):
    """Return the arguments of forward() with their lists."""
    values, arguments = list(values), []
    while values:
        value = values.pop(0)
        if len(arguments) in _LISTS and value is not None:
            value, values = values[:value], values[value:]
        arguments.append(value)
    return arguments


class Model(ListsModel):
    """Takes the tensors of lists one by one."""

    def forward(self, *values):
        return super().forward(*_grouped(values))


def get_inputs():
    """Return the inputs, those of lists one by one."""
    flat = []
    for place, value in enumerate(draw_lists()):
        flat += [len(value), *value] if place in _LISTS and value is not None else [value]
    return flat
'''


def without_lists(reference: str) -> tuple[str, bool]:
    """Return a reference that takes no lists of tensors, and whether that was a change."""
    places = _places(ast.parse(reference))
    if not places:
        return reference, False
    inner = renamed(renamed(reference, "Model", "ListsModel"), "get_inputs", "draw_lists")
    return inner.rstrip("\n") + "\n" + _TAIL.format(changed=CHANGED, places=places), True


def _places(module: ast.Module) -> tuple[int, ...]:
    """Return the places of the parameters of `Model.forward` that are lists of tensors."""
    for statement in module.body:
        if isinstance(statement, ast.ClassDef) and statement.name == "Model":
            for each in statement.body:
                if isinstance(each, ast.FunctionDef) and each.name == "forward":
                    arguments = [*each.args.posonlyargs, *each.args.args][1:]
                    return tuple(i for i, a in enumerate(arguments) if _holds_tensors(a))
    return ()


def _holds_tensors(argument: ast.arg) -> bool:
    for node in ast.walk(argument):
        match node:
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
                held = {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(inner)}
                if name in LISTS and "Tensor" in held:
                    return True
    return False

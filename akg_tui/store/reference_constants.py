"""What a task changes in the text of its reference, whose file stays as it is.

Other values for numbers that the file binds at its top level, such as `batch_size = 4096`
(`[reference.constants]`), and results that are gradients (`[reference] gradients`). Nothing is run,
and every line of the file stays where it was.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from akg_tui.core.task import Case, Task

Number = int | float

LARGEST = 2**63 - 1

LONGEST_SHAPE = 16
"""The most elements of a tuple or list that are sizes; a longer one is a table."""

_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class Constant:
    """A number at the top level of a module: `NAME = value`, on `line`, or in a tuple: `NAME[0]`.

    `derived`: the value is computed from other constants, and changes with them.
    """

    name: str
    value: Number
    line: int
    derived: bool


class UnknownConstant(ValueError):
    """A value for a name that is no constant of the reference, or of another kind."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


def constants(source: str) -> dict[str, Constant]:
    """Return the constants of a module by name, in the order of the file.

    A name that is assigned twice is none: it would be unclear which assignment counts.
    """
    found: dict[str, Constant] = {}
    for name, node in _assignments(ast.parse(source)):
        try:
            value = value_of(node, {known: each.value for known, each in found.items()})
        except (ValueError, ArithmeticError, RecursionError):
            continue
        derived = any(isinstance(part, ast.Name) for part in ast.walk(node))
        found[name] = Constant(name, value, node.lineno, derived)
    return found


def with_constants(source: str, values: Mapping[str, Number]) -> str:
    """Return the module's text with other numbers for some of its constants.

    Raises `UnknownConstant` if the module has no such constant, or the value is not of its kind.
    """
    if not values:
        return source
    known = constants(source)
    for name, value in values.items():
        check_value(known, name, value)
    # `splitlines` of bytes knows only the line ends that Python knows.
    lines = source.encode().splitlines(keepends=True)
    nodes = [(node, name) for name, node in _assignments(ast.parse(source)) if name in values]
    # From the end, so that the places of the others stay as they are.
    for node, name in sorted(nodes, key=_place, reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        # A value over several lines leaves its empty lines, inside brackets, behind.
        gap = b"\n" * (last - first)
        # `b` of `a = b = 1`, whose place is empty, gets a statement of its own.
        empty = node.col_offset == node.end_col_offset and not gap
        text = (f"; {name} = " if empty else "").encode() + repr(values[name]).encode()
        lines[first : last + 1] = [before + (b"(" + text + gap + b")" if gap else text) + after]
    return b"".join(lines).decode()


_GRADIENTS = Path(__file__).with_name("loss_gradients.py.txt")
"""The template of the class whose results are the gradients."""


class UnknownGradient(ValueError):
    """Why the results of a reference can't be the gradients that its task wants."""


def with_gradients(source: str, names: Sequence[str]) -> str:
    """Return the text of a reference whose results are the gradients of its loss for `names`.

    Raises `UnknownGradient` if the file does not show the parameters of `forward`, or a name is
    none of them and no name of a weight either.
    """
    if not names:
        return source
    forward = _forward(ast.parse(source), "Model")
    if forward is None:
        raise UnknownGradient("the reference shows no forward of Model")
    arguments = forward.args
    own = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    named = [each.arg for each in arguments.kwonlyargs]
    if arguments.vararg or arguments.kwarg or not own:
        raise UnknownGradient("forward of Model must name its parameters")
    passed = [f"given[{name!r}]" for name in own[1:]]
    passed += [f"{name}=given[{name!r}]" for name in named]
    arguments.args = arguments.args[1:] if not arguments.posonlyargs else arguments.args
    arguments.posonlyargs = arguments.posonlyargs[1:]
    return source.rstrip("\n") + "\n\n\n" + _GRADIENTS.read_text("utf-8").format(
        parameters=ast.unparse(arguments),
        given=", ".join(f"{name!r}: {name}" for name in [*own[1:], *named]),
        names=tuple(names),
        passed=", ".join(passed),
    )  # fmt: skip


def _forward(module: ast.Module, name: str, depth: int = 0) -> ast.FunctionDef | None:
    """Return the method `forward` of a class of the file, or of its bases there."""
    for statement in module.body if depth < 20 else ():
        match statement:
            case ast.Assign(targets=[ast.Name(id=bound)], value=ast.Name(id=other)):
                if bound == name:
                    return _forward(module, other, depth + 1)
            case ast.ClassDef(name=bound, bases=bases, body=body) if bound == name:
                for each in body:
                    if isinstance(each, ast.FunctionDef) and each.name == "forward":
                        return each
                others = [each.id for each in bases if isinstance(each, ast.Name)]
                found = (_forward(module, other, depth + 1) for other in others)
                return next((each for each in found if each is not None), None)
    return None


def as_judged(source: str, task: Task, case: Case | None = None) -> str:
    """Return the text of a reference as the judge runs it; raises as the two functions above."""
    return with_gradients(with_constants(source, task.constants(case)), task.reference.gradients)


def _place(found: tuple[ast.expr, str]) -> tuple[int, int]:
    return found[0].lineno, found[0].col_offset


def check_value(known: Mapping[str, Constant], name: str, value: Number) -> None:
    """Raise `UnknownConstant` unless `known` has the name, with a value of the same kind."""
    if name not in known:
        names = ", ".join(known) or "none"
        raise UnknownConstant(name, f"is no constant of the reference, which has: {names}")
    if isinstance(known[name].value, int) and not isinstance(value, int):
        raise UnknownConstant(name, f"is {value}, expected an integer as in the reference")


def _assignments(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name that the top level binds once, with the expression bound to it.

    A short tuple or list gives its elements, as `NAME[0]`, up to one that stands for several. The
    place of an expression that is not in the text is empty.
    """
    found: list[tuple[str, ast.expr]] = []
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.append((name, value))
            case ast.Assign(targets=[ast.Name(id=name), *others], value=value):
                found.append((name, value))
                # In `a = b = 1` the second follows the first, at the end of the statement.
                first = ast.copy_location(ast.Name(id=name, ctx=ast.Load()), statement)
                first.lineno = first.end_lineno or first.lineno
                first.col_offset = first.end_col_offset or 0
                found += [(each.id, first) for each in others if isinstance(each, ast.Name)]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = zip(names, values, strict=False)
                found += [(each.id, value) for each, value in pairs if isinstance(each, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                found.append((name, value))
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                found += [(name, value)] * 2  # never a constant
    times = Counter(name for name, _ in found)
    for name, value in found:
        if times[name] > 1:
            continue
        if isinstance(value, ast.Tuple | ast.List):
            if len(value.elts) > LONGEST_SHAPE:
                continue
            one_each = takewhile(lambda each: not isinstance(each, ast.Starred), value.elts)
            yield from ((f"{name}[{at}]", each) for at, each in enumerate(one_each))
        else:
            yield name, value


def value_of(node: ast.expr, known: Mapping[str, Number]) -> Number:
    """Return the value of an arithmetic expression of numbers; ValueError for any other."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded(value)
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -value_of(operand, known)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _bounded(_OPERATORS[type(op)](value_of(left, known), value_of(right, known)))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, exponent = value_of(left, known), value_of(right, known)
            if not (isinstance(exponent, int) and 0 <= exponent < 64 and abs(base) < 2**32):
                raise ValueError("too large a power")
            return _bounded(base**exponent)
        case ast.BinOp(left=left, op=ast.LShift(), right=right):
            number, shift = value_of(left, known), value_of(right, known)
            if not (isinstance(number, int) and isinstance(shift, int) and 0 <= shift < 64):
                raise ValueError("too large a shift")
            return _bounded(number << shift)
    raise ValueError("not a number")


def _bounded(value: Number) -> Number:
    if not abs(value) <= LARGEST:
        raise ValueError("too large a number")
    return value

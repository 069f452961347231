"""What can be told of a reference or a kernel without running it. Pure: bytes in, errors out.

Raises `BadTask` naming file and line; whether the code works is the judge's to find out.
"""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

from akg_tui.store.errors import BadTask

Bound = dict[str, ast.stmt]


def check_reference(path: Path, source: bytes) -> None:
    """A reference has class Model with forward, and get_inputs and get_init_inputs.

    Both functions are called without arguments. A name bound by an import or an
    assignment is taken on trust.
    """
    bound = _bound(_parse(path, source).body)
    model = _required(path, bound, "Model", "class Model(torch.nn.Module) with forward(self, …)")
    if isinstance(model, ast.FunctionDef | ast.AsyncFunctionDef):
        raise BadTask(path, model.lineno, "Model", "is a function, expected a class")
    if isinstance(model, ast.ClassDef) and _lacks_forward(model, bound):
        raise BadTask(
            path, model.lineno, "Model", "has no method forward, expected def forward(self, …)"
        )
    for name in ("get_inputs", "get_init_inputs"):
        function = _required(path, bound, name, f"def {name}() that returns a list")
        _check_callable(path, name, function)


def check_kernel(path: Path, source: bytes) -> None:
    """A kernel parses, and has ModelNew."""
    bound = _bound(_parse(path, source).body)
    model = _required(path, bound, "ModelNew", "class ModelNew with Model's constructor and call")
    if isinstance(model, ast.FunctionDef | ast.AsyncFunctionDef):
        raise BadTask(path, model.lineno, "ModelNew", "is a function, expected a class")


def _parse(path: Path, source: bytes) -> ast.Module:
    if not source.strip():
        raise BadTask(path, 1, "", "the file is empty, expected Python code")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a kernel's style is nobody's business here
            return ast.parse(source)
    except SyntaxError as error:
        raise BadTask(path, error.lineno or 1, "", f"not valid Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        why = str(error) or type(error).__name__
        raise BadTask(path, 1, "", f"cannot be read as Python: {why}") from None


def _required(path: Path, bound: Bound, name: str, expected: str) -> ast.stmt:
    if name not in bound:
        raise BadTask(path, 1, name, f"is missing, expected {expected}")
    return bound[name]


def _bound(body: list[ast.stmt]) -> Bound:
    """The names that a module's top level binds; of several, the last counts."""
    names: Bound = {}
    for statement in body:
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names[name] = statement
            case ast.AsyncFunctionDef(name=name):
                names[name] = statement
            case ast.Assign(targets=targets):
                names |= {t.id: statement for t in targets if isinstance(t, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                names[name] = statement
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name: statement for alias in aliases}
            case ast.If(body=inner, orelse=other):
                names |= _bound(inner) | _bound(other)
            case ast.Try(body=inner, orelse=other, handlers=handlers, finalbody=last):
                for handler in handlers:
                    names |= _bound(handler.body)
                names |= _bound(inner) | _bound(other) | _bound(last)
            case ast.With(body=inner):
                names |= _bound(inner)
            case _:
                continue
    return names


def _lacks_forward(model: ast.ClassDef, bound: Bound, depth: int = 0) -> bool:
    """Whether neither the class nor a base that can be seen binds `forward`."""
    if "forward" in _bound(model.body) or depth > 20:
        return False
    for base in model.bases:
        name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        if name in ("Module", "object"):
            continue
        local = bound.get(name)
        if not isinstance(local, ast.ClassDef) or not _lacks_forward(local, bound, depth + 1):
            return False
    return True


def _check_callable(path: Path, name: str, function: ast.stmt) -> None:
    match function:
        case ast.AsyncFunctionDef():
            raise BadTask(path, function.lineno, name, "is async, expected a plain function")
        case ast.ClassDef():
            raise BadTask(path, function.lineno, name, "is a class, expected a function")
        case ast.FunctionDef(args=arguments):
            positional = arguments.posonlyargs + arguments.args
            needed = positional[: len(positional) - len(arguments.defaults)]
            pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            needed += [argument for argument, default in pairs if default is None]
            if needed:
                told = ", ".join(argument.arg for argument in needed)
                message = f"needs arguments ({told}), expected to be called without any"
                raise BadTask(path, function.lineno, name, message)
        case _:
            return

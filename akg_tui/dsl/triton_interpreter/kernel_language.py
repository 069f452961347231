"""The meaning of a kernel's text and arguments, as Triton's compiler reads them.

A kernel's text is rewritten before the interpreter runs it as Python; the functions that the
rewritten text calls are here.
"""

# Triton has no types.
# mypy: disable-error-code="import-untyped"
# ruff: noqa: N802 (the names of ast's visitors)

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import triton.language as tl
from triton.runtime import interpreter, jit

from akg_tui.dsl.interpretation import CannotRunHere, FailedAssertion, NotCompiled

OUTSIDE = tuple(
    f"triton.language.extra.{name}"
    for name in ("libdevice", "cuda", "cuda.libdevice", "cuda.utils", "cuda.gdc")
)
"""Modules with functions for one vendor's devices."""

LAUNCHING = threading.RLock()
"""Held for each launch: the interpreter knows one program at a time, whichever thread runs it."""

PREFIX = "_as_the_compiler_"
"""Rewritten text calls functions of ours; their names begin with this."""


class Rewriter(interpreter.ASTTransformer):  # type: ignore[misc]
    """Rewrites what means something else in Python than for the compiler."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Note which names are bound once: a constant among them stays a constant."""
        bound = [
            name.id
            for name in ast.walk(node)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        ]
        self._once = {name for name in bound if bound.count(name) == 1}
        self.generic_visit(node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Make a tensor of the value, unless the name keeps it for good."""
        node.value = self.visit(node.value)
        only = node.targets[0]
        if len(node.targets) == 1 and isinstance(only, ast.Name) and only.id in self._once:
            return node
        super().visit_Assign(node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Have `and` and `or` of blocks be computed for each element."""
        self.generic_visit(node)
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        values = [ast.Lambda(args=nothing, body=each) for each in node.values]
        kind = ast.Constant(value="and" if isinstance(node.op, ast.And) else "or")
        return _call("joined", node, kind, *values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Have `not` of a block be computed for each element."""
        self.generic_visit(node)
        return _call("negated", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Refuse `a < b < c`, as the compiler does."""
        self.generic_visit(node)
        return _call("chained", node) if len(node.ops) > 1 else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Have `min` and `max` of blocks be computed for each element."""
        self.generic_visit(node)
        named = isinstance(node.func, ast.Name) and node.func.id in ("min", "max")
        plain = named and not node.keywords
        return _call("extreme", node, node.func, *node.args) if plain else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Have a constant, which the interpreter passes as it is, be its own value."""
        self.generic_visit(node)
        reads = node.attr == "value" and isinstance(node.ctx, ast.Load)
        return _call("value", node, node.value) if reads else node

    def visit_For(self, node: ast.For) -> ast.AST:
        """Have the variable of a loop be a tensor, unless the loop is unrolled."""
        self.generic_visit(node)
        if isinstance(node.iter, ast.Call):
            node.iter = _call("counted", node.iter, node.iter)
        return node


def _call(name: str, at: ast.AST, *arguments: ast.expr) -> ast.Call:
    called = ast.Call(ast.Name(PREFIX + name, ast.Load()), list(arguments), [])
    return ast.copy_location(called, at)


def joined(kind: str, *values: Callable[[], Any]) -> Any:
    """Return `a and b` or `a or b`: of constants as in Python, of tensors for each element."""
    tensors: list[Any] = []
    value: Any = None
    for each in values:
        value = each()
        if isinstance(value, tl.tensor):
            tensors.append(value)
        elif bool(value) is (kind == "or"):
            return value
    if not tensors:
        return value
    while len(tensors) > 1:
        right, left = tensors.pop(), tensors.pop()
        tensors.append(left.logical_and(right) if kind == "and" else left.logical_or(right))
    return tensors[0]


def negated(value: Any) -> Any:
    """Return `not value`, of a tensor for each element."""
    return value.__not__() if isinstance(value, tl.tensor) else not value


def chained() -> Any:
    """Refuse `a < b < c`."""
    raise NotCompiled("simultaneous multiple comparison is not supported: use (a < b) & (b < c)")


def value(constant: Any) -> Any:
    """Return `constant.value`."""
    return getattr(constant, "value", constant)


def extreme(function: Callable[..., Any], *values: Any) -> Any:
    """Return `min` or `max` of values: of constants as in Python, of tensors for each element."""
    language = {min: "minimum", max: "maximum"}.get(function)
    if language is None or not any(isinstance(each, tl.tensor) for each in values):
        return function(*values)
    return functools.reduce(getattr(tl, language), values)


class Counted:
    """A range whose numbers are tensors in a loop of the kernel."""

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)


def counted(numbers: Any) -> Any:
    """Return the numbers of a loop as tensors; those of an unrolled loop as they are."""
    if isinstance(numbers, Counted):
        return numbers.numbers
    if not isinstance(numbers, range):
        return numbers
    return (interpreter.interpreter_semantic.to_tensor(each) for each in numbers)


def _unrolled(*bounds: Any, **named: Any) -> Counted:
    return Counted(_range(*bounds, **named))


def _range(arg1: Any, arg2: Any = None, step: Any = None, **_: Any) -> range:
    step = 1 if step is None else step
    start, end = (0, arg1) if arg2 is None else (arg1, arg2)
    return range(int(start), int(end), int(step))


def correct_text() -> None:
    """Rewrite kernels by `Rewriter`; patch the language once a launch, and completely."""
    for function in (joined, negated, chained, extreme, counted, value):
        setattr(interpreter, PREFIX + function.__name__, function)
    interpreter.FunctionRewriter.ast_transformer = Rewriter()
    interpreter.FunctionRewriter._find_def = _find_def
    interpreter.FunctionRewriter._compile_and_exec = _in_its_scope(
        interpreter.FunctionRewriter._compile_and_exec
    )
    interpreter._patch_lang = patched


def _find_def(_: Any, lines: list[str]) -> int:
    """Return the number of the line of the function, whatever its text says later."""
    starts = (n for n, line in enumerate(lines, 1) if line.lstrip().startswith("def "))
    return next(starts, 0)


def _in_its_scope(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Have a kernel that was defined in a function see that function's names."""

    def executed(rewriter: Any, tree: ast.Module) -> Any:
        function = rewriter.fn
        around = function.__code__.co_freevars
        if not around:
            return execute(rewriter, tree)
        names = [ast.arg(arg=name) for name in around]
        given = ast.arguments(
            posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[]
        )
        name = ast.Name(function.__name__, ast.Load())
        outer = ast.parse(f"def {function.__name__}(): pass")
        made = outer.body[0]
        assert isinstance(made, ast.FunctionDef)
        made.args, made.body = given, [*tree.body, ast.Return(name)]
        cells = [each.cell_contents for each in function.__closure__]
        return execute(rewriter, ast.fix_missing_locations(outer))(*cells)

    return executed


class _Scope(interpreter._LangPatchScope):  # type: ignore[misc]
    """The patches of a launch. To launchers that hash kernels these names are Triton's own."""

    def set_attr(self, owner: Any, name: str, value: Any) -> None:
        if inspect.isfunction(value):
            value.__triton_builtin__ = True  # type: ignore[attr-defined]
        super().set_attr(owner, name, value)


class _Patched:
    """The patches of the language, counted: those inside a launch have nothing left to do."""

    depth = 0
    scope: Any = None
    files: ClassVar[dict[int, Callable[[], None]]] = {}
    """For each file, by the identity of its names: the function that undoes its patches."""

    def restore(self) -> None:
        """Undo the patches, if this is the outermost launch."""
        _Patched.depth -= 1
        if not _Patched.depth:
            _Patched.scope.restore()
            for undo in _Patched.files.values():
                undo()
            _Patched.files.clear()


def patched(function: Any) -> _Patched:
    """Patch the language for a launch, which ends with `restore`."""
    _Patched.depth += 1
    if _Patched.depth > 1:
        patch_names(function)
        return _Patched()
    scope = _Patched.scope = _Scope()
    builder = interpreter.interpreter_builder
    for language in (tl, tl.core):
        interpreter._patch_builtin(language, builder, scope)
        interpreter._patch_lang_core(language, scope)
        scope.set_attr(language, "static_range", _unrolled)
        scope.set_attr(language, "range", _range)
        scope.set_attr(language, "static_assert", _static_assert)
        scope.set_attr(language, "dot_scaled", _interpreted("dot_scaled", None))
    for owner in (tl.tensor, tl.math, tl.core.tensor_descriptor_base):
        interpreter._patch_builtin(owner, builder, scope)
    interpreter._patch_lang_tensor(tl.tensor, scope)
    outside = _outside()
    # Of the package for CUDA there are two modules with the same functions.
    for module in (*map(importlib.import_module, OUTSIDE), tl.extra.cuda, tl.extra.libdevice):
        for name, given in list(vars(module).items()):
            if id(given) in outside:
                scope.set_attr(module, name, outside[id(given)])
    patch_names(function)
    return _Patched()


def patch_names(function: Any) -> None:
    """Patch the names that the file of a function gave to functions of the language itself."""
    own = getattr(function, "__globals__", None)
    if own is None or id(own) in _Patched.files:
        return
    stand_ins = {
        name: _outside().get(id(given)) or _interpreted(name, given)
        for name, given in own.items()
        if id(given) in _outside() or (tl.core.is_builtin(given) and not _is_ours(given))
    }
    before = {name: own[name] for name in stand_ins}
    own.update(stand_ins)
    _Patched.files[id(own)] = functools.partial(own.update, before)


def _is_ours(function: Any) -> bool:
    return function.__module__ in (interpreter.__name__, __name__)


def keep_patched() -> None:
    """Patch the language for good: no compiler needs it in this process."""
    if not _Patched.depth:
        patched(None)


_functions: dict[int, Any] = {}
_held: list[Any] = []


def _outside() -> dict[int, Any]:
    """Return what stands in for each function of `OUTSIDE`, by its identity."""
    if not _functions:
        of_cuda = importlib.import_module("triton.language.extra.cuda.libdevice")
        for module in map(importlib.import_module, OUTSIDE):
            for name, given in vars(module).items():
                if not inspect.isfunction(given) or given.__module__ != module.__name__:
                    continue
                real = given if tl.core.is_builtin(given) else getattr(of_cuda, name, None)
                _held.append(given)
                _functions[id(given)] = _interpreted(name, real)
    return _functions


def _interpreted(name: str, function: Any) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        if function is None:
            raise CannotRunHere(f"Triton's interpreter has no {name}")
        named["_semantic"] = interpreter.interpreter_semantic
        return function(*given, **named)

    # A kernel that uses it can be hashed, as some launchers do.
    call.__triton_builtin__ = True  # type: ignore[attr-defined]
    return call


def _static_assert(condition: Any, message: Any = "", **_: Any) -> None:
    if not condition:
        raise FailedAssertion(f"static assertion failed: {message}".rstrip(": "))


def correct_arguments() -> None:
    """Pass floats and booleans of a launch as tensors; compute a grid from what was passed.

    Tensors are on the host and are passed as they are, so anything that has a `data_ptr` may be.
    """
    convert, execute = interpreter._implicit_cvt, interpreter.GridExecutor.__call__

    def converted(argument: Any) -> Any:
        if isinstance(argument, bool):
            return _scalar(argument, np.bool_, tl.int1)
        if isinstance(argument, float):
            return _scalar(argument, np.float32, tl.float32)
        return convert(argument)

    def executed(executor: Any, *args: Any, **kwargs: Any) -> Any:
        if callable(executor.grid):
            names = inspect.getfullargspec(executor.fn).args
            known = {name: value for name, value in kwargs.items() if name in names}
            executor.grid = executor.grid(inspect.getcallargs(executor.fn, *args, **known))
        grid = executor.grid
        sizes = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
        executor.grid = tuple(int(size) for size in sizes)
        return execute(executor, *args, **kwargs)

    def run(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not warmup:
            with LAUNCHING:
                executor = interpreter.GridExecutor(
                    function.rewrite(), function.arg_names, grid, function.pre_run_hooks
                )
                executor(*args, **kwargs)
        return Launched(function, kwargs)

    interpreter._implicit_cvt = converted
    interpreter.GridExecutor._init_args_hst = lambda _, args, kwargs: (args, kwargs)
    interpreter.GridExecutor._restore_args_dev = lambda *_: None
    interpreter.GridExecutor.__call__ = executed
    interpreter.InterpretedFunction.run = run


def _scalar(value: Any, dtype: Any, named: Any) -> Any:
    return tl.tensor(interpreter.TensorHandle(np.array([value], dtype), named), named)


class Launched:
    """Stands in for a compiled kernel, whose resources some wrappers ask for before they launch."""

    n_regs, n_spills, n_max_threads = 32, 0, 1024

    def __init__(self, function: Any, constants: dict[str, Any]) -> None:
        self._function, self._constants = function, constants
        self.metadata = SimpleNamespace(shared=1024, num_warps=4, num_stages=1, num_ctas=1)
        self.asm: dict[str, str] = {}

    def _init_handles(self) -> None:
        """Load nothing."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **named: self._function[grid](*args, **self._left(len(args)), **named)

    def _left(self, given: int) -> dict[str, Any]:
        """Return the constants of the first launch that are not passed again."""
        again = set(self._function.arg_names[:given])
        return {name: value for name, value in self._constants.items() if name not in again}


class Interpreted(interpreter.InterpretedFunction, jit.JITFunction):  # type: ignore[misc]
    """An interpreted kernel, which launchers ask for its parameters as they do a compiled one."""

    @functools.cached_property
    def _compiled(self) -> Any:
        return jit.JITFunction(self.fn, **self.kwargs)

    @property
    def __globals__(self) -> dict[str, Any]:
        return self.fn.__globals__  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        """Return what only the compiled function has."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._compiled, name)


def refuse_compiled(function: Any, *_: Any, **__: Any) -> Any:
    """Refuse to launch what only a compiler can run, such as Gluon."""
    raise CannotRunHere(f"{type(function).__name__} {function.__name__} has no interpreter")


def refuse_others() -> None:
    """Refuse functions that no interpreter runs, and have wrappers see the others as compiled."""
    jit.JITFunction.run = refuse_compiled
    for module in [module for name, module in sys.modules.items() if name.startswith("triton.")]:
        for given in vars(module).values():
            if type(given) is interpreter.InterpretedFunction:  # of the language, made before
                given.__class__ = Interpreted
    interpreter.InterpretedFunction = Interpreted

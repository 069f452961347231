"""TritonBench and KernelBenchX: a file with a function of PyTorch and, below it, its test.

The reference is the function, called as one call of the test does; the statements before that call
draw the inputs. Nothing of the test is run while the file is read. Most tests of the set have a
handful of constants for inputs; these are varied.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from akg_tui.problems.module_text import (
    ON_THE_CPU,
    UNSEEDED,
    bound_by,
    on_the_cpu,
    unseeded,
    used_by,
    without,
)
from akg_tui.problems.problem import Problem
from akg_tui.store.errors import BadTask
from akg_tui.store.task_folder import check_reference, file_text, op_named, parse_python

TEST = "test_"
HARNESS = ("utils", "data_utils", "sys", "os")
"""Modules that only the test needs."""

RANDOM = ("normal", "bernoulli", "multinomial", "uniform")
"""Functions that draw numbers, beside those whose names begin with `rand`."""

_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
"""Code after the reference's function; `helpers` draw inputs as the set's harness does."""


VARIED = (
    "the test calls it with constants, which a kernel could remember: floats are multiplied by "
    "random factors from 0.5 to 2 (a symmetric matrix by one), integers and vectors that are not "
    "sorted are shuffled"
)


@dataclass(frozen=True)
class _Call:
    """A call of the function in a test, and the statements there that its arguments need."""

    call: ast.Call
    needed: tuple[ast.stmt, ...]

    @property
    def is_drawn(self) -> bool:
        """Whether an input is drawn at random."""
        nodes = [n for part in (*self.needed, self.call) for n in ast.walk(part)]
        called = {ast.unparse(n.func).rpartition(".")[2] for n in nodes if isinstance(n, ast.Call)}
        return any(name.startswith("rand") or name.strip("_") in RANDOM for name in called)

    @property
    def rank(self) -> tuple[bool, bool, int, bool]:
        """Calls out of training (without dropout) come last, before them those with drawn inputs,
        with floats to vary, with integers to vary; those that write to a given tensor come first.
        """
        given = {each.arg: ast.unparse(each.value) for each in self.call.keywords}
        nodes = [n for part in (*self.needed, *self.call.args) for n in ast.walk(part)]
        kinds = {type(n.value) for n in nodes if isinstance(n, ast.Constant) and n.value}
        varies = 2 if float in kinds else int(int in kinds)
        return given.get("training") == "False", self.is_drawn, varies, "out" not in given


def is_tested(module: ast.Module) -> bool:
    """Return whether a module tests a function of its own and has no `get_inputs()`."""
    names = {name for statement in module.body for name in bound_by(statement)}
    return "get_inputs" not in names and any(_is_test(statement) for statement in module.body)


def _is_test(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef) and statement.name.startswith(TEST)


def read(path: Path) -> Problem:
    """Return the problem in a file. Raises `BadTask`."""
    text = file_text(path)
    module = parse_python(path, text.encode())
    _refuse_triton(path, module)
    tests = [each for each in module.body if _is_test(each) and isinstance(each, ast.FunctionDef)]
    function = _tested(path, module, tests)
    chosen = _chosen(path, function, tests)
    parameters, call, inputs = _split(path, function, chosen)
    helpers = _helpers(path, module, chosen)
    names = {each.name for each in tests}
    dropped = _dropped(module, names, path.stem)
    kept = without(text, lambda each: each.lineno in dropped)
    drawn = "\n".join(ast.unparse(each) for each in chosen.needed)
    listed = f"[{', '.join(inputs)}]"
    added = _TEXTS["model"].format(
        test=tests[0].name,
        name=function.name,
        parameters="".join(f", {each}" for each in parameters),
        call=call,
        drawn="".join(f"    {each}\n" for each in drawn.splitlines()),
        returned=listed if chosen.is_drawn else f"_varied({listed})",
    )
    has_torch = any("torch" in bound_by(each) for each in ast.parse(kept).body)
    made = ("" if has_torch else "import torch\n") + kept.rstrip("\n") + "\n" + helpers + added
    made += "" if chosen.is_drawn else _TEXTS["varying"]
    drawn_anew = unseeded(made, ("get_inputs",))
    reference = on_the_cpu(drawn_anew)
    check_reference(path, reference.encode())
    return Problem(
        format="TritonBench",
        origin=path,
        op=op_named(function.name),
        reference=reference,
        filename=f"{path.name} (as made)",
        changed=(
            f"Model calls {function.name} as line {chosen.call.lineno} of the origin does",
            *([] if chosen.is_drawn else [VARIED]),
            *([UNSEEDED] if drawn_anew != made else []),
            *([ON_THE_CPU] if reference != drawn_anew else []),
        ),
        kept_out=(f"the other calls of {', '.join(sorted(names))}",),
    )


def _refuse_triton(path: Path, module: ast.Module) -> None:
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef):
            for each in statement.decorator_list:
                if "triton" in used_by(each):
                    message = "is a Triton kernel, and the file has no reference to compare it with"
                    raise BadTask(path, statement.lineno, statement.name, message)


def _tested(path: Path, module: ast.Module, tests: Sequence[ast.stmt]) -> ast.FunctionDef:
    """Return the function of the module that its tests call most."""
    called = Counter(
        node.func.id
        for test in tests
        for node in ast.walk(test)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )
    own = {s.name: s for s in module.body if isinstance(s, ast.FunctionDef | ast.ClassDef)}
    names = [name for name, _ in called.most_common() if name in own and own[name] not in tests]
    if not names:
        message = "calls no function of the file, expected a test of one"
        raise BadTask(path, tests[0].lineno if tests else 1, TEST, message)
    found = own[names[0]]
    if isinstance(found, ast.ClassDef):
        raise BadTask(path, found.lineno, found.name, "is a class, expected a function of tensors")
    return found


def _chosen(path: Path, function: ast.FunctionDef, tests: Sequence[ast.FunctionDef]) -> _Call:
    """Return the last of the calls with a tensor that fit best: the later ones are larger."""
    found = [each for test in tests for each in _calls(test.body, (), function.name)]
    if not found:
        message = "is called in no plain statement of its test"
        raise BadTask(path, function.lineno, function.name, message)
    taking = [each for each in found if _split(path, function, each)[2]]
    if not taking:
        raise BadTask(path, found[-1].call.lineno, function.name, "is called without a tensor")
    return max(enumerate(taking), key=lambda each: (each[1].rank, each[0]))[1]


def _calls(body: Sequence[ast.stmt], before: tuple[ast.stmt, ...], name: str) -> Iterator[_Call]:
    """Yield the calls of a function, each with the statements before it that it needs.

    Of a loop the first pass counts.
    """
    for statement in body:
        match statement:
            case ast.For(target=target, iter=ast.Tuple(elts=[first, *_]) | ast.List([first, *_])):
                pass
            case ast.For(target=target):
                first = ast.Constant(0)
            case ast.With(body=inside):
                yield from _calls(inside, before, name)
                continue
            case ast.Try():  # a call in it is there to raise
                before = (*before, statement)
                continue
            case _:
                made = [
                    node
                    for node in ast.walk(statement)
                    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name
                ]
                yield from (_Call(each, _needed(each, before)) for each in made)
                before = before if made else (*before, statement)
                continue
        bound = ast.copy_location(ast.Assign([target], first, lineno=statement.lineno), statement)
        yield from _calls(statement.body, (*before, bound), name)


def _needed(call: ast.Call, before: Sequence[ast.stmt]) -> tuple[ast.stmt, ...]:
    """Return the statements that bind, or change, a name that the arguments need."""
    names = used_by(call)
    found: list[ast.stmt] = []
    for statement in reversed(before):
        changed = bound_by(statement)
        if isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign) and not changed:
            changed = _owner(statement)
        if changed & names:
            if isinstance(statement, ast.Assign) and (bound := bound_by(statement)):
                names = names - bound | used_by(statement.value)
            else:
                names |= used_by(statement)
            found.insert(0, statement)
    return tuple(found)


def _owner(statement: ast.Expr | ast.Assign | ast.AugAssign) -> set[str]:
    """Return the name whose value a method call or an assignment to an element changes."""
    node: ast.AST = statement.value if isinstance(statement, ast.Expr) else statement
    node = node.targets[0] if isinstance(node, ast.Assign) else node
    node = node.target if isinstance(node, ast.AugAssign) else node
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _split(
    path: Path, function: ast.FunctionDef, chosen: _Call
) -> tuple[list[str], str, list[str]]:  # fmt: skip
    """Return the parameters of `forward`, the call in it, and what `get_inputs` returns for them.

    Arguments that are literals stay in the call.
    """
    literals = {
        s.targets[0].id: s.value
        for s in chosen.needed
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and _is_plain(s.value)
    }
    local = {name for statement in chosen.needed for name in bound_by(statement)}
    declared = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    parameters: list[str] = []
    inputs: list[str] = []
    texts: list[str] = []
    given = [*(ast.keyword(None, each) for each in chosen.call.args), *chosen.call.keywords]
    for place, (key, value) in enumerate((each.arg, each.value) for each in given):
        if isinstance(value, ast.Starred) or (not key and place >= len(chosen.call.args)):
            raise BadTask(path, value.lineno, function.name, "is called with unpacked arguments")
        plain = literals.get(value.id, value) if isinstance(value, ast.Name) else value
        calls = any(isinstance(node, ast.Call) for node in ast.walk(plain))
        if _is_plain(plain) or not (calls or used_by(plain) & local):
            text = ast.unparse(plain)
        else:
            text = key or (declared[place] if place < len(declared) else f"value_{place}")
            parameters.append(text)
            inputs.append(ast.unparse(value))
        texts.append(f"{key}={text}" if key else text)
    return parameters, f"{function.name}({', '.join(texts)})", inputs


def _is_plain(node: ast.expr) -> bool:
    """Return whether an expression is a number, a text, or a tuple or list of such."""
    match node:
        case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            return True
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return all(map(_is_plain, elements))
    return False


def _helpers(path: Path, module: ast.Module, chosen: _Call) -> str:
    """Return the functions that the set's harness has and the inputs need."""
    names = {name for part in (*chosen.needed, chosen.call) for name in used_by(part)}
    found = ""
    for statement in module.body:
        if isinstance(statement, ast.ImportFrom) and _of_harness(statement.module or ""):
            for each in sorted({alias.asname or alias.name for alias in statement.names} & names):
                if each not in _TEXTS["helpers"]:
                    message = f"is imported from {statement.module}, which is not part of a task"
                    raise BadTask(path, statement.lineno, each, message)
                found += f"\n{_TEXTS['helpers'][each]}"
    return found


def _of_harness(name: str) -> bool:
    return name.partition(".")[0] in HARNESS


def _dropped(module: ast.Module, tests: set[str], own_name: str) -> set[int]:
    """Return the lines of the statements for the tests alone: also imports from the file itself."""

    def is_of_tests(statement: ast.stmt) -> bool:
        if isinstance(statement, ast.ImportFrom):
            return statement.module == own_name or _of_harness(statement.module or "")
        path = isinstance(statement, ast.Expr) and "sys" in used_by(statement)
        return path or _is_test(statement) or bool(used_by(statement) & tests)

    return {statement.lineno for statement in module.body if is_of_tests(statement)}

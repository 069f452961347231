"""Changes the text of Python modules at places that the syntax tree gives; nothing is run.

What is not changed keeps its comments and its layout.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter

ON_THE_CPU = "tensors are on the CPU, not on a GPU"

_CUDA = re.compile(r"cuda(:\d+)?")

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bound_by(statement: ast.AST) -> set[str]:
    """Return the names that a statement binds in its own scope, also inside `if` and `try`."""
    names: set[str] = set()
    for node in own_nodes(statement):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.AsyncFunctionDef(name=name) | ast.ExceptHandler(name=str() as name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {(each.asname or each.name).partition(".")[0] for each in aliases}
    return names


def own_nodes(node: ast.AST) -> Iterable[ast.AST]:
    """Yield the node and those below it, except the insides of other scopes."""
    waiting = [node]
    while waiting:
        yield (each := waiting.pop())
        if not isinstance(each, (ast.ClassDef, *_FUNCTIONS, *_COMPREHENSIONS)):
            waiting += ast.iter_child_nodes(each)


def used_by(node: ast.AST) -> set[str]:
    """Return the names of the module that a node reads: none of a function's own names."""
    return _union([node])


def _inside(arguments: ast.arguments, body: Sequence[ast.AST]) -> set[str]:
    parts = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parts += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    own = {each.arg for each in parts} | {name for each in body for name in bound_by(each)}
    shared = {
        name
        for each in body
        for inner in own_nodes(each)
        if isinstance(inner, ast.Global)
        for name in inner.names
    }
    return (_union(body) - own) | shared


def _union(nodes: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    waiting = list(nodes)
    while waiting:  # no recursion: a sum of many terms is a deep tree
        match waiting.pop():
            case ast.Name(id=name):
                names.add(name)
            case ast.Constant(value=str() as text) if text.isidentifier():
                names.add(text)  # an annotation may be written as a string
            case (ast.FunctionDef() | ast.AsyncFunctionDef()) as node:
                waiting += [*node.decorator_list, node.args]
                waiting += [node.returns] if node.returns else []
                names |= _inside(node.args, node.body)
            case ast.Lambda(args=args, body=body):
                waiting.append(args)
                names |= _inside(args, [body])
            case (ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp()) as node:
                targets = {name for each in node.generators for name in bound_by(each.target)}
                names |= _union(ast.iter_child_nodes(node)) - targets
                waiting.append(node.generators[0].iter)
            case node:
                waiting += ast.iter_child_nodes(node)
    return names


def needed_for(module: ast.Module, wanted: set[str]) -> list[ast.stmt]:
    """Return the top-level statements that the names `wanted` need, and those with effects.

    A call at the top level, such as `torch.set_default_dtype(…)`, is kept: it may change what
    later code computes.
    """
    kept: set[int] = set()
    names = set(wanted)
    while True:
        before = len(kept)
        for index, statement in enumerate(module.body):
            if index not in kept and (bound_by(statement) & names or _has_effect(statement)):
                kept.add(index)
                names |= used_by(statement)
        if len(kept) == before:
            return [module.body[index] for index in sorted(kept)]


def _has_effect(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()):
            return False
        case ast.ImportFrom(module="__future__"):
            return True
        case ast.Import() | ast.ImportFrom():
            return any(alias.name == "*" for alias in statement.names)
        case ast.Expr() | ast.AugAssign() | ast.With() | ast.For() | ast.While() | ast.Delete():
            return True
        case ast.Assign(targets=targets):
            return not all(isinstance(each, ast.Name | ast.Tuple) for each in targets)
    return False


def without(source: str, dropped: Callable[[ast.stmt], bool]) -> str:
    """Return a module's text without some top-level statements and the comments above them."""
    body = ast.parse(source).body
    lines = source.split("\n")
    shared = Counter(line for s in body for line in {_first(s), s.end_lineno or s.lineno})
    gone: set[int] = set()
    for statement in body:
        first, last = _first(statement), statement.end_lineno or statement.lineno
        if not dropped(statement) or shared[first] > 1 or shared[last] > 1:
            continue
        while first > 1 and lines[first - 2].startswith("#"):
            first -= 1
        gone |= set(range(first, last + 1))
    text = "\n".join(line for number, line in enumerate(lines, 1) if number not in gone)
    return re.sub(r"\n{4,}", "\n\n\n", text).strip("\n") + "\n"


def _first(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


Edit = tuple[int, int, int, str]
"""A line, the columns in bytes where a part of it begins and ends, and the part's new text."""


def _edited(source: str, edits: Iterable[Edit]) -> str:
    """Return a text with some parts of its lines replaced."""
    lines = source.encode().split(b"\n")
    for number, start, end, new in sorted(edits, reverse=True):
        line = lines[number - 1]
        lines[number - 1] = line[:start] + new.encode() + line[end:]
    return b"\n".join(lines).decode()


def _whole(node: ast.expr, new: str) -> Edit:
    """Return the edit that replaces an expression of one line."""
    return node.lineno, node.col_offset, node.end_col_offset or 0, new


def _text_of(node: ast.expr, lines: Sequence[bytes]) -> str:
    """Return the text of an expression of one line; of a part of an f-string another one."""
    return lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode("utf-8", "replace")


def _functions(source: str, names: Collection[str]) -> list[ast.FunctionDef]:
    """Return the functions of a module that have these names."""
    body = ast.parse(source).body
    return [each for each in body if isinstance(each, ast.FunctionDef) and each.name in names]


def renamed(source: str, old: str, new: str) -> str:
    """Return a module's text with a top-level name replaced wherever the code uses it."""
    lines = source.encode().split(b"\n")
    edits: list[Edit] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) if name == old:
                edits.append(_whole(node, new))
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) if name == old:
                line = lines[node.lineno - 1]
                head = re.compile(rb"(class|def)\s+(" + old.encode() + rb")\b")
                if found := head.search(line, node.col_offset):
                    edits.append((node.lineno, found.start(2), found.end(2), new))
    return _edited(source, edits)


def on_the_cpu(source: str) -> str:
    """Return a module's text with the CPU in place of a GPU: in its strings and `.cuda()` calls."""
    lines = source.encode().split(b"\n")
    edits: list[Edit] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str() as text) if _CUDA.fullmatch(text):
                if _text_of(node, lines).strip("\"'") == text:
                    edits.append(_whole(node, "'cpu'"))
            case ast.Call(func=ast.Attribute(attr="cuda") as called, args=[], keywords=[]):
                end = called.end_col_offset or 0
                edits.append((called.end_lineno or 0, end - len("cuda"), end, "cpu"))
    return _edited(source, edits)


UNSEEDED = "get_inputs() seeds no generator: inputs are drawn anew at every call"


def unseeded(source: str, functions: Collection[str]) -> str:
    """Return a module's text in which some functions do not seed torch's generator."""
    edits: list[Edit] = []
    for node in (node for function in _functions(source, functions) for node in ast.walk(function)):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name, value=owner)) as call):
                whole = node.lineno == node.end_lineno and "torch" in used_by(owner)
                if whole and name in ("manual_seed", "manual_seed_all"):
                    edits.append(_whole(call, "pass"))
    return _edited(source, edits)


def exchanging(module: ast.Module) -> int | None:
    """Return the line where a module uses `torch.distributed`, or None."""
    names = set()
    for node in ast.walk(module):
        match node:
            case ast.Import(names=aliases):
                names |= {a.asname for a in aliases if a.asname and _is_distributed(a.name)}
            case ast.ImportFrom(module="torch", names=aliases):
                names |= {a.asname or a.name for a in aliases if a.name == "distributed"}
            case ast.ImportFrom(module=str() as name, names=aliases) if _is_distributed(name):
                names |= {a.asname or a.name for a in aliases}
    for node in ast.walk(module):
        match node:
            case ast.Name(id=name, lineno=line) if name in names:
                return line
            case ast.Attribute(value=ast.Name(id="torch"), attr="distributed", lineno=line):
                return line
    return None


def _is_distributed(name: str) -> bool:
    return name == "torch.distributed" or name.startswith("torch.distributed.")


def with_normal_draws(source: str) -> str:
    """Return a module's text whose `get_inputs` draws normal numbers instead of `torch.rand`'s."""
    edits: list[Edit] = []
    for function in _functions(source, ("get_inputs",)):
        for node in ast.walk(function):
            match node:
                case ast.Attribute(value=ast.Name(id="torch"), attr="rand" | "rand_like" as name):
                    end = node.end_col_offset or 0
                    new = name.replace("rand", "randn")
                    edits.append((node.end_lineno or 0, end - len(name), end, new))
    return _edited(source, edits)


LEAST_NAMED = 16
"""A smaller number is more often a dimension, a count of groups or a kernel's width."""


def with_named_numbers(source: str, functions: Collection[str]) -> tuple[str, dict[str, int]]:
    """Return a module's text with the large integers of some functions as constants of the module.

    Equal numbers get one name, `SIZE_4096`: they are mostly one dimension of several tensors. Also
    returns the names and their values.
    """
    bound = {name for statement in ast.parse(source).body for name in bound_by(statement)}
    lines = source.encode().split(b"\n")
    edits: list[Edit] = []
    named: dict[str, int] = {}
    for node in (node for function in _functions(source, functions) for node in ast.walk(function)):
        match node:
            case ast.Constant(value=int() as value) if value >= LEAST_NAMED:
                name = f"SIZE_{value}"
                # A number of another base, or a part of an f-string, stays.
                if name not in bound and _text_of(node, lines) == str(value):
                    edits.append(_whole(node, name))
                    named[name] = value
    if not named:
        return source, {}
    text = _edited(source, edits).rstrip("\n")
    values = sorted(named.items(), key=itemgetter(1))
    added = "".join(f"{name} = {value}\n" for name, value in values)
    return f"{text}\n\n\n# Added by `akg-tui new`: numbers of the functions above.\n{added}", named


def with_numbers_of_the_module(source: str, names: Mapping[int, str]) -> str:
    """Return a module's text whose functions read some of their numbers from the module.

    A local name that is bound once, to an integer of `names`, becomes the constant of that name:
    the code states a size of its inputs again. One below `LEAST_NAMED` must have an alike name.
    Of two names in a function that state the number, those with an initial of its name count.
    """
    edits: list[Edit] = []
    size_of = {name: size for size, name in names.items()}
    for function in ast.parse(source).body:
        if not isinstance(function, ast.FunctionDef):
            continue
        arguments = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
        stored = Counter(
            each.id
            for each in ast.walk(function)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        )
        stated: dict[str, list[tuple[str, ast.Assign]]] = {}
        for node in ast.walk(function):
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=own)], value=ast.Constant(value=int() as value)
                ):
                    name = names.get(value)
                    once = stored[own] == 1 and node.lineno == node.end_lineno
                    if name is not None and value is not True and once:
                        stated.setdefault(name, []).append((own, node))
        for name, found in stated.items():
            alike = [each for each in found if _has_initial(each[0], name)]
            for own, node in alike or found:
                if {own, name} & arguments:
                    continue
                alike_enough = size_of[name] >= LEAST_NAMED or own.lower() == name.lower()
                if own == name:
                    edits.append((node.lineno, node.col_offset, node.end_col_offset or 0, "pass"))
                elif not stored[name] and alike_enough:
                    edits.append(_whole(node.value, name))
    return _edited(source, edits)


def _has_initial(own: str, name: str) -> bool:
    """Return whether a local name begins as a word of `name`: E for num_experts."""
    return own[0].lower() in {word[0] for word in name.lower().split("_") if word}


SEVERAL_RESULTS = ("eig", "eigh", "qr", "svd", "svd_lowrank", "pca_lowrank")
"""Functions of torch whose results have signs, or bases, that are free."""


def remarks_on(source: str, *, checked: bool) -> list[str]:
    """Return remarks on what the judge does not find out of a reference.

    `get_inputs()` may never draw an integer that an argument gives a meaning of its own, and the
    judge tries none that it does not draw. Unless results are `checked` by the task's own function,
    of those that are not unique only the reference's are right.
    """
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    found = [
        f"{each.arg} in line {each.lineno} of the reference: the judge tries no integer that "
        "get_inputs() does not draw"
        for each in (each for call in calls for each in call.keywords)
        if each.arg in ("ignore_index", "padding_idx")
    ]
    several = [
        f"{name} in line {call.lineno} of the reference has several right results, such as other "
        "signs: only the reference's own pass, unless a check judges them ([correctness] check)"
        for call in calls
        if (name := getattr(call.func, "attr", "")) in SEVERAL_RESULTS
    ]
    return found if checked else found + several

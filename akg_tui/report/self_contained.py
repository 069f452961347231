"""The text of a kernel that needs nothing of akg_tui: what it imports from `akg_tui.dsl` goes in.

Works on text: nothing is run. The helpers are taken from the sources of `akg_tui.dsl`, without
annotations and docstrings, and have names of their own (`_akg_…`), so that none meets the kernel's.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

from akg_tui.problems.module_text import bound_by, needed_for
from akg_tui.store.errors import BadTask

DSL = "akg_tui.dsl"
SOURCES = ("cuda_calls", "compilers")
"""The modules of the package whose names a kernel imports, each after those that it needs."""

_PLACES = (DSL, *(f"{DSL}.{each}" for each in SOURCES))
HEAD = "# Helpers of akg-tui (Apache License 2.0), so that this file stands alone."


def self_contained(path: Path, text: str) -> str:
    """Return a kernel's text without imports of akg_tui; `path` is for messages.

    Raises `BadTask` if it imports something else of akg_tui than functions for kernels, or inside a
    function.
    """
    module = ast.parse(text)
    ours = {id(each) for each in ast.walk(module) if _is_ours(each)}
    # `splitlines` of bytes knows only the line ends that Python knows.
    lines = [line.decode() for line in text.encode().splitlines(keepends=True)]
    found: list[ast.ImportFrom] = []
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and id(node) in ours and node.module in _PLACES:
            found.append(node)
            ours.discard(id(node))
    for each in ast.walk(module):
        if id(each) in ours and isinstance(each, ast.stmt):
            what = f"of akg_tui only `from {DSL} import …` at the top level can be replaced"
            raise BadTask(path, each.lineno, "", what)
    wanted: dict[str, str] = {}
    known = {name for each in _library().body for name in bound_by(each)}
    for node in found:
        for alias in node.names:
            if alias.name not in known:
                raise BadTask(path, node.lineno, alias.name, f"is not of {DSL}")
            wanted[alias.asname or alias.name] = alias.name
        end = node.end_lineno or node.lineno
        shared = [each for each in module.body if node.lineno <= each.lineno <= end]
        if len(shared) > 1:
            raise BadTask(path, node.lineno, "", "has an import of akg_tui and more on one line")
        lines[node.lineno - 1 : end] = [""] * (end - node.lineno + 1)
    if found:
        lines[found[0].lineno - 1] = helpers(wanted)
    return "".join(lines)


def _is_ours(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(each.name.partition(".")[0] == "akg_tui" for each in names)
        case ast.ImportFrom(module=str() as module, level=0):
            return module.partition(".")[0] == "akg_tui"
    return False


def helpers(wanted: dict[str, str]) -> str:
    """Return the code of the functions `wanted`: their names in the DSL, by those in the kernel."""
    module = _library()
    kept = needed_for(module, set(wanted.values()))
    named = {name: f"_akg_{name}" for each in kept for name in bound_by(each)}
    renamed = ast.Module([_Renamed(named).visit(each) for each in kept], [])
    bound = "\n".join(f"{name} = {named[theirs]}" for name, theirs in wanted.items())
    return f"{HEAD}\n{ast.unparse(ast.fix_missing_locations(renamed))}\n\n\n{bound}\n"


def _library() -> ast.Module:
    """Return the modules of the DSL as one, without what only readers and type checkers need."""
    body: list[ast.stmt] = []
    for name in SOURCES:
        source = Path(str(import_module(f"{DSL}.{name}").__file__)).read_text("utf-8")
        body += [each for each in ast.parse(source).body if not _is_left_out(each)]
    plain = _Plain()
    return ast.Module([plain.visit(each) for each in body], [])


def _is_left_out(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.ImportFrom(module="__future__" | "typing"):
            return not (isinstance(statement, ast.ImportFrom) and statement.module == "typing")
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
    return _is_ours(statement)


class _Plain(ast.NodeTransformer):
    """Removes docstrings and annotations; fields of a class keep a plain one."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        node.body = _without_docstring(node.body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = _without_docstring(node.body)
        for each in node.body:
            if isinstance(each, ast.AnnAssign):
                each.annotation = ast.Constant(None)
            else:
                self.visit(each)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        return ast.Assign([node.target], node.value, lineno=node.lineno)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest or [ast.Pass()]
    return body


class _Renamed(ast.NodeTransformer):
    """Gives the names of a module's top level other names, wherever they are read or bound."""

    def __init__(self, named: dict[str, str]) -> None:
        self._named = named

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._named.get(node.id, node.id), node.ctx)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.name = self._named.get(node.name, node.name)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        fields = {id(each) for each in node.body if isinstance(each, ast.AnnAssign)}
        node.bases = [self.visit(each) for each in node.bases]
        node.body = [each if id(each) in fields else self.visit(each) for each in node.body]
        node.name = self._named.get(node.name, node.name)
        return node

    def visit_alias(self, node: ast.alias) -> ast.AST:
        bound = node.asname or node.name
        return ast.alias(node.name, self._named.get(bound, node.asname))

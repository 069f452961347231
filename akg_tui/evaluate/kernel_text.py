"""A kernel's text as the static guard's rules see it: tree, names, what a call reaches.

Pure: reads text, runs nothing. Knows no rule.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

ENTRIES = ("forward", "__call__")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Remark:
    """A finding before the task's level is applied.

    `cheat`: no honest kernel does it, and nothing else may notice: it is refused. What the
    sandbox stops anyway, or the comparison finds at once, is worth a word and no more.
    """

    rule: str
    line: int
    reason: str
    cheat: bool


@dataclass(frozen=True)
class Kernel:
    """A parsed kernel: its tree, its imports, and the functions that a call reaches."""

    tree: ast.Module
    imports: dict[str, str]
    """What a name at hand stands for: `F` for `torch.nn.functional`."""

    reached: tuple[Function, ...]
    entry: ast.FunctionDef | None

    @staticmethod
    def read(source: str) -> Kernel:
        """Return the parsed text; SyntaxError or ValueError if it does not parse."""
        tree = ast.parse(source)
        plain = Kernel(tree, _imports(tree), (), None)
        entry, reached = _reach(tree)
        return dataclasses.replace(plain, reached=tuple(reached), entry=entry)

    def name(self, node: ast.AST) -> str:
        """Return the full name of what an expression names (`torch.softmax`), or ""."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            # Of a variable nothing is known: it may only be called like a module.
            if isinstance(node.value, ast.Name) and node.value.id not in self.imports:
                return ""
            owner = self.name(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""

    def calls(self, within: ast.AST) -> Iterator[tuple[ast.Call, str]]:
        """Yield every call with the full name of what is called."""
        for node in ast.walk(within):
            if isinstance(node, ast.Call):
                yield node, self.name(node.func)


def _imports(tree: ast.Module) -> dict[str, str]:
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                known[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
    return known


def _reach(
    tree: ast.Module,
) -> tuple[ast.FunctionDef | None, list[Function]]:
    """Return ModelNew.forward, and all functions of the file that it may call."""
    functions: dict[str, list[Function]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.setdefault(node.name, []).append(node)
    entry = next(
        (
            method
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name == "ModelNew"
            for method in node.body
            if isinstance(method, ast.FunctionDef) and method.name in ENTRIES
        ),
        None,
    )
    reached: list[Function] = []
    waiting = [entry] if entry is not None else [f for n in ENTRIES for f in functions.get(n, ())]
    while waiting:
        function = waiting.pop()
        if function in reached:
            continue
        reached.append(function)
        for node in ast.walk(function):
            used = node.id if isinstance(node, ast.Name) else getattr(node, "attr", None)
            if isinstance(used, str):
                waiting += [f for f in functions.get(used, ()) if f.name != "__init__"]
    return entry, reached

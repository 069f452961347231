"""A kernel's text for static checks: its syntax tree and its imported names.

Pure: reads text, runs nothing.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from akg_tui.core.kernel.kernel_files import Kernel, files_of
from akg_tui.store.task_folder import bound_names


@dataclass(frozen=True)
class ParsedKernel:
    """A parsed kernel: its tree and its imports. All its Python is read as one module."""

    tree: ast.Module
    """Its lines are the rows of the kernel's files."""
    imports: dict[str, str]
    """The full name of each imported name: `F` is `torch.nn.functional`."""

    @staticmethod
    def read(kernel: Kernel) -> ParsedKernel:
        """Return the parsed kernel; SyntaxError or ValueError if it does not parse."""
        files = files_of(kernel, "kernel.py")
        tree = ast.Module([], [])
        for name, text in files.texts.items():
            if name.endswith(".py"):
                parsed = ast.parse(text)
                tree.body += ast.increment_lineno(parsed, files.before[name]).body
        return ParsedKernel(tree, _imports(tree))

    def name(self, node: ast.AST) -> str:
        """Return the full name of the object that an expression names (`torch.softmax`), or ""."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            # A variable may be named like a module, so only imported names count.
            if isinstance(node.value, ast.Name) and node.value.id not in self.imports:
                return ""
            owner = self.name(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""

    def is_imported(self, node: ast.AST) -> bool:
        """Return whether an expression names an imported module or a part of one."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.imports


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


SOURCE_LIMIT = 1 << 20
NODES_LIMIT = 40_000
"""The static checks of so many nodes take about a second. C++ in a string is one node."""
DEPTH_LIMIT = 250
"""Nested deeper, an expression could end the recursion of a check. Real code stays below 30."""


def with_untyped_call(message: str, source: str) -> str:
    """Return the message of a crash, with a call that passes an address without `argtypes`."""
    kernel = ParsedKernel.read(source)
    nodes = list(ast.walk(kernel.tree))
    typed, addresses = set(), set()
    for node in nodes:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Attribute) and target.attr == "argtypes":
                owner = target.value
                typed.add(owner.attr if isinstance(owner, ast.Attribute) else kernel.name(owner))
            elif isinstance(target, ast.Name) and _is_address(node.value):
                addresses.add(target.id)
    own = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    for call in nodes:
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        given = any(_is_address(a) or getattr(a, "id", "") in addresses for a in call.args)
        # A class of ctypes (c_void_p) or a helper of the file may take an address too.
        foreign = name.startswith("c_") or name in own
        if name and given and name not in typed and not foreign:
            return (
                f"{message}; set argtypes of {name} (line {call.lineno}): without them ctypes "
                "passes pointers as 32-bit ints"
            )
    return message


def _is_address(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "data_ptr"


def syntax_fault(kernel: Kernel, entry: str = "ModelNew") -> str | None:
    """Return one line on why files can't be a kernel, or None.

    All text can be written as UTF-8, all Python of a kernel parses, and its first file binds
    `entry` at its top level, by a class, an assignment or an import.
    """
    files = files_of(kernel, "kernel.py")
    if files.size > SOURCE_LIMIT:
        what = "file has" if len(files.texts) == 1 else "files have"
        return f"the {what} {files.size} characters; the limit is {SOURCE_LIMIT}"
    for name, text in files.texts.items():
        main = name == files.main
        fault = _unwritable(text)
        if fault is None and (main or name.endswith(".py")):
            fault = _fault(text, entry if main else "")
        if fault is not None:
            return fault if main else f"{name}: {fault}"
    return None


def _unwritable(text: str) -> str | None:
    """Return one line on the first character that can't be written as UTF-8, or None."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        return f"line {line}: {text[error.start]!a} can't be written as UTF-8"
    return None


def _fault(source: str, entry: str) -> str | None:
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return f"line {error.lineno or 1}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"the file can't be parsed: {str(error) or type(error).__name__}"
    nodes, depth = 0, 0
    level: list[ast.AST] = [tree]
    while level:
        nodes, depth = nodes + len(level), depth + 1
        if nodes > NODES_LIMIT:
            return f"the file has more than {NODES_LIMIT} syntax nodes, which is the limit"
        if depth > DEPTH_LIMIT:
            line = next((node.lineno for node in level if hasattr(node, "lineno")), 1)
            return f"line {line}: the code is nested deeper than {DEPTH_LIMIT} levels"
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if entry and entry not in bound_names(tree.body):
        return f"line 1: the file defines no class {entry}"
    return None

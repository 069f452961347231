"""Kernels that call PyTorch, which needs no compiler; they may compile C++ too.

The compiler and its cache are `akg_tui.dsl`'s. Must never import torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from akg_tui import dsl
from akg_tui.evaluate import kernel_text as tables
from akg_tui.evaluate.dsls.adapter import CompilerReport, Dsl
from akg_tui.evaluate.kernel_text import Function, Kernel

# The system is readable anyway.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store")


class Torch(Dsl):
    """Kernels that call the framework. They may compile C++ too, as no task forbids it."""

    name = "torch"

    def caches(self, folder: Path) -> dict[str, str]:
        """Return where `compile_cpp` and `load_inline` build."""
        return {"AKG_CACHE_DIR": str(folder), "TORCH_EXTENSIONS_DIR": str(folder / "torch")}

    def readable(self) -> tuple[str, ...]:
        """Return the folder that a compiler outside the system was installed to."""
        command = dsl.find_compiler()
        if not command:
            return ()
        compiler = Path(command[0])
        real = compiler.resolve()
        if any(real.is_relative_to(parent) for parent in SYSTEM):
            return ()
        in_bin = real.parent.name == "bin"
        return (str(real.parent.parent if in_bin else real.parent), str(compiler.parent))

    def toolchain_lacking(self) -> bool:
        """Look for the compiler."""
        return not dsl.find_compiler()

    def report(self, error: BaseException) -> CompilerReport | None:
        """Tell of a compiler that is missing, or that refuses the text."""
        if isinstance(error, dsl.CompilerMissing):
            return CompilerReport("toolchain", str(error), error)
        if isinstance(error, dsl.CompileError):
            return CompilerReport("build", str(error), error, error.output)
        return None

    def built(self, kernel: Kernel) -> set[str]:
        """Return the names that hold a compiled library or a function of one."""
        return {name for node in ast.walk(kernel.tree) for name in _built(kernel, node)}

    def is_own(self, function: Function, kernel: Kernel) -> bool:
        """Return False: what is written in C++ is in a string."""
        return False


def _built(kernel: Kernel, node: ast.AST) -> Iterator[str]:
    """Yield the names that hold what a compiler made."""
    if not isinstance(node, ast.Assign | ast.FunctionDef | ast.AnnAssign):
        return
    parts = [node] if isinstance(node, ast.FunctionDef) else [node.value]
    if not any(
        name.rpartition(".")[2] in tables.BUILDERS
        for part in parts
        if part is not None
        for _, name in kernel.calls(part)
    ):
        return
    if isinstance(node, ast.FunctionDef):
        yield node.name
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for inner in ast.walk(target):
            if isinstance(inner, ast.Attribute):
                yield inner.attr
            elif isinstance(inner, ast.Name) and inner.id != "self":
                yield inner.id


ADAPTER = Torch()

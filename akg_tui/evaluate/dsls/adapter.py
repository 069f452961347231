"""The interface of a DSL: the language that kernels are written in.

A DSL is one subclass of `Dsl`. Engine, judge, zygote and a kernel's process use it, so its module
must import neither torch nor the DSL itself.
"""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from akg_tui import dsl
from akg_tui.evaluate import kernel_text as tables
from akg_tui.evaluate.kernel_text import Function, Kernel, Remark

# These folders are readable in any case.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store")


@dataclass(frozen=True)
class CompilerReport:
    """An error of a DSL's compiler or runtime; `at` is the exception that has the location.

    `kind`: `build` for code that does not compile, `call` for code that failed while it ran, and
    `toolchain` when there is no compiler. `output` is untrusted text.
    """

    kind: Literal["build", "call", "toolchain"]
    text: str
    at: BaseException
    output: str = ""


class Dsl:
    """One DSL of `task.toml`. `target` is always a target's name.

    The methods of this class suit kernels that call PyTorch and may compile C++ with
    `akg_tui.dsl`, because no task forbids that.
    """

    name: str

    def lacking(self, target: str) -> str:
        """Return one line on why no kernel can be loaded for a target here, or ""."""
        return ""

    def instead(self) -> str:
        """Return what can be done with kernels in this DSL where the device is missing."""
        if why := self.lacking("cpu"):
            return why
        return f'backend = "cpu" times kernels in dsl = "{self.name}" here'

    def untimed(self, target: str) -> str:
        """Return why times on a target would be meaningless, or "": then kernels are timed."""
        return ""

    def environment(self, target: str) -> dict[str, str]:
        """Return the environment variables that the judge needs besides the target's."""
        return {}

    def preloaded(self, target: str) -> tuple[str, ...]:
        """Return the modules that every kernel imports: loaded once, in the zygote.

        Loading them must start no thread, and no OpenMP region.
        """
        return ()

    def versions(self, target: str) -> dict[str, str]:
        """Return the versions of the DSL that a measurement records."""
        return {}

    def remarks(self, kernel: Kernel, *, must_do_work: bool) -> Iterator[Remark]:
        """Yield remarks about wrong uses of the DSL.

        `must_do_work`: the task wants the kernel's own code to do the work, so a remark refuses.
        """
        yield from ()

    def caches(self, folder: Path) -> dict[str, str]:
        """Return the environment that makes builds of one kernel go to `folder`."""
        return {
            "AKG_CACHE_DIR": str(folder),
            "TORCH_EXTENSIONS_DIR": str(folder / "torch"),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            # By default below the user's home. On a device inputs are unsealed by Triton.
            "TRITON_HOME": str(folder),
            "TRITON_CACHE_DIR": str(folder / "triton"),
        }

    def readable(self) -> tuple[str, ...]:
        """Return paths that a kernel must read and run, besides system, Python and packages.

        Here: the installation folder of a compiler outside the system folders.
        """
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
        """Return whether the compiler is missing, found out without trusting a kernel."""
        return not dsl.find_compiler()

    def report(self, error: BaseException) -> CompilerReport | None:
        """Return the report of the DSL's compiler; None if `error` has another cause."""
        if isinstance(error, dsl.CompilerMissing):
            return CompilerReport("toolchain", str(error), error)
        if isinstance(error, dsl.CompileError):
            return CompilerReport("build", str(error), error, error.output)
        return None

    def built(self, kernel: Kernel) -> set[str]:
        """Return the names in a kernel's text that hold output of the DSL's compiler."""
        return {name for node in ast.walk(kernel.tree) for name in _built(kernel, node)}

    def is_own(self, function: Function, kernel: Kernel) -> bool:
        """Return whether a function is written in the DSL, and so makes no use of the framework.

        False for every function where the DSL's text is in a string.
        """
        return False


def _built(kernel: Kernel, node: ast.AST) -> Iterator[str]:
    """Yield the names that hold a compiled library or a function of one."""
    if not isinstance(node, ast.Assign | ast.FunctionDef | ast.AnnAssign):
        return
    part = node if isinstance(node, ast.FunctionDef) else node.value
    if part is None or not any(
        name.rpartition(".")[2] in tables.BUILDERS for _, name in kernel.calls(part)
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


def work_remarks(
    kernel: Kernel, built: set[str], nothing: str, *, compiles: bool, must_do_work: bool
) -> Iterator[Remark]:
    """Yield a remark `nothing` if no text is compiled, or one if no call reaches the `built`."""
    line = first_line(kernel)
    if not compiles:
        yield Remark("dsl", line, nothing, cheat=must_do_work)
    elif not built & used_names(kernel):
        yield Remark("dsl", line, "forward never reaches what was compiled", cheat=must_do_work)


def called_names(kernel: Kernel) -> set[str]:
    """Return the last part of the name of every function that a text calls."""
    return {name.rpartition(".")[2] for _, name in kernel.calls(kernel.tree)}


UNKNOWN = "of unknown version"


@functools.lru_cache(maxsize=4)
def version_told(path: str) -> str:
    """Return what a compiler says with `--version`; "" if it says nothing."""
    try:
        return subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def first_line(kernel: Kernel) -> int:
    """Return the line of the kernel's entry, for a remark about the whole kernel."""
    return kernel.entry.lineno if kernel.entry is not None else 1


def used_names(kernel: Kernel) -> set[str]:
    """Return every name that a call of the kernel may look up."""
    seen: set[ast.AST] = set()
    return {
        part
        for function in kernel.reached
        for node in tables.walk_new(function, seen)
        for part in (getattr(node, "id", None), getattr(node, "attr", None))
        if isinstance(part, str)
    }

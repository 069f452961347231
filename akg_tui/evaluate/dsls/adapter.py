"""What the evaluator asks of a language that kernels are written in.

A DSL is one class that has all of this. It is asked in the engine, the judge, the zygote and a
kernel's process, so it may import neither torch nor what it stands for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from akg_tui.evaluate.kernel_text import Function, Kernel, Remark


@dataclass(frozen=True)
class CompilerReport:
    """What a DSL's compiler has against a kernel; `at` is what was raised where it was found.

    `kind`: `build` for code that it refuses, `call` for code that failed while it ran, and
    `toolchain` when there is no compiler. `output` is untrusted text.
    """

    kind: Literal["build", "call", "toolchain"]
    text: str
    at: BaseException
    output: str = ""


class Dsl(Protocol):
    """One DSL of `task.toml`. `target` is always a target's name."""

    name: str

    def lacking(self, target: str) -> str:
        """Return in one line why no kernel can be loaded for a target here, or nothing."""

    def untimed(self, target: str) -> str:
        """Return why times on a target would mean nothing, or nothing: then they are taken."""

    def environment(self, target: str) -> dict[str, str]:
        """Return what the zygote's environment must have besides the target's."""

    def preloaded(self, target: str) -> tuple[str, ...]:
        """Return the modules that every kernel imports: loaded once, in the zygote.

        Loading them must start no thread, and no OpenMP region.
        """

    def caches(self, folder: Path) -> dict[str, str]:
        """Return the environment that keeps what is built for one kernel in `folder`."""

    def readable(self) -> tuple[str, ...]:
        """Return what a kernel must read and run, besides system, Python and packages."""

    def toolchain_lacking(self) -> bool:
        """Return whether what builds kernels is missing: a kernel's word is not enough."""

    def versions(self, target: str) -> dict[str, str]:
        """Return what a reader of a measurement must know of the DSL."""

    def report(self, error: BaseException) -> CompilerReport | None:
        """Return what the DSL's compiler says; None for an error that is not its own."""

    def built(self, kernel: Kernel) -> set[str]:
        """Return the names that hold what the DSL's compiler made."""

    def is_own(self, function: Function, kernel: Kernel) -> bool:
        """Return whether a function is written in the DSL, and so no use of the framework."""

    def remarks(self, kernel: Kernel, *, must_do_work: bool) -> Iterator[Remark]:
        """Yield what is wrong with the use of the DSL; `must`: its code has to do the work."""


def first_line(kernel: Kernel) -> int:
    """Return where a remark about the whole kernel points: at its entry."""
    return kernel.entry.lineno if kernel.entry is not None else 1


def used_names(kernel: Kernel) -> set[str]:
    """Return every name that a call of the kernel may look up."""
    return {
        part
        for function in kernel.reached
        for node in ast.walk(function)
        for part in (getattr(node, "id", None), getattr(node, "attr", None))
        if isinstance(part, str)
    }

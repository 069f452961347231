"""The interface of a DSL: the language that kernels are written in.

A DSL is one subclass of `Dsl`, which brings all that the other floors must know of it: by what its
kernels are known, what a model is told, how kernels are checked, loaded and confined, and what its
compiler says. Its module must import neither torch nor the DSL itself.
"""

from __future__ import annotations

import functools
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from akg_tui.core.task import Task
from akg_tui.dsl import compilers

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store")


@dataclass(frozen=True)
class CompilerReport:
    """An error of a DSL's compiler or runtime; `at` is the exception that has the location.

    `kind`: `build` for code that does not compile, `call` for code that failed while it ran,
    `unsupported` for code that cannot run here, and `toolchain` when there is no compiler. `output`
    is untrusted text. `line` is that of `source`, a string in `language` that the kernel compiled;
    0 if the error has no such line.
    """

    kind: Literal["build", "call", "unsupported", "toolchain"]
    text: str
    at: BaseException
    output: str = ""
    language: str = ""
    line: int = 0
    source: str = ""


class Dsl:
    """One DSL of `task.toml`. `target` is always a target's name.

    The methods of this class suit kernels that call PyTorch and may compile C++ with
    `akg_tui.dsl`, because no task forbids that.
    """

    name: str

    sign: re.Pattern[str]
    """A pattern that is found in kernels of this DSL alone."""

    frame = ""
    """The frame of a kernel, as comments, for a task whose first kernel the agent writes."""

    generated_for: frozenset[str] = frozenset()
    """The targets for which torch.compile generates first kernels in this DSL."""

    report_process = ""
    """The module of `evidence` whose process makes the compile report; "": there is none."""

    has_launches = False
    """Whether the compile report has the launches of a call, compiled for an arch that need not be
    here. Then they are what is known of the machine code and of a kernel that cannot run."""

    builders: frozenset[str] = frozenset()
    """The functions and decorators by which a kernel's text becomes code; empty: it needs none."""

    nothing_built = ""
    """The reason of a refusal where a kernel names none of them and must do the work."""

    def facts(self, task: Task) -> str:
        """Return what a model must know to write kernels of a task in this DSL."""
        more = ', "-fopenmp"' if task.timing.threads > 1 else ""
        return f"{_COMPILE.format(more=more)} {_INLINE}"

    def unreported(self, arch: str) -> str:
        """Return why the compile report cannot be made for an arch, or ""."""
        return ""

    def generator_lacking(self) -> str:
        """Return what torch.compile needs to generate a kernel and is not here, or ""."""
        return ""

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

    def prepare(self, target: str) -> None:
        """Correct the DSL's modules in a process from which those of all kernels are forked."""

    def versions(self, target: str) -> dict[str, str]:
        """Return the versions of the DSL that a measurement records."""
        return {}

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
        command = compilers.find_compiler()
        if not command:
            return ()
        compiler = Path(command[0])
        folder = compiler.resolve().parent
        if not outside_system(folder):
            return ()
        whole = folder.parent if folder.name == "bin" else folder
        return (str(whole), str(compiler.parent))

    def toolchain_lacking(self) -> bool:
        """Return whether the compiler is missing, found out without trusting a kernel."""
        return not compilers.find_compiler()

    def report(self, error: BaseException) -> CompilerReport | None:
        """Return the report of the DSL's compiler; None if `error` has another cause."""
        if isinstance(error, compilers.CompilerMissing):
            return CompilerReport("toolchain", str(error), error)
        if isinstance(error, compilers.CompileError):
            return CompilerReport(
                "build", str(error), error, error.output, error.language, error.line, error.source
            )
        return None


def outside_system(*folders: Path) -> tuple[str, ...]:
    """Return the folders that are not below the system's, which are readable in any case."""
    return tuple(
        str(folder)
        for folder in folders
        if not any(folder.is_relative_to(parent) for parent in SYSTEM)
    )


_COMPILE = (
    "`from akg_tui.dsl import compile_cpp, pointer`: `compile_cpp(source, flags)` compiles a C++ "
    'string and returns a `ctypes.CDLL`; functions need extern "C", and argtypes, because ctypes '
    "passes a plain int as 32 bits. It takes about a second once, and is loaded from a cache "
    'later. It adds -std=c++17 -fPIC and no -O: give flags such as ("-O3", "-march=native"{more}). '
    "`pointer(tensor, torch.float32)` is the address of a "
    "contiguous CPU tensor, and raises for any other."
)
_INLINE = (
    "torch's `load_inline` works too, but reads torch's headers: each change of its C++ costs 15 "
    "to 60 s of building."
)

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

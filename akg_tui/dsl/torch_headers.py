"""Torch's C++ headers, precompiled once for a machine, a compiler, a torch and a set of flags.

`load_inline` spends half of its time on reading `torch/extension.h`. The judge precompiles that
header with GCC, into a folder that kernels can only read; a kernel's process makes its compiler
find it. GCC also accepts a header precompiled with another -O, and then optimizes its functions
otherwise than the kernel asked for: so a build uses a header of exactly equal flags, or none.

GCC instantiates and optimizes templates of the header again in every file, whether used or not.
So what is precompiled has no `torch::nn` and the like, and serves texts that name none of that. A
build that fails with it is done again without it.

Must never import torch at import time, and never run a kernel.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import os
import re
import shlex
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from akg_tui.dsl import compilers

HEADER = "torch/extension.h"
"""The header in whose place the precompiled one is found."""

VARIABLE = "AKG_TORCH_HEADERS"
"""Names, to a kernel's process, the folder that holds one folder for each set of flags."""

TEXT = "#pragma once\n#include <torch/types.h>\n" + "".join(
    f"#if __has_include(<torch/csrc/{name}>)\n#include <torch/csrc/{name}>\n#endif\n"
    for name in (
        *("python_headers.h", "Device.h", "Dtype.h", "DynamicTypes.h", "Exceptions.h"),
        *("autograd/python_variable.h", "utils/pybind.h"),
        *("utils/python_numbers.h", "utils/python_tuples.h"),
    )
)
"""What `torch/extension.h` of torch 2.13 includes, without the C++ frontend."""

TOLD = "precompiling torch's headers, once for these compiler flags"

KEPT_BYTES = 4 << 30
"""The most bytes of all precompiled headers; one of torch 2.13 has 0.5 GiB."""
FREE_BYTES = 4 << 30
"""Nothing is precompiled with less free space than this."""
LIMIT_S = 300.0
POLL_S = 0.25

# The flags of `torch.utils.cpp_extension` in torch 2.13. Where torch has others, GCC finds that
# the header does not fit, and reads the text.
_TORCH_FLAGS = ("-DTORCH_API_INCLUDE_EXTENSION_H", "-fPIC", "-std=c++20")

_WITHOUT_EFFECT = re.compile(r"-W(?!p,).*|-w|-D(?!NDEBUG\b|_).*|-I.*|-l.*|-L.*|-pipe")
# Flags come from a kernel's text and go to a compiler outside the sandbox: none of these reads or
# writes a file.
_HARMLESS = re.compile(
    r"-O[0-3sg]?|-Ofast|-g[0-3]?|-DNDEBUG|-std=(c|gnu)\+\+[0-9a-z]{2}"
    r"|-m(arch|tune|cpu|fpmath|prefer-vector-width)=[A-Za-z0-9.+_-]{1,40}"
    r"|-m(no-)?(avx|sse|fma|f16c|bmi|lzcnt|popcnt|amx)[a-z0-9.-]{0,20}"
    r"|-fopenmp(-simd)?|-fPIC|-fvisibility=hidden|-fvisibility-inlines-hidden"
    r"|-f(no-)?(fast-math|math-errno|trapping-math|signed-zeros|associative-math|reciprocal-math"
    r"|finite-math-only|unsafe-math-optimizations|rounding-math|signaling-nans"
    r"|omit-frame-pointer|strict-aliasing|exceptions|rtti|inline-functions|plt|semantic-interposition"
    r"|unroll-loops|unroll-all-loops|tree-vectorize|tree-loop-vectorize|tree-slp-vectorize"
    r"|vect-cost-model|prefetch-loop-arrays|peel-loops|split-loops|stack-protector)"
    r"|-ffp-contract=(fast|on|off)|-fvect-cost-model=[a-z-]{1,20}"
)

_GCC = re.compile(r"Free\sSoftware\sFoundation")
_CALL = re.compile(r"\bload_inline\s*\(")
_FLAGS = re.compile(r"\bextra_cflags\s*=\s*(\[[^\]]{0,500}\]|\([^)]{0,500}\)|[A-Za-z_]\w*)")
# A name of the C++ frontend, or another header of torch: `TEXT` has not all of them.
_WHOLE = re.compile(
    r"\btorch\s*::\s*(?:nn|optim|data|jit|autograd|serialize|save|load|cuda|OrderedDict)\b"
    r"|\bTORCH_MODULE|\bnamespace\s+torch\b"
    r"|#\s*include\s*[<\"]torch/(?!(?:extension|types)\.h)"
)
_TEXT_LIMIT = 4
"""The most sets of flags that are read from one kernel's text."""

Flags = tuple[str, ...]


Stamp = tuple[tuple[str, int, int], ...]
"""The files that a precompiled header was made of: path, size and time of each."""


def relevant(flags: Sequence[str]) -> Flags | None:
    """Return the flags that change what a header means; None if one of them is not known."""
    kept = tuple(flag.strip() for flag in flags if not _WITHOUT_EFFECT.fullmatch(flag.strip()))
    return kept if all(_HARMLESS.fullmatch(flag) for flag in kept) else None


def named_in(source: str) -> list[Flags]:
    """Return the sets of flags with which a kernel's text seems to build an extension of torch.

    A guess that costs time at most: what is used is decided as the kernel builds.
    """
    if "cpp_extension" not in source or not _CALL.search(source) or _WHOLE.search(source):
        return []
    if "no_implicit_headers" in source and HEADER not in source:
        return []
    texts = [match[1] for match in _FLAGS.finditer(source)] or ["[]"]
    found = dict.fromkeys(_literal(source, text) for text in texts[:_TEXT_LIMIT])
    return [flags for flags in found if flags is not None]


def _literal(source: str, text: str) -> Flags | None:
    if text.isidentifier():
        # Not \s*, which takes the following lines too: time that grows with the square of them.
        named = re.search(
            rf"^[ \t]*{text}\b[^=\n]*=\s*(\[[^\]]{{0,500}}\]|\([^)]{{0,500}}\))", source, re.M
        )
        if named is None:
            return None
        text = named[1]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(flag, str) for flag in value):
        return None
    return relevant(value)


class TorchHeaders:
    """The precompiled headers below `home`; `includes` are torch's folders, by default torch's own.

    The compiler is the one that torch calls: ``$CXX``, else ``c++``.
    """

    def __init__(self, home: Path, includes: Sequence[str] | None = None) -> None:
        self._home = home
        self._given = includes
        self._refused: set[Flags] = set()
        self._fresh: set[Flags] = set()

    @functools.cached_property
    def folder(self) -> Path | None:
        """The folder of this compiler, torch and CPU; None where nothing can be precompiled."""
        command, says = self._compiler
        if not _GCC.search(says) or not self._includes:
            return None  # clang would need a flag, and reads the text instead
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            known = [*command, says, importlib.metadata.version("torch"), *self._includes]
            # `-march=native` stands for another CPU on another machine that shares the home.
            known += [TEXT, *_TORCH_FLAGS, compilers.described_cpu()]
            return self._home / hashlib.sha256("\0".join(known).encode()).hexdigest()[:16]
        return None

    @functools.cached_property
    def _compiler(self) -> tuple[list[str], str]:
        words = shlex.split(os.environ.get("CXX", "c++"))
        path = shutil.which(words[0]) if words else None
        if path is None:
            return [], ""
        try:
            says = subprocess.check_output([path, "--version"], text=True, timeout=30)
        except (OSError, ValueError, subprocess.SubprocessError):
            return [], ""
        return [os.path.realpath(path), *words[1:]], says

    @functools.cached_property
    def _includes(self) -> list[str]:
        if self._given is not None:
            return list(self._given)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.origin is None:
            return []
        own = Path(spec.origin).parent / "include"
        return [str(own), str(own / "torch/csrc/api/include"), sysconfig.get_path("include")]

    def missing(self, source: str) -> list[Flags]:
        """Return the sets of flags that a kernel's text names and that can be precompiled."""
        wanted = named_in(source)
        if not wanted or self.folder is None:
            return []
        return [flags for flags in wanted if flags not in self._refused and not self._has(flags)]

    def _has(self, flags: Flags) -> bool:
        """Return whether the header is there and made of the present files; note its use."""
        if self.folder is None:
            return False
        place = self.folder / key(flags)
        try:
            # Compared once: a file that changes while a judge runs is a change of its machine.
            if flags not in self._fresh:
                stamp = msgspec.json.decode((place / "stamp.json").read_bytes(), type=Stamp)
                if any(_facts(path) != (path, size, at) for path, size, at in stamp):
                    return False
                self._fresh.add(flags)
            os.utime(place / "stamp.json")
        except (OSError, msgspec.MsgspecError):
            return False
        return True

    def precompile(self, flags: Flags, wait: Callable[[], None]) -> bool:
        """Precompile the header with `flags`; return whether that succeeded.

        `wait` is called several times a second; what it raises ends the compiler. What fails once
        is not tried again by this object.
        """
        folder = self.folder
        self._refused.add(flags)
        if folder is None:
            return False
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if shutil.disk_usage(folder).free < FREE_BYTES:
                return False
            with tempfile.TemporaryDirectory(prefix="building-", dir=folder) as scratch:
                if not self._compile(flags, Path(scratch), wait):
                    return False
                place = folder / key(flags)
                shutil.rmtree(place, ignore_errors=True)
                (Path(scratch) / "whole").rename(place)
        # Another judge was faster, the disk is full, or a path is no text.
        except (OSError, ValueError):
            return self._has(flags)
        self._remove_oldest(place)
        self._fresh.discard(flags)
        self._refused.discard(flags)
        return self._has(flags)

    def _compile(self, flags: Flags, scratch: Path, wait: Callable[[], None]) -> bool:
        whole = scratch / "whole"
        made = whole / f"{HEADER}.gch"
        made.parent.mkdir(parents=True)
        header = scratch / "header.h"
        header.write_text(TEXT)
        command = [*self._compiler[0], "-x", "c++-header", str(header), "-o", str(made), "-w"]
        command += [word for include in self._includes for word in ("-isystem", include)]
        command += [*_TORCH_FLAGS, *flags, "-MD", "-MF", "files.d"]
        if not _ran(command, scratch, wait):
            return False
        listed = (scratch / "files.d").read_text("utf-8")
        names = shlex.split(listed.partition(":")[2].replace("\\\n", " "))
        paths = [os.path.join(scratch, name) for name in names]  # noqa: PTH118
        # The header's own text is gone by then.
        stamp = [_facts(path) for path in paths if path != str(header)]
        (whole / "stamp.json").write_bytes(msgspec.json.encode(stamp))
        return True

    def _remove_oldest(self, spared: Path) -> None:
        """Remove what was not used for longest until the rest is small enough.

        A compiler that has one open keeps it; another one reads the text of the headers.
        """
        found = sorted(
            (stamp.stat().st_mtime, stamp.parent) for stamp in self._home.glob("*/*/stamp.json")
        )
        sizes = {place: (place / f"{HEADER}.gch").stat().st_size for _, place in found}
        for _, place in found:
            if sum(sizes.values()) <= KEPT_BYTES:
                return
            if place != spared:
                del sizes[place]
                shutil.rmtree(place, ignore_errors=True)

    def environment(self, source: str) -> dict[str, str]:
        """Return what the process of a kernel needs to use the headers; {} if it builds nothing."""
        if "cpp_extension" not in source or self.folder is None:
            return {}
        return {VARIABLE: str(self.folder)}


def home() -> Path:
    """Return the folder of all precompiled headers of this user."""
    try:
        return Path.home() / ".cache" / "akg_tui" / "torch-headers"
    except RuntimeError:  # a user without a home folder
        return Path(os.devnull) / "torch-headers"


def key(flags: Flags) -> str:
    """Return the name of the folder of a set of flags."""
    return hashlib.sha256("\0".join(flags).encode()).hexdigest()[:16]


def _facts(path: str) -> tuple[str, int, int]:
    status = os.stat(path)  # noqa: PTH116
    return path, status.st_size, status.st_mtime_ns


def _ran(command: Sequence[str], folder: Path, wait: Callable[[], None]) -> bool:
    """Run a compiler; return whether it succeeded."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    ) as process:
        stop = time.monotonic() + LIMIT_S
        try:
            while time.monotonic() < stop:
                wait()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(POLL_S) == 0
            return False
        finally:
            if process.returncode is None:
                # The compiler's driver has started another process, in its group.
                os.killpg(process.pid, signal.SIGKILL)


def use(module: Any) -> None:
    """Make `load_inline` of torch's module use what fits its flags.

    Called before a kernel's process is forked. `VARIABLE` is read when a kernel builds.
    """
    build = module.load_inline
    signature = inspect.signature(build)

    @functools.wraps(build)
    def built(*arguments: Any, **options: Any) -> Any:
        try:
            given = signature.bind(*arguments, **options).arguments
        except TypeError:  # told by the call itself
            given = {}
        place = _place(given.get("extra_cflags") or (), given.get("cpp_sources"))
        if place is not None:
            with contextlib.suppress(RuntimeError, ImportError), _found_by_compiler(place):
                return build(*arguments, **options)
            # Otherwise torch takes the failed build for done.
            module.JIT_EXTENSION_VERSIONER.entries.pop(given.get("name"), None)
        return build(*arguments, **options)

    module.load_inline = built


def _place(flags: Sequence[str], text: object) -> Path | None:
    """Return the folder of the header of these flags; None if there is none, or it lacks names."""
    folder = os.environ.get(VARIABLE)
    known = relevant(flags) if folder and all(isinstance(flag, str) for flag in flags) else None
    if folder is None or known is None or _WHOLE.search(str(text)):
        return None
    place = Path(folder) / key(known)
    return place if place.is_dir() else None


@contextlib.contextmanager
def _found_by_compiler(folder: Path) -> Iterator[None]:
    """Put a folder before torch's own, for compilers started meanwhile."""
    before = os.environ.get("CPATH")
    os.environ["CPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])
    try:
        yield
    finally:
        os.environ.pop("CPATH", None)
        if before is not None:
            os.environ["CPATH"] = before

"""Compiles kernels that hold C++ as a string, and passes tensors to them.

Owns the cache of shared objects: the cache key of a file is made of source, flags, compiler and
CPU, and a file is trusted only if its bytes still match the digest in its name. It may run the
system compiler and write to its cache folder; it must never import torch at import time, and never
load a file that it has not checked.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

OUTPUT_LIMIT = 16_384
"""Maximum number of characters of compiler output in an error."""

SOURCE_NAME = "kernel.cpp"
BASE_FLAGS = ("-std=c++17", "-fPIC", "-fdiagnostics-color=never")
# When these flags reach the linker, GCC adds start-up code that flushes denormals to zero in the
# whole process, also in arithmetic outside the kernel. So only the compile step gets them.
_NOT_FOR_LINKING = frozenset({"-ffast-math", "-Ofast", "-funsafe-math-optimizations"})
_COMPILERS = ("g++", "clang++", "c++")
_ERROR_LINE = re.compile(
    rf"^{re.escape(SOURCE_NAME)}:(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<what>.+)$", re.M
)
_ANY_ERROR = re.compile(r"^.*\b(?:error|undefined reference)\b.*$", re.M)
_CONTROL = re.compile(r"[^\t\n\x20-\x7e\u00a0-\U0010ffff]")


class CompileError(RuntimeError):
    """The C++ did not compile, or compiled to an object that does not load.

    The message is one line: the first error and its line in the source string. `output` is the
    compiler's output, at most `OUTPUT_LIMIT` characters.
    """

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class CompilerMissing(RuntimeError):
    """No C++ compiler was found. The message names what to install."""


def compile_cpp(source: str, flags: str | Sequence[str] = ()) -> ctypes.CDLL:
    """Compile C++ to a shared object and load it; later calls only load it from the cache.

    Parameters
    ----------
    source
        A whole translation unit. Functions called from Python must be `extern "C"`.
    flags
        Flags for the compiler, as a sequence or as one string in shell syntax. They come
        after ``-std=c++17 -fPIC`` and so can override these. Libraries (``-l``)
        come after the source, as the linker requires. Relative paths in flags are
        relative to the build folder: use absolute ones.

    Returns
    -------
    ctypes.CDLL
        The loaded library. Give a function its `argtypes`, or pass `ctypes` values:
        plain Python integers are passed as 32-bit `int`.

    Raises
    ------
    CompilerMissing
        Neither ``$CXX`` nor any known compiler can be run.
    CompileError
        The source does not compile, or the result does not load.

    Notes
    -----
    The cache is ``$AKG_CACHE_DIR/cpp``, by default in the platform's cache folder. Several
    processes can compile one source at once: each builds in a separate folder and renames the
    result into place. A cached file whose bytes have changed is built again. Where the cache cannot
    be written, each call builds the object in a temporary folder.
    """
    words = tuple(shlex.split(flags)) if isinstance(flags, str) else tuple(flags)
    command, version = _compiler()
    key = _key(source, words, version)
    shelf: Path | None
    try:
        shelf = cache_dir() / "cpp" / key
        cached = _cached(shelf)
        if cached is None:
            shelf.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            scratch = tempfile.TemporaryDirectory(prefix="build-", dir=shelf.parent)
    except (OSError, RuntimeError):  # no usable cache, or a user without a home folder
        shelf = cached = None
        scratch = tempfile.TemporaryDirectory(prefix="akg-cpp-")
    if cached is not None:
        return _load(cached)
    with scratch as folder:
        built = _build(source, words, command, Path(folder))
        if shelf is None:
            return _load(built)  # a loaded object stays mapped after its file is deleted
        shelf.mkdir(mode=0o700, exist_ok=True)
        kept = shelf / f"{_digest(built)}.so"
        built.replace(kept)
    return _load(kept)


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([\w.-]+)"[^\n]*$', re.M)


def read_cpp(path: str | os.PathLike[str]) -> str:
    """Return the text of a C++ file, for `compile_cpp` or `load_inline`.

    Each ``#include "name"`` of a file beside it is replaced by that file's text, the first time;
    later ones are left out, as if the file had ``#pragma once``. So the text holds all that the
    build depends on.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    folder, seen = Path(path).parent, {Path(path).name}

    def text_of(name: str) -> str:
        return _INCLUDE.sub(included, (folder / name).read_text("utf-8"))

    def included(line: re.Match[str]) -> str:
        name = line[1]
        if name in seen:
            return ""
        if not (folder / name).is_file():
            return line[0]
        seen.add(name)
        return text_of(name).replace("#pragma once", "")

    return text_of(Path(path).name)


def cache_dir() -> Path:
    """Return the cache folder: ``$AKG_CACHE_DIR``, else the platform's default (XDG)."""
    if chosen := os.environ.get("AKG_CACHE_DIR"):
        return Path(chosen).absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "akg-tui"
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "akg-tui"


def find_compiler() -> list[str]:
    """Return the command of the C++ compiler: ``$CXX`` or a known one on PATH; empty if none."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    for name in chosen[:1] or _COMPILERS:
        if path := shutil.which(name):
            return [path, *chosen[1:]]
    return []


def pointer(
    tensor: torch.Tensor, dtype: torch.dtype | None = None, *, name: str = "tensor"
) -> ctypes.c_void_p:
    """Return the address of a contiguous CPU tensor, to pass to a compiled function.

    The tensor must outlive the call that uses the address. With `dtype` the element type is checked
    too, because C++ would misread other bytes without an error.

    Raises
    ------
    TypeError
        Not a tensor, or a tensor with a dtype other than `dtype`.
    ValueError
        Not on the CPU, or not contiguous. The message has name, shape and stride.
    """
    if not hasattr(tensor, "data_ptr"):
        raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise ValueError(f"{name}: is on {tensor.device}, expected the CPU")
    if dtype is not None and tensor.dtype != dtype:
        raise TypeError(f"{name}: is {tensor.dtype}, expected {dtype}")
    if not tensor.is_contiguous():
        raise ValueError(
            f"{name}: is not contiguous (shape {tuple(tensor.shape)}, "
            f"stride {tuple(tensor.stride())}); call .contiguous() first"
        )
    return ctypes.c_void_p(tensor.data_ptr())


def _compiler() -> tuple[list[str], str]:
    """Return the compiler's command and its version, or raise CompilerMissing."""
    if command := find_compiler():
        return command, _identity(*command)
    if chosen := shlex.split(os.environ.get("CXX", "")):
        raise CompilerMissing(
            f"CXX names {chosen[0]!r}, which can't be run: name a C++ compiler, or unset CXX"
        )
    raise CompilerMissing(f"no C++ compiler ({', '.join(_COMPILERS)}) on PATH: {_install_hint()}")


def _install_hint() -> str:
    if sys.platform == "darwin":
        return "install one with `xcode-select --install` (or `brew install llvm`), or set CXX"
    return (
        "install one with `apt install g++` (Debian, Ubuntu), `dnf install gcc-c++` (Fedora), "
        "`zypper install gcc-c++`, `apk add g++` or `brew install gcc`, or set CXX"
    )


@functools.lru_cache(maxsize=8)
def _identity(*command: str) -> str:
    """Return path and version of a compiler, so that an upgrade changes the cache key."""
    try:
        quiet = subprocess.DEVNULL
        said = subprocess.check_output(
            [*command, "--version"], stdin=quiet, stderr=quiet, timeout=30
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CompilerMissing(
            f"{shlex.join(command)} does not run as a C++ compiler ({error}): {_install_hint()}"
        ) from error
    return f"{shlex.join(command)}\n{said[:OUTPUT_LIMIT].decode('utf-8', 'replace')}"


@functools.lru_cache(maxsize=1)
def described_cpu() -> str:
    """Return the CPU that `native` means here: machines can share a cache."""
    described = [platform.machine(), platform.processor()]
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace").partition("\n\n")[0]
    except OSError:
        return "\n".join(described)
    wanted = ("flags", "Features", "model name", "cpu family", "model", "CPU part", "isa")
    described += [line for line in text.splitlines() if line.split("\t")[0].strip() in wanted]
    return "\n".join(described)


def _key(source: str, flags: tuple[str, ...], compiler: str) -> str:
    parts = [compiler, "compile, then link", *BASE_FLAGS, "\0", *flags, "\0", source]
    if any("native" in flag for flag in flags):
        parts.append(described_cpu())
    # Length prefixes make ("a", "bc") and ("ab", "c") differ.
    encoded = [part.encode("utf-8", "surrogateescape") for part in parts]
    described = b"".join(len(data).to_bytes(8, "little") + data for data in encoded)
    return hashlib.sha256(described).hexdigest()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _cached(shelf: Path) -> Path | None:
    """Return the object in this folder whose bytes match its name; delete a mismatch."""
    for path in sorted(shelf.glob("*.so")):
        if _digest(path) == path.stem:
            return path
        # Loading a truncated object can kill the process with SIGBUS, so the file is deleted.
        path.unlink(missing_ok=True)
    return None


def _build(source: str, flags: tuple[str, ...], command: list[str], folder: Path) -> Path:
    """Run the compiler in `folder`; return the object, or raise CompileError."""
    (folder / SOURCE_NAME).write_text(source, "utf-8", "surrogateescape")
    built = folder / "kernel.so"
    libraries = [flag for flag in flags if flag.startswith(("-l", "-L", "-Wl,"))]
    options = [flag for flag in flags if flag not in libraries]
    linking = [flag for flag in options if flag not in _NOT_FOR_LINKING]
    _run([*command, *BASE_FLAGS, *options, "-c", SOURCE_NAME, "-o", "kernel.o"], folder)
    _run(
        [*command, *BASE_FLAGS, *linking, "-shared", "kernel.o", "-o", built.name, *libraries],
        folder,
    )
    return built


def _run(arguments: list[str], folder: Path) -> None:
    """Run one step of a build; raise CompileError with the compiler's output when it fails."""
    # A file, not a pipe: templates can print megabytes; the start is enough.
    with (folder / "output.txt").open("w+b") as log:
        try:
            status = subprocess.run(
                arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
            ).returncode
        except OSError as error:
            raise CompileError(f"{arguments[0]} could not be started: {error}") from error
        log.seek(0)
        output = _CONTROL.sub("�", log.read(OUTPUT_LIMIT).decode("utf-8", "replace"))
    if status != 0:
        raise CompileError(_first_error(output, arguments[0], status), output)


def _first_error(output: str, compiler: str, status: int) -> str:
    if located := _ERROR_LINE.search(output):
        return f"C++ line {located['line']}: {located['what']}"
    other = _ANY_ERROR.search(output)
    said = other[0].strip() if other else f"{Path(compiler).name} ended with status {status}"
    return f"C++ does not compile: {said}"


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        said = _CONTROL.sub("�", str(error).removeprefix(f"{path}: "))[:OUTPUT_LIMIT]
        raise CompileError(f"C++ compiles but does not load: {said}", said) from error

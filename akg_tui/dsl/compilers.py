"""Compiles kernels that hold C++, CUDA or Ascend C as a string, and passes tensors to them.

Owns the cache of shared objects: the cache key of a file is made of source, flags, compiler and
CPU, and a file is trusted only if its bytes still match the digest in its name. It may run the
system compiler and nvcc, and write to its cache folder; it must never import torch at import time,
and never load a file that it has not checked.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from akg_tui.dsl.cuda_calls import (
    EPILOGUE,
    BadDeclaration,
    CudaLibrary,
    Function,
    read_functions,
)

if TYPE_CHECKING:
    import torch

OUTPUT_LIMIT = 16_384
"""Maximum number of characters of compiler output in an error."""

SOURCE_NAME = "kernel.cpp"
BASE_FLAGS = ("-std=c++17", "-fPIC", "-fdiagnostics-color=never")
# When these flags reach the linker, GCC adds start-up code that flushes denormals to zero in the
# whole process, also in arithmetic outside the kernel. So only the compile step gets them.
_NOT_FOR_LINKING = frozenset({"-ffast-math", "-Ofast", "-funsafe-math-optimizations"})
CUDA_ROOTS = ("/usr/local/cuda",)
_COMPILERS = ("g++", "clang++", "c++")
CUDA_FLAGS = ("-std=c++17", "-Xcompiler=-fPIC", "-Xcompiler=-fdiagnostics-color=never")
_ANY_ERROR = re.compile(r"^.*\b(?:error|undefined reference|nvcc fatal)\b.*$", re.M)
# nvcc names its temporary file and a line of the assembly, which nobody wrote.
_PTXAS_PLACE = re.compile(r"^ptxas .*?(?:error|fatal)\s*:\s*")
_STATES_ARCH = ("-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code")
_CONTROL = re.compile(r"[^\t\n\x20-\x7e\u00a0-\U0010ffff]")


class CompileError(RuntimeError):
    """The C++ did not compile, or compiled to an object that does not load.

    The message is one line: the first error and its line in the source string. `output` is the
    compiler's output, at most `OUTPUT_LIMIT` characters. `line` is that of `source`, a text in
    `language`; 0 if the compiler names none.
    """

    def __init__(self, message: str, output: str = "", language: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.output, self.language, self.line = output, language, line
        self.source = ""


class CompilerMissing(RuntimeError):
    """No compiler was found. The message names what to install."""


class Language(NamedTuple):
    """A language of strings: its name in messages, its file, its folder in the cache, and how a
    compiler tells an error.

    `flags` come before those of a kernel, `epilogue` after its source.
    """

    name: str
    file: str
    shelf: str
    error: re.Pattern[str]
    flags: tuple[str, ...] = ()
    epilogue: str = ""


CPP = Language(
    "C++",
    SOURCE_NAME,
    "cpp",
    re.compile(r"^kernel\.cpp:(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<what>.+)$", re.M),
)
CUDA = Language(
    "CUDA",
    "kernel.cu",
    "cuda",
    re.compile(
        r"^kernel\.cu[(:](?P<line>\d+)\)?(?::\d+)?: (?:(?:fatal|catastrophic) )?"
        r"error(?: #[\w-]+)?\s*: (?P<what>.+)$",
        re.M,
    ),
    (*CUDA_FLAGS, "-shared"),
    EPILOGUE,
)

ASCENDC = Language(
    "Ascend C",
    "kernel.asc",
    "ascendc",
    re.compile(r"^kernel\.asc:(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<what>.+)$", re.M),
    ("-shared", "-fPIC", "-fdiagnostics-color=never"),
)
NPU_ARCHES = {
    "Ascend950": "dav-3510",
    "Ascend910_95": "dav-3510",
    "Ascend910_93": "dav-2201",
    "Ascend910B": "dav-2201",
    "Ascend310B": "dav-3002",
    "Ascend310P": "dav-2002",
    "Ascend910": "dav-1001",
}
"""The architecture of NPUs by the beginning of their names, in this order: the table of
``__NPU_ARCH__`` in CANN's guide to Ascend C."""

CANN_HINT = "install CANN's toolkit and source its set_env.sh"


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
    words = _words(flags)
    command, version = _compiler()
    key = _key(source, words, version)
    with faults_of(source):
        return _shelved(CPP, key, lambda folder: _build(source, words, command, folder))


def compile_cuda(
    source: str, functions: Sequence[str], flags: str | Sequence[str] = ()
) -> CudaLibrary:
    """Compile CUDA C++ with nvcc and load it; later calls only load it from the cache.

    Parameters
    ----------
    source
        A whole translation unit. The functions that Python calls are host functions that launch
        kernels, defined as ``extern "C"`` with pointers, numbers and ``cudaStream_t`` as
        parameters. nvcc includes ``cuda_runtime.h`` by itself.
    functions
        The names of these functions, which are the attributes of the result.
    flags
        Flags for nvcc, as a sequence or as one string in shell syntax, after
        ``-std=c++17 -shared -Xcompiler=-fPIC`` and the architecture of this machine's GPU. A flag
        that states an architecture (``-arch``, ``-gencode``) replaces the latter.

    Returns
    -------
    CudaLibrary
        Call ``library.name(tensor, …, number)``. Tensors are passed by address; a parameter of
        type ``cudaStream_t`` is left out in the call and is PyTorch's current stream. A launch that
        fails raises `CudaError`.

    Raises
    ------
    CompilerMissing
        No nvcc is found: ``$NVCC``, PATH, ``$CUDA_HOME``, NVIDIA's packages in this environment.
    CompileError
        The source does not compile, does not load, or defines no such function.

    Notes
    -----
    The cache is ``$AKG_CACHE_DIR/cuda``, with the rules of `compile_cpp`.
    """
    words = _words(flags)
    with faults_of(source):
        called = declared_functions(CUDA, source, functions)
        compiler = nvcc()
        if words == without_arch(words):
            words = (arch_flag(device_arch()), *words)
        library = _library(CUDA, source, words, compiler, functions)
    return CudaLibrary(library, called)


def compile_ascendc(
    source: str, functions: Sequence[str], flags: str | Sequence[str] = ()
) -> CudaLibrary:
    """Compile Ascend C with CANN's bisheng and load it, as `compile_cuda` does with CUDA C++.

    The source is a whole ``.asc`` file, whose host functions launch kernels with ``<<<blocks,
    nullptr, stream>>>`` and take ``aclrtStream`` for the stream; ``void *`` takes a tensor of any
    dtype, in the memory of an NPU. Flags come after ``-shared -fPIC`` and the architecture of this
    machine's NPU, which a flag ``--npu-arch`` replaces. bisheng is ``$BISHENG``, on PATH, or below
    ``$ASCEND_HOME_PATH``.

    Written from CANN's documentation ("Compilation Using BiSheng Command Lines"), and run with a
    contract fake of bisheng only.
    """
    words = _words(flags)
    with faults_of(source):
        called = declared_functions(ASCENDC, source, functions)
        compiler = bisheng()
        if not any(word.startswith("--npu-arch") for word in words):
            words = (f"--npu-arch={npu_arch()}", *words)
        library = _library(ASCENDC, source, words, compiler, functions)
    return CudaLibrary(library, called, place="npu")


def _library(
    language: Language,
    source: str,
    words: tuple[str, ...],
    compiler: tuple[list[str], str],
    functions: Sequence[str],
) -> ctypes.CDLL:
    """Return the library of a source with these functions, built by one call of a compiler."""
    command, version = compiler

    def build(folder: Path) -> Path:
        (folder / language.file).write_text(source + language.epilogue, "utf-8", "surrogateescape")
        libraries, options = linked_last(words)
        named = [*language.flags, *options, language.file, "-o", "kernel.so", *libraries]
        run_compiler([*command, *named], folder, language)
        return folder / "kernel.so"

    library = _shelved(language, _key(source, words, version, language.flags), build)
    for name in functions:
        if not hasattr(library, name):
            what = f'{name} is compiled as C++: define it as extern "C"'
            raise CompileError(f"{language.name}: {what}")
    return library


def _words(flags: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(shlex.split(flags)) if isinstance(flags, str) else tuple(flags)


@contextlib.contextmanager
def faults_of(source: str) -> Iterator[None]:
    """Note in a `CompileError` which source has the error."""
    try:
        yield
    except CompileError as error:
        error.source = source
        raise


def declared_functions(language: Language, source: str, functions: Sequence[str]) -> list[Function]:
    """Return the functions that a source defines for Python to call, or raise `CompileError`."""
    try:
        return read_functions(source, functions)
    except BadDeclaration as error:
        place = f"{language.name} line {error.line}" if error.line else language.name
        raise CompileError(f"{place}: {error}", "", language.name, error.line) from error


def _shelved(language: Language, key: str, build: Callable[[Path], Path]) -> ctypes.CDLL:
    """Load the object of a key from the cache, or build it in a folder and keep it."""
    shelf: Path | None
    try:
        shelf = cache_dir() / language.shelf / key
        cached = _cached(shelf)
        if cached is None:
            shelf.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            scratch = tempfile.TemporaryDirectory(prefix="build-", dir=shelf.parent)
    except (OSError, RuntimeError):  # no usable cache, or a user without a home folder
        shelf = cached = None
        scratch = tempfile.TemporaryDirectory(prefix="akg-cpp-")
    if cached is not None:
        return _load(cached, language)
    with scratch as folder:
        built = build(Path(folder))
        if shelf is None:
            return _load(built, language)  # a loaded object stays mapped after its file is deleted
        shelf.mkdir(mode=0o700, exist_ok=True)
        kept = shelf / f"{_digest(built)}.so"
        built.replace(kept)
    return _load(kept, language)


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([\w.-]+)"[^\n]*$', re.M)


def read_cpp(path: str | os.PathLike[str]) -> str:
    """Return the text of a C++ or CUDA file, for `compile_cpp`, `compile_cuda` or `load_inline`.

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
    """Return the cache folder: ``$AKG_CACHE_DIR``, else the one of XDG."""
    if chosen := os.environ.get("AKG_CACHE_DIR"):
        return Path(chosen).absolute()
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "akg-tui"


def find_compiler() -> list[str]:
    """Return the command of the C++ compiler: ``$CXX`` or a known one on PATH; empty if none."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    for name in chosen[:1] or _COMPILERS:
        if path := shutil.which(name):
            return [path, *chosen[1:]]
    return []


def find_nvcc() -> str:
    """Return the path of nvcc: ``$NVCC``, PATH, ``$CUDA_HOME``, NVIDIA's packages; "" if none."""
    if chosen := os.environ.get("NVCC"):
        return shutil.which(chosen) or ""
    if found := shutil.which("nvcc"):
        return found
    roots = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places = [Path(root) / "bin" / "nvcc" for root in (*roots, *CUDA_ROOTS)]
    # nvidia-cuda-nvcc installs nvidia/cu13/bin/nvcc beside other packages.
    places += [
        nvcc
        for folder in dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
        for nvcc in sorted(Path(folder).glob("nvidia/cu*/bin/nvcc"), reverse=True)
    ]
    return next((str(path) for path in places if os.access(path, os.X_OK)), "")


def nvcc() -> tuple[list[str], str]:
    """Return the command of nvcc and its version, or raise `CompilerMissing`."""
    if path := find_nvcc():
        return [path], _identity(path)
    if chosen := os.environ.get("NVCC"):
        raise CompilerMissing(f"NVCC names {chosen!r}, which can't be run: {NVCC_HINT}")
    raise CompilerMissing(f"no nvcc ($NVCC, PATH, $CUDA_HOME): {NVCC_HINT}")


def device_arch() -> str:
    """Return the architecture of the current GPU for nvcc, such as ``sm_90a``."""
    import torch

    if not torch.cuda.is_available():
        raise CompileError("CUDA: torch finds no GPU to compile for: state one, as -arch=sm_90")
    major, minor = torch.cuda.get_device_capability()
    return full_arch(f"sm_{major}{minor}")


def without_arch(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the flags of nvcc that do not state an architecture."""
    kept: list[str] = []
    is_value = False
    for flag in flags:
        states = flag.startswith(_STATES_ARCH)
        if not states and not is_value:
            kept.append(flag)
        # In two words the second has the value.
        is_value = states and "=" not in flag
    return tuple(kept)


def full_arch(arch: str) -> str:
    """Return an architecture with the features that it alone has: ``sm_90a`` for ``sm_90``.

    Compute capability 9.0 and later have them (wgmma, tcgen05): see "Architecture-Specific
    Features" in the CUDA C++ Programming Guide. Such code runs on that architecture only.
    """
    number = arch.removeprefix("sm_")
    return f"{arch}a" if number.isdigit() and int(number) >= 90 else arch


def arch_flag(arch: str) -> str:
    """Return nvcc's flag for machine code of one architecture, such as ``sm_90a``, alone.

    ``-arch=sm_90a`` would add PTX for every GPU from 9.0 on, which can't have wgmma.
    """
    return f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}"


def cann_home() -> Path | None:
    """Return the folder of CANN that its set_env.sh names, or None."""
    named = os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME")
    return Path(named) if named and Path(named).is_absolute() else None


def find_bisheng() -> str:
    """Return the path of bisheng: ``$BISHENG``, PATH, CANN's folder; "" if there is none."""
    if chosen := os.environ.get("BISHENG"):
        return shutil.which(chosen) or ""
    if found := shutil.which("bisheng"):
        return found
    home = cann_home()
    path = home / "compiler/ccec_compiler/bin/bisheng" if home else None
    return str(path) if path and os.access(path, os.X_OK) else ""


def bisheng() -> tuple[list[str], str]:
    """Return the command of bisheng and its version, or raise `CompilerMissing`."""
    if path := find_bisheng():
        return [path], _identity(path)
    raise CompilerMissing(f"CANN's compiler bisheng (PATH, $ASCEND_HOME_PATH): {CANN_HINT}")


def npu_arch() -> str:
    """Return the architecture of the current NPU for bisheng, such as ``dav-2201``."""
    import torch

    npu = torch.get_device_module("npu")
    name = str(npu.get_device_name())
    for prefix, arch in NPU_ARCHES.items():
        if name.startswith(prefix):
            return arch
    raise CompileError(f"Ascend C: of {name} no architecture is known: state it, as --npu-arch=…")


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
    raise CompilerMissing(f"no C++ compiler ({', '.join(_COMPILERS)}) on PATH: {INSTALL_HINT}")


NVCC_HINT = (
    "install NVIDIA's CUDA toolkit, or into this environment: "
    "pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-crt nvidia-nvvm nvidia-cuda-cccl"
)


INSTALL_HINT = (
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
        is_nvcc = "nvcc" in Path(command[0]).name
        kind, hint = ("nvcc", NVCC_HINT) if is_nvcc else ("a C++ compiler", INSTALL_HINT)
        raise CompilerMissing(
            f"{shlex.join(command)} does not run as {kind} ({error}): {hint}"
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


def _key(
    source: str, flags: tuple[str, ...], compiler: str, base: tuple[str, ...] = BASE_FLAGS
) -> str:
    parts = [compiler, "compile, then link", *base, "\0", *flags, "\0", source]
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
    libraries, options = linked_last(flags)
    linking = [flag for flag in options if flag not in _NOT_FOR_LINKING]
    run_compiler([*command, *BASE_FLAGS, *options, "-c", SOURCE_NAME, "-o", "kernel.o"], folder)
    run_compiler(
        [*command, *BASE_FLAGS, *linking, "-shared", "kernel.o", "-o", built.name, *libraries],
        folder,
    )
    return built


def linked_last(flags: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the flags that name libraries, which come after the source, and the others."""
    libraries = [
        flag
        for flag in flags
        if flag.startswith(("-l", "-L", "-Wl,")) and not flag.startswith("-lineinfo")
    ]
    return libraries, [flag for flag in flags if flag not in libraries]


def run_compiler(arguments: list[str], folder: Path, language: Language = CPP) -> str:
    """Run one step of a build, and return the start of what the compiler says.

    Raise CompileError when it fails.
    """
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
        raise _compile_error(output, arguments[0], status, language)
    return output


def _compile_error(output: str, compiler: str, status: int, language: Language) -> CompileError:
    if located := language.error.search(output):
        told = f"{language.name} line {located['line']}: {located['what']}"
        return CompileError(told, output, language.name, int(located["line"]))
    other = _ANY_ERROR.search(output)
    said = other[0].strip() if other else f"{Path(compiler).name} ended with status {status}"
    what = _PTXAS_PLACE.sub("ptxas: ", said)
    return CompileError(f"{language.name} does not compile: {what}", output, language.name)


def _load(path: Path, language: Language = CPP) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        said = _CONTROL.sub("�", str(error).removeprefix(f"{path}: "))[:OUTPUT_LIMIT]
        raise CompileError(f"{language.name} compiles but does not load: {said}", said) from error

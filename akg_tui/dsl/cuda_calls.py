"""Calls functions of a compiled CUDA or Ascend C library: tensors as addresses, streams, errors.

Reads the declarations of `extern "C"` functions in a source, so that the types of arguments
stand once, in the source. Pure but for the calls themselves; must never import torch at import
time.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

LAST_ERROR = "akg_last_error"
EPILOGUE = f"""
extern "C" const char *{LAST_ERROR}() {{
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}}
"""
"""Is appended to a source, whose lines keep their numbers: the runtime is linked into the library,
so only code of the library can ask for the error of its launches."""

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)
_QUALIFIERS = re.compile(r"\bstd\s*::|\b(?:const|volatile|__restrict__|__restrict|struct)\b")
_NUMBERS: dict[str, type[ctypes._SimpleCData[Any]]] = {
    "bool": ctypes.c_bool,
    "char": ctypes.c_char,
    "signed char": ctypes.c_byte,
    "int8_t": ctypes.c_int8,
    "unsigned char": ctypes.c_ubyte,
    "uint8_t": ctypes.c_uint8,
    "short": ctypes.c_short,
    "int16_t": ctypes.c_int16,
    "unsigned short": ctypes.c_ushort,
    "uint16_t": ctypes.c_uint16,
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "unsigned": ctypes.c_uint,
    "unsigned int": ctypes.c_uint,
    "uint32_t": ctypes.c_uint32,
    "long": ctypes.c_long,
    "unsigned long": ctypes.c_ulong,
    "long long": ctypes.c_longlong,
    "int64_t": ctypes.c_int64,
    "unsigned long long": ctypes.c_ulonglong,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_DTYPES = {
    "float": "float32", "float2": "float32", "float4": "float32",
    "double": "float64", "double2": "float64",
    "half": "float16", "__half": "float16", "half2": "float16", "__half2": "float16",
    "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16", "__nv_bfloat162": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3fn", "__nv_fp8x2_e4m3": "float8_e4m3fn",
    "__nv_fp8x4_e4m3": "float8_e4m3fn", "__nv_fp8_e5m2": "float8_e5m2",
    "__nv_fp8x2_e5m2": "float8_e5m2", "__nv_fp8x4_e5m2": "float8_e5m2",
    "int": "int32", "int32_t": "int32", "int4": "int32",
    "long long": "int64", "int64_t": "int64", "long": "int64",
    "short": "int16", "int16_t": "int16",
    "signed char": "int8", "int8_t": "int8",
    "unsigned char": "uint8", "uint8_t": "uint8",
    "bool": "bool",
}  # fmt: skip
"""The dtype of the tensors whose elements a pointer of this type reads; others take any tensor."""
_STREAMS = ("cudaStream_t", "aclrtStream")
_STATUSES = ("cudaError_t", "aclError")


class BadDeclaration(ValueError):
    """A function can't be called by its declaration; `line` is that of the source, or 0."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


class Parameter(NamedTuple):
    """A parameter of a function; `kind` is its type in ctypes.

    `dtype` is the name of the dtype of the tensors that a pointer takes, "" if it takes any.
    """

    name: str
    kind: Any
    is_pointer: bool = False
    is_stream: bool = False
    dtype: str = ""


class Function(NamedTuple):
    """A function that Python calls; `returns` is the word for its result in C."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: str


def read_functions(source: str, names: Sequence[str]) -> list[Function]:
    """Return the functions of these names that a source defines.

    Raises
    ------
    BadDeclaration
        There is no definition of that name, or it takes or returns what ctypes can't pass.
    """
    code = _COMMENT.sub(_blank, source)
    return [_read(code, name) for name in names]


def _blank(found: re.Match[str]) -> str:
    """Return a comment as blanks of as many lines; a string stays."""
    text = found[0]
    return text if text.startswith('"') else " " + "\n" * text.count("\n")


def _read(code: str, name: str) -> Function:
    form = rf"(?P<before>[^;{{}}()]*?)\b{re.escape(name)}\s*\((?P<given>[^()]*)\)\s*\{{"
    found = re.search(form, code)
    if found is None:
        raise BadDeclaration(0, f'the source defines no function extern "C" … {name}(…)')
    line = code.count("\n", 0, found.start("given")) + 1
    before = re.sub(r'^[^\S\n]*#.*$|extern\s+"C"|\b(?:static|inline|__host__)\b', " ",
                    found["before"], flags=re.M)  # fmt: skip
    returns = " ".join(before.split())
    if returns not in _NUMBERS and returns not in ("void", *_STATUSES):
        what = f"{name} returns {returns or 'nothing'}: expected void, {_STATUSES[0]} or a number"
        raise BadDeclaration(line, what)
    given = [part.strip() for part in found["given"].split(",")]
    if given in ([""], ["void"]):
        given = []
    return Function(name, tuple(_parameter(part, name, line) for part in given), returns)


def _parameter(text: str, function: str, line: int) -> Parameter:
    pointer = "*" in text or "[" in text
    words = _QUALIFIERS.sub(" ", text.partition("=")[0].partition("[")[0]).replace("*", " * ")
    head, _, tail = words.partition("*")
    parts = head.split()
    name = (re.findall(r"\w+", tail) or [""])[-1] if "*" in words else ""
    if not name and len(parts) > 1:
        name = parts.pop()
    kind = " ".join(parts)
    name = name or kind
    if pointer:
        dtype = _DTYPES.get(kind, "") if tail.count("*") == 0 else ""
        return Parameter(name, ctypes.c_void_p, is_pointer=True, dtype=dtype)
    if kind in _STREAMS:
        return Parameter(name, ctypes.c_void_p, is_stream=True)
    if kind not in _NUMBERS:
        # `int` alone: a type without a name was taken for a name.
        if f"{kind} {name}" in _NUMBERS:
            return Parameter(name, _NUMBERS[f"{kind} {name}"])
        what = f"{function} takes {text!r}: expected a pointer, a number or {_STREAMS[0]}"
        raise BadDeclaration(line, what)
    return Parameter(name, _NUMBERS[kind])


class CudaError(RuntimeError):
    """A launch failed. The message has the function and what the CUDA runtime says."""


class CudaLibrary:
    """A compiled library; its functions are attributes.

    A tensor is passed as the address of its first element, a number as the type that its parameter
    has in the source. A parameter of type `cudaStream_t` that is left out is PyTorch's current
    stream, in which launches must be for the judge and for PyTorch to wait for them.

    Calling a function raises TypeError or ValueError if a tensor has another dtype than its
    parameter, is not contiguous or not on the GPU, and `CudaError` if a launch fails.
    """

    def __init__(
        self, library: ctypes.CDLL, functions: Sequence[Function], place: str = "cuda"
    ) -> None:
        self.library = library
        for function in functions:
            setattr(self, function.name, _callable(library, function, place))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the library has no function {name}: name it in `functions`")


def _callable(library: ctypes.CDLL, function: Function, place: str) -> Callable[..., Any]:
    native = getattr(library, function.name)
    # A library for an NPU has none: PyTorch tells the error when it waits for the launch.
    last_error: Any = getattr(library, LAST_ERROR, lambda: None)
    last_error.restype = ctypes.c_char_p
    native.argtypes = [each.kind for each in function.parameters]
    returns = function.returns
    native.restype = None if returns == "void" else _NUMBERS.get(returns, ctypes.c_int)
    given = tuple(each for each in function.parameters if not each.is_stream)

    def call(*arguments: Any) -> Any:
        taken = function.parameters if len(arguments) == len(function.parameters) else given
        if len(arguments) != len(taken):
            names = ", ".join(each.name for each in given)
            raise TypeError(
                f"{function.name}() takes {len(given)} arguments ({names}), not {len(arguments)}"
            )
        values = iter([_passed(*pair, place) for pair in zip(taken, arguments, strict=True)])
        if taken is not given:
            result = native(*values)
        else:
            result = native(*(
                _current_stream(place) if each.is_stream else next(values)
                for each in function.parameters
            ))  # fmt: skip
        if (error := last_error()) is not None:
            raise CudaError(f"{function.name}: CUDA says: {error.decode('utf-8', 'replace')}")
        if returns in _STATUSES and result:
            whose = "CUDA" if returns == _STATUSES[0] else "CANN"
            raise CudaError(f"{function.name} returned {whose}'s error {result}")
        return result

    call.__name__ = function.name
    return call


def _passed(parameter: Parameter, value: Any, place: str) -> Any:
    if not parameter.is_pointer or not hasattr(value, "data_ptr"):
        return value
    return address(value, place, parameter.name, parameter.dtype)


def address(tensor: torch.Tensor, place: str, name: str, dtype: str) -> int:
    """Return the address of a contiguous tensor in a place, after the checks of `CudaLibrary`."""
    if tensor.device.type != place:
        raise ValueError(f"{name}: is on {tensor.device}, expected {place}")
    if dtype and str(tensor.dtype) != f"torch.{dtype}":
        raise TypeError(f"{name}: is {tensor.dtype}, expected torch.{dtype}")
    if not tensor.is_contiguous():
        raise ValueError(
            f"{name}: is not contiguous (shape {tuple(tensor.shape)}, "
            f"stride {tuple(tensor.stride())}); call .contiguous() first"
        )
    return tensor.data_ptr()


def _current_stream(place: str) -> int:
    if place not in ("cuda", "npu"):
        return 0
    import torch

    stream = torch.get_device_module(place).current_stream()
    return int(stream.npu_stream if place == "npu" else stream.cuda_stream)

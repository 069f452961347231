"""The types and operations of Triton's interpreter: bfloat16, float8, products, atomics, libdevice.

A block of bfloat16 is an array of float32 whose elements are rounded to bfloat16 whenever a block
is made, so each operation computes in float32 and rounds once, as the hardware does.
"""

# Triton has no types.
# mypy: disable-error-code="import-untyped"
# ruff: noqa: SIM905 (words are easier to read as text)

from __future__ import annotations

import ast
import functools
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from akg_tui.dsl.interpretation import CannotRunHere

Block = interpreter.TensorHandle
Builder = interpreter.InterpreterBuilder
_FLOAT8 = {
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
}
FLOAT8 = {
    name: torch.arange(256).to(torch.uint8).view(dtype).float().numpy()
    for name, dtype in _FLOAT8.items()
}
"""The number of each byte of a type. Torch computes nothing later: the kernel's work is watched."""


def rounded(data: Any) -> Any:
    """Return numbers rounded to bfloat16, to the nearest even, as float32.

    A NaN of bfloat16 stays; any other becomes a GPU's own, because its upper half may be infinity.
    """
    wide = np.asarray(data, np.float32)
    bits = np.atleast_1d(wide).view(np.uint32)
    near = (bits + np.uint32(0x7FFF) + (bits >> 16 & np.uint32(1))) & np.uint32(0xFFFF0000)
    nan = np.where(bits & np.uint32(0xFFFF), np.uint32(0x7FFF0000), bits)
    near = np.where(np.isnan(bits.view(np.float32)), nan, near)
    return near.view(np.float32).reshape(wide.shape)


def to_bits(data: Any) -> Any:
    """Return the 16 bits of each bfloat16."""
    wide = np.atleast_1d(rounded(data))
    return (wide.view(np.uint32) >> 16).astype(np.uint16).reshape(np.shape(data))


def from_bits(bits: Any) -> Any:
    """Return the bfloat16 of 16 bits, as float32."""
    whole = np.atleast_1d(bits).astype(np.uint32) << 16
    return whole.view(np.float32).reshape(np.shape(bits))


def is_bfloat16(dtype: Any) -> bool:
    """Return whether a type, or that of a block's elements, is bfloat16."""
    return bool(dtype.scalar == tl.bfloat16)


def correct_types() -> None:
    """Hold bfloat16 as rounded float32, and convert it where memory and bits are concerned."""
    dtype_of, is_valid = interpreter._get_np_dtype, interpreter._validate_np_data_size
    load, store = Builder.create_masked_load, Builder.create_masked_store
    convert, view, absolute = Builder.create_fp_to_fp, Builder.create_bitcast, Builder.create_fabs

    def np_dtype(dtype: Any) -> Any:
        return np.dtype(np.float32) if is_bfloat16(dtype) else dtype_of(dtype)

    def fits(data: Any, dtype: Any) -> bool:
        return is_bfloat16(dtype) or bool(is_valid(data, dtype))

    def made(block: Any) -> None:
        if block.data.dtype == np.bool_ and block.dtype.scalar.is_floating():
            block.dtype = tl.int1  # a comparison, which the interpreter gives its operands' type
        elif is_bfloat16(block.dtype):
            block.data = rounded(block.data)
        elif not is_valid(block.data, block.dtype):
            raise ValueError(f"{block.data.dtype} does not fit into {block.dtype}")

    def masked_load(
        builder: Any, places: Any, mask: Any, other: Any, *rest: Any, **named: Any
    ) -> Any:
        if places.get_element_ty() != tl.bfloat16:
            return load(builder, places, mask, other, *rest, **named)
        raw = Block(places.data, tl.pointer_type(tl.uint16))
        other = None if other is None else Block(to_bits(other.data), tl.uint16)
        return Block(from_bits(load(builder, raw, mask, other, *rest, **named).data), tl.bfloat16)

    def masked_store(builder: Any, places: Any, value: Any, mask: Any, *rest: Any) -> Any:
        if is_bfloat16(value.dtype):
            value = Block(to_bits(value.data), tl.uint16)
        return store(builder, places, value, mask, *rest)

    def fp_to_fp(builder: Any, given: Any, dtype: Any, rounding: Any) -> Any:
        target = dtype.scalar
        if given.dtype.scalar.name in FLOAT8:
            given = _of_float8(given)
        elif is_bfloat16(given.dtype):
            given = Block(given.data, tl.float32)
        to_zero = interpreter._ir.ROUNDING_MODE.RTZ
        if target == tl.bfloat16 and rounding == to_zero:
            bits = given.data.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
            return Block(bits.view(np.float32), target)
        if target.name in FLOAT8 and rounding != to_zero:
            return _to_float8(given, target)
        if target in (given.dtype.scalar, tl.bfloat16) or target.primitive_bitwidth > 32:
            return Block(given.data.astype(np_dtype(target)), target)
        return convert(builder, given, dtype, rounding)

    def bitcast(builder: Any, given: Any, dtype: Any) -> Any:
        if is_bfloat16(given.dtype):
            given = Block(to_bits(given.data), tl.uint16)
        if is_bfloat16(dtype):
            return Block(from_bits(given.data.view(np.uint16)), tl.bfloat16)
        return view(builder, given, dtype)

    def fabs(builder: Any, given: Any) -> Any:
        if given.data.dtype.kind != "f":
            return absolute(builder, given)
        return Block(np.abs(given.data), given.dtype.scalar)

    def cast(builder: Any, given: Any, dtype: Any) -> Any:
        return Block(given.data.astype(np_dtype(dtype)), dtype.scalar)

    interpreter._get_np_dtype, interpreter._validate_np_data_size = np_dtype, fits
    Block.__post_init__ = made
    Builder.get_bf16 = lambda _, value: Block(np.array([value], np.float32), tl.bfloat16)
    Builder.create_masked_load, Builder.create_masked_store = masked_load, masked_store
    Builder.create_fp_to_fp, Builder.create_bitcast = fp_to_fp, bitcast
    Builder.create_fabs, Builder.cast_impl = fabs, cast


def _of_float8(given: Any) -> Any:
    return Block(FLOAT8[given.dtype.scalar.name][given.data], tl.float32)


def _to_float8(given: Any, target: Any) -> Any:
    """Round to 8 bits, to the nearest even; what is too large becomes the largest, as on a GPU."""
    numbers = FLOAT8[target.name].astype(np.float64)
    positive = numbers[:128][np.isfinite(numbers[:128])]
    between = (positive[:-1] + positive[1:]) / 2
    wide = given.data.astype(np.float64)
    size = np.abs(wide)
    code = np.searchsorted(between, size)
    tie = size == between[np.minimum(code, between.size - 1)]
    code += tie & (code % 2 == 1)
    has_zero = numbers[128] == 0  # else the byte of minus zero is NaN
    code += np.where(np.signbit(wide) & (has_zero | (code > 0)), 128, 0)
    code = np.where(np.isnan(wide), np.flatnonzero(np.isnan(numbers))[0], code)
    return Block(code.astype(np.uint8), target)


def correct_operations() -> None:
    """Accumulate products in float32, add to bfloat16 in memory, refuse what is missing.

    Minima and maxima are of the numbers alone, unless NaN is asked for.
    """
    update = Builder.create_atomic_rmw

    def dot(_: Any, a: Any, b: Any, onto: Any, *rest: Any) -> Any:
        first, second, known = (_wide(each) for each in (a, b, onto))
        product = np.matmul(first, second)
        if known.dtype.kind in "iu":
            return Block(product.astype(known.dtype) + known, onto.dtype.scalar)
        total = product + known
        return Block(total.astype(interpreter._get_np_dtype(onto.dtype)), onto.dtype.scalar)

    def atomic(builder: Any, what: Any, places: Any, value: Any, mask: Any, *rest: Any) -> Any:
        if not is_bfloat16(value.dtype):
            return update(builder, what, places, value, mask, *rest)
        shape = np.broadcast_shapes(places.data.shape, value.data.shape)
        at, added, taken = (
            np.broadcast_to(each.data, shape).ravel() for each in (places, value, mask)
        )
        before = np.zeros(at.shape, np.float32)
        left = np.flatnonzero(taken)
        while left.size:  # equal places one after the other
            _, first = np.unique(at[left], return_index=True)
            now = left[first]
            every, none = np.ones(now.size, np.bool_), np.zeros(now.size, np.uint16)
            bits = interpreter._interpreter.load(at[now], every, none, none.dtype)
            before[now] = from_bits(bits)
            total = to_bits(before[now] + added[now])
            interpreter._interpreter.store(at[now], total, every)
            left = np.delete(left, first)
        return Block(before.reshape(shape), tl.bfloat16)

    def clamped(builder: Any, given: Any, low: Any, high: Any, propagated: Any) -> Any:
        most, least = (
            (np.maximum, np.minimum) if propagated == tl.PropagateNan.ALL else (np.fmax, np.fmin)
        )
        return builder.ternary_op(given, low, high, lambda x, a, b: least(most(x, a), b))

    def lacking(_: Any, name: str) -> Any:
        if not name.startswith("create_"):
            raise AttributeError(name)

        def refuse(*_: Any, **__: Any) -> Any:
            raise CannotRunHere(f"Triton's interpreter has no {name.removeprefix('create_')}")

        return refuse

    Builder.create_dot, Builder.create_atomic_rmw = dot, atomic
    Builder.create_minnumf = lambda builder, a, b: builder.binary_op(a, b, np.fmin)
    Builder.create_maxnumf = lambda builder, a, b: builder.binary_op(a, b, np.fmax)
    Builder.create_clampf = clamped
    Builder.create_inline_asm = lambda builder, *_, **__: lacking(builder, "create_inline_asm")()
    Builder.__getattr__ = lacking


def _wide(block: Any) -> Any:
    """Return numbers in a type in which NumPy multiplies by a library, exactly for small ones."""
    if block.dtype.scalar.name in FLOAT8:
        return _of_float8(block).data
    if block.data.dtype == np.float16:
        return block.data.astype(np.float32)
    return block.data.astype(np.float64) if block.data.dtype.itemsize == 1 else block.data


def _combined(operation: Any, arrays: Sequence[Any], others: Sequence[Any], types: Any) -> Any:
    blocks = [
        operation.to_tensor(data, dtype)
        for each in (arrays, others)
        for data, dtype in zip(each, types, strict=True)
    ]
    found = operation.combine_fn.fn(*blocks)
    found = found if isinstance(found, tuple) else (found,)
    return [np.broadcast_to(each.handle.data, arrays[0].shape) for each in found]


def correct_scans() -> None:
    """Reduce and scan by functions of the kernel whole blocks at a time, as a tree."""
    reduce, scan = interpreter.ReduceOps.generic_reduce, interpreter.ScanOps.generic_scan

    def reduced(operation: Any, given: Any) -> Any:
        if _branches(operation.combine_fn.fn):
            return reduce(operation, given)
        whole = operation.axis is None
        rank = given[0].handle.data.ndim
        flat, axis = operation.unravel(given, operation.axis)
        types = [each.dtype for each in flat]
        arrays = [np.moveaxis(each.handle.data, axis, -1) for each in flat]
        while arrays[0].shape[-1] > 1:
            first, second = ([each[..., start::2] for each in arrays] for start in (0, 1))
            arrays = _combined(operation, first, second, types)
        results = [each[..., 0] for each in arrays]
        if operation.keep_dims:
            results = [
                each.reshape((1,) * rank) if whole else np.expand_dims(each, axis)
                for each in results
            ]
        return [
            operation.to_tensor(each, dtype) for each, dtype in zip(results, types, strict=True)
        ]

    def scanned(operation: Any, given: Any) -> Any:
        if _branches(operation.combine_fn.fn):
            return scan(operation, given)
        types = [each.dtype for each in given]
        arrays = [np.moveaxis(each.handle.data, operation.axis, -1) for each in given]
        place, step = np.arange(arrays[0].shape[-1]), 1
        while step < place.size:
            earlier = [np.roll(each, step, -1) for each in arrays]
            found = _combined(operation, earlier, arrays, types)
            arrays = [np.where(place >= step, *pair) for pair in zip(found, arrays, strict=True)]
            step *= 2
        return [
            operation.to_tensor(np.moveaxis(each, -1, operation.axis), dtype)
            for each, dtype in zip(arrays, types, strict=True)
        ]

    interpreter.ReduceOps.generic_reduce = reduced
    interpreter.ScanOps.generic_scan = scanned


@functools.cache
def _branches(function: Any) -> bool:
    """Return whether a function of single elements may mean something else for blocks of them."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return True
    tests = (ast.If, ast.IfExp, ast.While, ast.BoolOp)
    return any(
        isinstance(node, tests) or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
        for node in ast.walk(tree)
        if node not in getattr(tree.body[0], "decorator_list", ())
    )


def _each(
    function: Callable[..., float], undefined: Callable[..., float] = lambda *_: math.nan
) -> Callable[..., Any]:
    """Return a function of blocks; `undefined` gives its value where Python's has none."""

    def call(*given: float) -> float:
        try:
            return function(*given)
        except OverflowError:
            return math.copysign(math.inf, given[0])
        except ValueError:
            return undefined(*given)

    return np.vectorize(call, otypes=[np.float64])


LIBDEVICE: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(np, name)
        for name in "sin cos tan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p sqrt cbrt "
        "floor ceil trunc rint fabs copysign hypot fmod isnan signbit ldexp".split()
    },
    **{name: getattr(np, "arc" + name[1:]) for name in ("asin", "acos", "atan", "atan2")},
    **{name: getattr(np, "arc" + name[1:]) for name in ("asinh", "acosh", "atanh")},
    **{name: _each(getattr(math, name)) for name in ("erf", "erfc")},
    "normcdf": _each(lambda x: math.erfc(-x / math.sqrt(2)) / 2),
    "cyl_bessel_i0": np.i0,
    "exp10": lambda x: np.power(10.0, x),
    "sinpi": lambda x: np.sin(np.pi * x),
    "cospi": lambda x: np.cos(np.pi * x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "nearbyint": np.rint,
    "llrint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "llround": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "saturate": lambda x: np.fmin(np.fmax(x, 0), 1),
    "pow": np.power,
    "powi": np.power,
    "fma": lambda x, y, z: x * y + z,
    "fdim": lambda x, y: np.where(x <= y, 0, x - y),
    "remainder": _each(math.remainder),
    "isinf": np.isinf,
    "finite": np.isfinite,
    "isfinite": np.isfinite,
    "lgamma": _each(math.lgamma, lambda _: math.inf),
    "tgamma": _each(math.gamma, lambda x: math.nan if x else math.copysign(math.inf, x)),
    "div_rn": np.divide,
    "fdividef": np.divide,
    "rcp_rn": lambda x: 1 / x,
    "add_rn": np.add,
    "sub_rn": np.subtract,
    "mul_rn": np.multiply,
    "sqrt_rn": np.sqrt,
    "rsqrt_rn": lambda x: 1 / np.sqrt(x),
    "float2int_rn": np.rint,
    "float2int_rz": np.trunc,
    "float2int_rd": np.floor,
    "float2int_ru": np.ceil,
    "abs": np.abs,
    "popc": lambda x: np.bitwise_count(x.astype(np.int32).view(np.uint32)),
}
"""CUDA's functions that the interpreter can compute, by their names without the type."""


def _libdevice(symbol: str) -> Callable[..., Any] | None:
    """Return the function of a symbol such as `__nv_fast_expf`, or None."""
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    candidates = [name, name.removesuffix("f"), name.removesuffix("d"), name.replace("f_", "_")]
    candidates += [each[1:] for each in (name,) if each[0] in "fd"]
    return next((LIBDEVICE[each] for each in candidates if each in LIBDEVICE), None)


def add_libdevice() -> None:
    """Compute CUDA's functions in double precision, rounded once."""

    def extern(_: Any, *asked: Any) -> Any:
        *_, symbol, given, dtype, _ = asked
        function = _libdevice(symbol)
        if function is None:
            raise CannotRunHere(f"Triton's interpreter has no {symbol}")
        wide = [
            each.data.astype(np.float64) if each.data.dtype.kind == "f" else each.data
            for each in given
        ]
        found = np.asarray(function(*wide))
        return Block(found.astype(interpreter._get_np_dtype(dtype)), dtype.scalar)

    Builder.create_extern_elementwise = extern

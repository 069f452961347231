"""Counts what one call does while Triton's interpreter runs it: accesses, lanes, multiplications.

The compiler's text counts an instruction in a loop once; the interpreter runs every program, so it
counts how often. Used in the confined process alone, by `compile_process`.
"""

# Triton has no types.
# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from akg_tui.evaluate.evidence.compile_report import SECTOR, HostWork, Work

MOST_HELD = 1 << 22
"""The addresses that are held before they are reduced to different ones."""
MOST_SIZES = 64
_ELEMENTWISE = ("binary_op", "unary_op", "ternary_op", "cast_impl", "create_fma")
_MAKES_NOTHING = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided")


class _Different:
    """The different sectors among those that were told."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._held = 0

    def add(self, sectors: Any) -> None:
        self._parts.append(sectors)
        self._held += sectors.size
        if self._held > MOST_HELD:
            self._parts = [np.unique(np.concatenate(self._parts))]
            self._held = self._parts[0].size

    def count(self) -> int:
        return int(np.unique(np.concatenate(self._parts)).size) if self._parts else 0


class LaunchCounter:
    """Counts the work of one launch while its `counting` context is open."""

    def __init__(self) -> None:
        self._programs = self._loads = self._reductions = self._sectors = 0
        self._read, self._written = _Different(), _Different()
        self._tiles: Counter[int] = Counter()
        self._products: Counter[str] = Counter()

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count in the interpreter until the block ends."""
        from triton.runtime import interpreter

        builder, kept = interpreter.interpreter_builder, []

        def put(owner: Any, name: str, counted: Callable[..., Any]) -> None:
            original = getattr(owner, name)
            kept.append((owner, name, vars(owner).get(name)))

            def both(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                counted(result, *args, **kwargs)
                return result

            setattr(owner, name, both)

        put(builder, "set_grid_idx", self._began)
        put(builder, "create_masked_load", self._loaded)
        put(builder, "create_masked_store", self._stored)
        put(builder, "create_atomic_rmw", self._updated)
        put(builder, "create_dot", self._multiplied)
        for name in _ELEMENTWISE:
            put(builder, name, self._computed)
        for each in (interpreter.ReduceOps, interpreter.ScanOps):
            put(each, "apply_impl", self._reduced)
        try:
            yield
        finally:
            for owner, name, before in kept:
                if before is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, before)

    def work(self) -> Work:
        """Return what was counted."""
        return Work(
            programs=self._programs,
            loads=self._loads,
            reductions=self._reductions,
            sectors=self._sectors,
            different_read=self._read.count(),
            different_written=self._written.count(),
            tiles={str(size): n for size, n in self._tiles.most_common(MOST_SIZES)},
            products=dict(self._products),
        )

    def _began(self, _: Any, *place: int) -> None:
        self._programs += 1

    def _access(self, ptrs: Any, mask: Any, different: _Different) -> None:
        taken = ptrs.data
        if mask is not None:
            taken = np.broadcast_to(taken, mask.data.shape)[mask.data]
        sectors = np.unique(np.asarray(taken).ravel() // SECTOR)
        self._sectors += int(sectors.size)
        different.add(sectors)

    def _loaded(self, _: Any, ptrs: Any, mask: Any, *rest: Any, **named: Any) -> None:
        self._loads += 1
        self._access(ptrs, mask, self._read)

    def _stored(self, _: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> None:
        self._access(ptrs, mask, self._written)

    def _updated(self, _: Any, operation: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> None:
        self._access(ptr, mask, self._written)

    def _multiplied(self, result: Any, a: Any, b: Any, *rest: Any) -> None:
        self._products[str(a.dtype.scalar)] += 2 * int(result.data.size) * int(a.data.shape[-1])

    def _computed(self, result: Any, *operands: Any) -> None:
        if (size := int(result.data.size)) > 1:  # scalars are computed beside the tiles
            self._tiles[size] += 1

    def _reduced(self, _: Any, operation: Any, given: Any) -> None:
        self._reductions += 1
        self._tiles[int(given[0].handle.data.size)] += 1


class HostCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operators that forward calls beside its launches."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.paused = False
        self._operators = self._moved = self._products = 0

    def work(self) -> HostWork:
        """Return what was counted."""
        return HostWork(self._operators, self._moved, self._products)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if not self.paused and not func.is_view and name not in _MAKES_NOTHING:
            found = [*_tensors(args), *_tensors(result)]
            self._operators += 1
            self._moved += sum(each.numel() * each.element_size() for each in found)
            if count := flop_registry.get(func.overloadpacket):
                self._products += int(count(*args, **(kwargs or {}), out_val=result))
        return result


def _tensors(given: Any) -> list[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        return [given]
    if isinstance(given, list | tuple):
        return [tensor for each in given for tensor in _tensors(each)]
    return []

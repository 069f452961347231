"""Seals inputs, and digests what a call leaves, so that a device needs no trust. The judge's side.

An input is placed on a device by the kernel's own process, before the clock runs. It is placed
sealed: combined with a key stream whose key is sent when the clock starts. And results are read
after the clock has stopped, by that process too: so its answer commits to a digest of them, and of
the arguments. A process that computes before the clock has no input, one that computes after it
can't know the digest. `triton_seal.py` has the same arithmetic for a device; the two must agree in
every bit.

The permutation is the finaliser of SplitMix64, twice with a key between. It need not resist
a cryptanalyst, only the milliseconds in which an input waits for its key.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from akg_tui.dsl import compilers

STEP = 0x9E3779B97F4A7C15
LANES = (1 << 16, 1 << 12, 1 << 8, 1 << 4, 1)
_ROUNDS, _LAST = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)), 31
"""The shifts and factors of SplitMix64's finaliser (Steele, Lea and Flood, 2014)."""

_MASK = (1 << 64) - 1
_BLOCK = 8192
"""Words that NumPy seals at a time: they fit into a near cache with two buffers."""

_LARGE = 1 << 16
"""The least bytes for which the compiled loops are used."""

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

SOURCE = r"""
#include <cstddef>
#include <cstdint>
using Word = uint64_t;
static inline Word mix(Word z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
static const Word STEP = 0x9E3779B97F4A7C15u;
/* Seal words, of which the first has the number `begin` in the key stream. */
extern "C" void seal(const Word *words, Word *out, size_t count, Word begin, Word between) {
  for (size_t i = 0; i < count; i++) out[i] = words[i] ^ mix(mix(begin + i * STEP) ^ between);
}
/* Continue each chain over all its words. */
extern "C" void chain(const Word *words, size_t count, Word *ends, size_t lanes) {
  for (size_t at = 0; at < count; at += lanes) {
    size_t stop = lanes < count - at ? lanes : count - at;
    for (size_t j = 0; j < stop; j++) ends[j] = mix((ends[j] ^ words[at + j]) + STEP);
  }
}
"""


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return the compiled loops; None where there is no compiler.

    Loaded once, before any fork: no child may build or load them.
    """
    with contextlib.suppress(compilers.CompilerMissing, compilers.CompileError, OSError):
        loaded = compilers.compile_cpp(SOURCE, "-O3 -march=native")
        address, size, word = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
        loaded.seal.argtypes = [address, address, size, word, word]
        loaded.chain.argtypes = [address, size, address, size]
        return loaded
    return None


def _mix(values: Words, spare: Words) -> None:
    """Permute each word in place."""
    for shift, factor in _ROUNDS:
        np.right_shift(values, np.uint64(shift), out=spare)
        values ^= spare
        values *= np.uint64(factor)
    np.right_shift(values, np.uint64(_LAST), out=spare)
    values ^= spare


def _mixed(value: int) -> int:
    """Permute one word."""
    value &= _MASK
    for shift, factor in _ROUNDS:
        value = (value ^ value >> shift) * factor & _MASK
    return value ^ value >> _LAST


@functools.cache
def _steps(count: int) -> Words:
    return np.arange(count, dtype=np.uint64) * np.uint64(STEP)


def apply(source: Bytes, target: Bytes, key: int, *, first: int = 0) -> None:
    """Seal or unseal whole words: the two are one operation. `first` is the place of the first."""
    words, out = source.view(np.uint64), target.view(np.uint64)
    begin = _mixed(key + STEP)
    between = _mixed(begin + STEP)
    compiled = library() if source.nbytes >= _LARGE else None
    if compiled is None:
        _apply(words, out, begin + first * STEP, np.uint64(between))
        return
    start = begin + first * STEP & _MASK
    compiled.seal(words.ctypes.data, out.ctypes.data, len(words), start, between)


def _apply(words: Words, out: Words, begin: int, between: np.uint64) -> None:
    """Seal words, of which the first has the number `begin` in the key stream."""
    stream, spare = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint64)
    for at in range(0, len(words), _BLOCK):
        part = words[at : at + _BLOCK]
        values, room = stream[: len(part)], spare[: len(part)]
        start = np.uint64((begin + at * STEP) & _MASK)
        np.add(_steps(_BLOCK)[: len(part)], start, out=values)
        _mix(values, room)
        values ^= between
        _mix(values, room)
        np.bitwise_xor(part, values, out=out[at : at + _BLOCK])


def lanes_for(words: int) -> tuple[int, ...]:
    """Return the number of chains that digest `words`, those that digest their ends, and so on.

    The first are many, because a device runs them side by side; the last is one. Chains over the
    ends of others have 16 words each, because a device waits for every word of a chain.
    """
    first = next((lanes for lanes in reversed(LANES) if lanes >= words), LANES[0])
    return (first, *(lanes for lanes in LANES if lanes < first))


def digest(data: Bytes, key: int) -> int:
    """Return the digest of one result's bytes, in the order of memory, filled up with zeros."""
    missing = -len(data) % 8
    whole = np.concatenate([data, np.zeros(missing, np.uint8)]) if missing else data
    words = whole.view(np.uint64)
    for lanes in lanes_for(len(words)):
        words = _chained(words, key, lanes)
    return int(words[0])


def joined(digests: Sequence[int]) -> int:
    """Return one digest of several, in their order."""
    total = 0
    for each in digests:
        total = _mixed(_mixed(total + STEP) ^ each)
    return total


def _chained(words: Words, key: int, lanes: int) -> Words:
    """Return the end of each chain: chain j runs over every `lanes`-th word from word j."""
    if lanes == 1:
        held = _mixed(key)
        for word in words.tolist():
            held = _mixed((held ^ word) + STEP)
        return np.array([held], np.uint64)
    ends = _steps(lanes) + np.uint64(key & _MASK)
    _mix(ends, np.empty_like(ends))
    compiled = library() if words.nbytes >= _LARGE else None
    if compiled is None:
        spare = np.empty_like(ends)
        for at in range(0, len(words), lanes):
            row = words[at : at + lanes]
            part, room = ends[: len(row)], spare[: len(row)]
            part ^= row
            part += np.uint64(STEP)
            _mix(part, room)
        return ends
    compiled.chain(words.ctypes.data, len(words), ends.ctypes.data, lanes)
    return ends

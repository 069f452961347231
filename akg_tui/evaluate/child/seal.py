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
/* Begin each chain with the key, and continue it over all its words. */
extern "C" void chain(const Word *words, size_t count, Word *ends, size_t lanes, Word key) {
  for (size_t j = 0; j < lanes; j++) ends[j] = mix(key + j * STEP);
  for (size_t at = 0; at < count; at += lanes) {
    size_t stop = lanes < count - at ? lanes : count - at;
    for (size_t j = 0; j < stop; j++) ends[j] = mix((ends[j] ^ words[at + j]) + STEP);
  }
}
"""


@functools.cache
def library() -> ctypes.CDLL:
    """Return the compiled loops; raise as `compile_cpp` does where there is no compiler.

    Loaded once, before any fork: no child may build or load them.
    """
    loaded = compilers.compile_cpp(SOURCE, "-O3 -march=native")
    address, size, word = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
    loaded.seal.argtypes = [address, address, size, word, word]
    loaded.chain.argtypes = [address, size, address, size, word]
    return loaded


def _mixed(value: int) -> int:
    """Permute one word."""
    value &= _MASK
    for shift, factor in _ROUNDS:
        value = (value ^ value >> shift) * factor & _MASK
    return value ^ value >> _LAST


def apply(source: Bytes, target: Bytes, key: int, *, first: int = 0) -> None:
    """Seal or unseal whole words: the two are one operation. `first` is the place of the first."""
    words, out = source.view(np.uint64), target.view(np.uint64)
    begin = _mixed(key + STEP)
    between = _mixed(begin + STEP)
    start = begin + first * STEP & _MASK
    library().seal(words.ctypes.data, out.ctypes.data, len(words), start, between)


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
        # Chain j runs over every `lanes`-th word from word j.
        ends = np.empty(lanes, np.uint64)
        library().chain(words.ctypes.data, len(words), ends.ctypes.data, lanes, key & _MASK)
        words = ends
    return int(words[0])


def joined(digests: Sequence[int]) -> int:
    """Return one digest of several, in their order."""
    total = 0
    for each in digests:
        total = _mixed(_mixed(total + STEP) ^ each)
    return total

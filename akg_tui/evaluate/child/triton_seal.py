"""The arithmetic of `seal.py` in Triton, for a device that Triton compiles for. Runs in the child.

A key is a tensor of one word, so that work can be queued before the key is known: `await_key` fills
it with a word of the host's memory as soon as that is not 0, and `tell` writes digests there.
Imports Triton, so a child imports it only on such a device.
"""

# Triton has no types, and what it compiles has none of Python's.
# mypy: disable-error-code="import-untyped, no-untyped-def, untyped-decorator, no-untyped-call"

from __future__ import annotations

import mmap

import torch
import triton
import triton.language as tl

BLOCK = 256

MAPPED = 2
"""`cudaHostRegisterMapped` (CUDA Runtime API, memory management)."""

TRIES = 1 << 25
"""The most readings of the host's memory, of about a microsecond each: no device waits for ever."""


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


_STEP = tl.constexpr(_signed(0x9E3779B97F4A7C15))
_FIRST = tl.constexpr(_signed(0xBF58476D1CE4E5B9))
_SECOND = tl.constexpr(_signed(0x94D049BB133111EB))
_LOW_34, _LOW_37, _LOW_33 = (tl.constexpr((1 << bits) - 1) for bits in (34, 37, 33))


# Signed words, and masks after the shifts: Ascend's compiler makes an arithmetic shift of a logical
# one in a vector of 64-bit words.
@triton.jit
def _mix(z):
    z = (z ^ ((z >> 30) & tl.full((), _LOW_34, tl.int64))) * tl.full((), _FIRST, tl.int64)
    z = (z ^ ((z >> 27) & tl.full((), _LOW_37, tl.int64))) * tl.full((), _SECOND, tl.int64)
    return z ^ ((z >> 31) & tl.full((), _LOW_33, tl.int64))


@triton.jit(do_not_specialize=["words"])
def _unseal(out, sealed, key, words, BLOCK: tl.constexpr):  # noqa: N803
    step = tl.full((), _STEP, tl.int64)
    first = _mix(tl.load(key) + step)
    second = _mix(first + step)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < words
    word = tl.load(sealed + at, mask=inside, other=0)
    stream = _mix(_mix(first + at * step) ^ second)
    tl.store(out + at, word ^ stream, mask=inside)


@triton.jit(do_not_specialize=["words"])
def _chained(out, source, key, words, lanes, BLOCK: tl.constexpr):  # noqa: N803, PLR0917
    step = tl.full((), _STEP, tl.int64)
    lane = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    held = _mix(tl.load(key) + lane * step)
    for start in range(0, words, lanes):
        at = start + lane
        inside = at < words
        word = tl.load(source + at, mask=inside, other=0)
        held = tl.where(inside, _mix((held ^ word) + step), held)
    tl.store(out + lane, held)


@triton.jit(do_not_specialize=["address"])
def _await_key(key, address, tries):
    place = address.to(tl.pointer_type(tl.int64))
    found = tl.load(place, volatile=True)
    tried = 0
    while (found == 0) & (tried < tries):
        found = tl.load(place, volatile=True)
        tried += 1
    tl.store(key, found)


@triton.jit(do_not_specialize=["address", "count"])
def _tell(digests, address, count, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.arange(0, BLOCK)
    place = address.to(tl.pointer_type(tl.int64)) + at
    tl.store(place, tl.load(digests + at, mask=at < count, other=0), mask=at < count)


def map_host(address: int, size: int) -> bool:
    """Let the device use memory of the host at its own address; return whether that was done."""
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    return not int(torch.cuda.cudart().cudaHostRegister(address, pages, MAPPED))


def unmap_host(address: int) -> None:
    """Take back what `map_host` did."""
    torch.cuda.cudart().cudaHostUnregister(address)


def await_key(key: torch.Tensor, address: int) -> None:
    """Have the device wait for a word at `address` that is not 0, and copy it to `key`."""
    _await_key[(1,)](key, address, TRIES, num_warps=1)


def tell(digests: torch.Tensor, address: int) -> None:
    """Have the device write digests to `address`, each as one word."""
    count = digests.numel()
    _tell[(1,)](digests, address, count, triton.next_power_of_2(count), num_warps=1)


def unseal(out: torch.Tensor, sealed: torch.Tensor, key: torch.Tensor) -> None:
    """Unseal the bytes of an item; `key` is below 2^63, and so has one type."""
    words = sealed.numel() // 8
    grid = (triton.cdiv(words, BLOCK),)
    if words:
        _unseal[grid](out.view(torch.int64), sealed.view(torch.int64), key, words, BLOCK)


def digest(
    out: torch.Tensor, words: torch.Tensor, key: torch.Tensor, lanes: tuple[int, ...]
) -> None:
    """Write the digest of `words` into the one element of `out`."""
    source = words
    for count in lanes:
        ends = out if count == 1 else torch.empty(count, dtype=torch.int64, device=words.device)
        block = min(count, BLOCK)
        _chained[(count // block,)](ends, source, key, source.numel(), count, block)
        source = ends

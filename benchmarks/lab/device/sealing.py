"""The seals of `labdev`, as the judge's child calls them."""

from __future__ import annotations

import torch


def map_host(address: int, size: int) -> bool:
    """Do nothing: the device reads the host's memory."""
    return True


def unmap_host(address: int) -> None:
    """Do nothing."""


def await_key(key: torch.Tensor, address: int) -> None:
    """Wait on the device for a word at `address` that is not 0."""
    torch.ops.labdev.await_key(key, address)


def tell(digests: torch.Tensor, address: int) -> None:
    """Write digests to `address`."""
    torch.ops.labdev.tell(digests, address)


def unseal(out: torch.Tensor, sealed: torch.Tensor, key: torch.Tensor) -> None:
    """Unseal an item."""
    torch.ops.labdev.unseal(out, sealed, key)


def digest(
    out: torch.Tensor, words: torch.Tensor, key: torch.Tensor, lanes: tuple[int, ...]
) -> None:
    """Write the digest of `words` into `out`."""
    torch.ops.labdev.digest(out, words, key, lanes)

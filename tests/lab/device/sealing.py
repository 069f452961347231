"""The seals of `labdev`, as the judge's child calls them."""

from __future__ import annotations

import torch


def unseal(out: torch.Tensor, sealed: torch.Tensor, key: int) -> None:
    """Unseal an item."""
    torch.ops.labdev.unseal(out, sealed, key)


def digest(out: torch.Tensor, words: torch.Tensor, key: int, lanes: tuple[int, ...]) -> None:
    """Write the digest of `words` into `out`."""
    torch.ops.labdev.digest(out, words, key, lanes)

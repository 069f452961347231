"""The structure of inputs, in words: found over several draws, and kept in every changed input.

Pure except for the generator argument. A kernel may count on a structure that every draw has, such
as the zeros of a triangular matrix. The words are those of `core.task.InputStructure`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from akg_tui.evaluate.protocol.tensor_layout import computable

EVIDENCE = 9
"""The least elements of all draws together that show a structure: fewer may have it by chance."""


class _Draws(NamedTuple):
    """Several draws of one tensor; `fixed` if all are equal."""

    values: Sequence[torch.Tensor]
    fixed: bool

    def all(self, holds: Callable[[torch.Tensor], bool | torch.Tensor]) -> bool:
        return all(bool(holds(value)) for value in self.values)


def words_of(draws: Sequence[object]) -> tuple[str, ...]:
    """Return the words for the structure that all draws of one input have; none for a number."""
    values = [computable(each) for each in draws if isinstance(each, torch.Tensor)]
    enough = sum(value.numel() for value in values) >= EVIDENCE
    if len(values) < len(draws) or not enough or values[0].is_complex():
        return ()
    found = _Draws(values, all(torch.equal(values[0], other) for other in values[1:]))
    if _is_one_hot(found):
        return ("one-hot rows",)
    integers = not values[0].is_floating_point() and values[0].dtype != torch.bool
    words: list[str] = []
    if values[0].dtype != torch.bool and _has_zeros_and_ones(found):
        words.append("zeros and ones")
    # Not of floats: `torch.rand` draws none below zero, and where a reference takes no such values
    # its result says so.
    elif integers and found.all(lambda value: (value > 0).all()):
        words.append("positive")
    mask = "zeros and ones" in words or values[0].dtype == torch.bool
    if mask and values[0].dim() and found.all(lambda value: (value != 0).any(-1).all()):
        words.append("no empty rows")
    if integers and not found.fixed and values[0].dim():
        words += _of_indices(found)
    if values[0].dtype != torch.bool and _is_sorted(found):
        words.append("sorted rows")
    if values[0].dim() >= 2:
        words += _of_matrices(found)
    return tuple(words)


def kept(
    words: Sequence[str], value: torch.Tensor, like: torch.Tensor, rng: torch.Generator
) -> torch.Tensor:
    """Return the tensor nearest to `value`, roughly, that has the structure that `words` name.

    `like` is an input with that structure, which has its band, its range and the ends of its rows.
    """
    known = computable(like)
    for word, keep in _KEEP.items():
        if word in words and value.numel():
            value = keep(computable(value), known, rng).to(value.dtype)
    return value


def _is_one_hot(draws: _Draws) -> bool:
    def holds(value: torch.Tensor) -> bool | torch.Tensor:
        ones = (value == 1).sum(-1) == 1
        return ones.all() & ((value == 0) | (value == 1)).all()

    first = draws.values[0]
    return first.dim() >= 1 and first.shape[-1] > 2 and not draws.fixed and draws.all(holds)


def _has_zeros_and_ones(draws: _Draws) -> bool:
    both = any(value.any() and (value == 0).any() for value in draws.values)
    return both and draws.all(lambda value: ((value == 0) | (value == 1)).all())


def _is_sorted(draws: _Draws) -> bool:
    def holds(value: torch.Tensor) -> bool | torch.Tensor:
        return (value.diff(dim=-1) >= 0).all() & (value[..., 0] < value[..., -1]).all()

    first = draws.values[0]
    return first.dim() >= 1 and first.shape[-1] > 2 and draws.all(holds)


def _of_indices(draws: _Draws) -> list[str]:
    """Return whether rows are permutations, or all integers of a draw distinct.

    Of few integers from a wide range all are distinct by chance: eight pairs must be equal then.
    """
    places = torch.arange(draws.values[0].shape[-1])
    if len(places) > 2 and draws.all(lambda value: (value.sort(-1).values == places).all()):
        return ["permutations"]
    pairs = 0.0
    for value in draws.values:
        width = int(value.max()) - int(value.min()) + 1
        pairs += value.numel() * (value.numel() - 1) / 2 / width
    distinct = draws.all(_differ)
    return ["distinct"] if distinct and pairs >= 8 else []


def _differ(value: torch.Tensor) -> bool:
    ordered = value.flatten().sort().values
    return bool((ordered[1:] != ordered[:-1]).all())


def _of_matrices(draws: _Draws) -> list[str]:
    """Return the words for zeros at fixed places, and for square matrices."""
    words: list[str] = []
    zeros = [value == 0 for value in draws.values]
    rows, columns = zeros[0].shape[-2:]
    some = bool(zeros[0].any()) and not bool(zeros[0].all()) and min(rows, columns) > 2
    if some and all(torch.equal(zeros[0], other) for other in zeros[1:]):
        below, above = _band(draws.values[0])
        if below > 0 >= above:
            words.append("lower triangular")
        elif above > 0 >= below:
            words.append("upper triangular")
        elif max(below, above) < min(rows, columns) / 2:
            words.append("banded")
        elif not draws.fixed:
            words.append("fixed zeros")
    if rows != columns or rows < 3 or not draws.values[0].is_floating_point():
        return words
    if draws.all(lambda value: torch.equal(value, value.mT)):
        definite = draws.all(lambda value: (_definite(value)).all())
        words.append("positive definite" if definite else "symmetric")
    elif draws.all(_is_orthogonal):
        words.append("orthogonal")
    return words


def _band(value: torch.Tensor) -> tuple[int, int]:
    """Return how far non-zeros of matrices are below and above the diagonal."""
    filled = (value != 0).flatten(0, -3).any(0) if value.dim() > 2 else value != 0
    row, column = filled.nonzero(as_tuple=True)
    if not len(row):
        return 0, 0
    return int((row - column).max()), int((column - row).max())


def _definite(value: torch.Tensor) -> torch.Tensor:
    info: torch.Tensor = torch.linalg.cholesky_ex(value.double()).info
    return info == 0


def _is_orthogonal(value: torch.Tensor) -> bool:
    square = value.double().mT @ value.double()
    return bool((square - torch.eye(square.shape[-1]).double()).abs().amax() < 1e-2)


def _positive(value: torch.Tensor, like: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    found = value.abs()
    has_zeros = not bool((like != 0).all())
    return found if has_zeros else torch.where(found == 0, like.abs().amin(), found)


def _sorted(value: torch.Tensor, like: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return sorted rows; of integers, such as the offsets of segments, the ends stay."""
    found = value.sort(dim=-1).values
    if not value.is_floating_point() and like.shape[:-1] == value.shape[:-1]:
        found = found.maximum(like[..., :1]).minimum(like[..., -1:])
        found[..., 0], found[..., -1] = like[..., 0], like[..., -1]
    return found


def _permuted(value: torch.Tensor, _: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    noise = torch.rand(value.shape, generator=rng, dtype=torch.float64)
    return (value + noise / 2).argsort(-1).argsort(-1)


def _distinct(value: torch.Tensor, like: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return integers of the range of `like` in the order of `value`, those that it has if it can.

    Above the range if there are more elements.
    """
    flat = value.flatten()
    if _differ(flat):
        return value
    low, high = int(like.min()), int(like.max())
    chosen = torch.randperm(max(high - low + 1, flat.numel()), generator=rng)[: flat.numel()]
    return (low + chosen).sort().values[_permuted(flat, flat, rng)].view(value.shape)


def _one_hot(value: torch.Tensor, _: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    noise = torch.rand(value.shape, generator=rng, dtype=torch.float64)
    place = (value.double().nan_to_num() + noise / 2).argmax(-1, keepdim=True)
    return torch.zeros_like(value).scatter_(-1, place, 1)


def _filled(value: torch.Tensor, like: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return rows, those of `like` where one would be empty: a softmax of nothing is no number."""
    if like.shape != value.shape:
        return value
    return torch.where((value != 0).any(-1, keepdim=True), value, like.to(value.dtype))


def _banded(value: torch.Tensor, like: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    below, above = _band(like)
    return value.tril(above).triu(-below)


def _with_zeros(value: torch.Tensor, like: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return value.masked_fill(like == 0, 0) if like.shape == value.shape else value


def _symmetric(value: torch.Tensor, _: torch.Tensor, __: torch.Generator) -> torch.Tensor:
    return value.tril() + value.tril(-1).mT if value.shape[-1] == value.shape[-2] else value


def _made_definite(value: torch.Tensor, like: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return symmetric matrices; the diagonal of those not positive definite dominates."""
    found = _symmetric(value, like, rng)
    if found.shape[-1] != found.shape[-2]:
        return found
    size = found.abs()
    least = float(like.abs().amax()) / 2
    diagonal = (size.sum(-1) * 1.01).clamp(min=least)
    dominant = found - found.diagonal(dim1=-2, dim2=-1).diag_embed() + diagonal.diag_embed()
    return torch.where(_definite(found)[..., None, None], found, dominant)


def _orthogonal(value: torch.Tensor, _: torch.Tensor, __: torch.Generator) -> torch.Tensor:
    if value.shape[-1] != value.shape[-2] or _is_orthogonal(value):
        return value
    found: torch.Tensor = torch.linalg.qr(value.double()).Q
    return found.to(value.dtype)


_KEEP: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Generator], torch.Tensor]] = {
    "zeros and ones": lambda value, _, __: value >= 0.5,
    "positive": _positive,
    "one-hot rows": _one_hot,
    "permutations": _permuted,
    "distinct": _distinct,
    "sorted rows": _sorted,
    "orthogonal": _orthogonal,
    "lower triangular": lambda value, _, __: value.tril(),
    "upper triangular": lambda value, _, __: value.triu(),
    "banded": _banded,
    "fixed zeros": _with_zeros,
    "symmetric": _symmetric,
    "positive definite": _made_definite,
    "no empty rows": _filled,
}
"""How each structure is kept, in this order."""

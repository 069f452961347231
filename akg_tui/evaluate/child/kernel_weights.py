"""The reference's weights: changed as by training; given to a kernel's model by name, during
`__init__` and after it.

Runs in the child.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence

import torch

Weights = Mapping[str, torch.Tensor]

TRAINED_SHARE = 0.25
"""The largest change of an element of a parameter, as a share of that element; of an element that
is 0, as a share of the root mean square of the parameter."""

UNTRAINED = 1e-2
"""Several elements that are all one number below this, in magnitude, are changed to about
`TRAINED_SHARE`: the scale of a block begins with 1e-6 in some models, and hides that block."""

PERTURBED_AT_ONCE = 1 << 20
"""The elements that are changed at a time: a copy of a large parameter would take its memory again,
several times over in double precision."""


@contextlib.contextmanager
def given_during_init(made: object, weights: Weights) -> Iterator[None]:
    """Copy the weights to each parameter, buffer and module that an instance of `made` registers.

    So an `__init__` that packs its weights packs those of the reference.
    """

    def copy(module: torch.nn.Module, name: str, value: object) -> None:
        if type(module) is not made:
            return
        if isinstance(value, torch.nn.Module):
            own = {f"{name}.{key}": each for key, each in value.state_dict().items()}
        else:
            own = {name: value}
        for key, each in own.items():
            if isinstance(each, torch.Tensor) and key in weights and _alike(each, weights[key]):
                each.detach().copy_(weights[key])

    hooks = torch.nn.modules.module
    with (
        hooks.register_module_parameter_registration_hook(copy),
        hooks.register_module_buffer_registration_hook(copy),
        hooks.register_module_module_registration_hook(copy),
    ):
        yield


def give(model: object, weights: Weights) -> None:
    """Copy all weights to a model, which may have more; none if it lacks one."""
    if isinstance(model, torch.nn.Module) and not _first_lacking(model, weights):
        model.load_state_dict(weights, strict=False)


def lacking(model: object, weights: Weights) -> str:
    """Return the message for a model that lacks one of the weights, or ""."""
    if not (name := _first_lacking(model, weights)):
        return ""
    own = model.state_dict() if isinstance(model, torch.nn.Module) else {}
    wanted = weights[name]
    if name in own:
        has, needs = (f"{list(each.shape)} {each.dtype}" for each in (own[name], wanted))
        return f"{name!r} in ModelNew is {has}, expected {needs}, as in the reference"
    others = (each for each, value in own.items() if each not in weights and _alike(value, wanted))
    known = ", ".join(weights)
    if renamed := next(others, ""):
        return (
            f"{name!r} is missing in ModelNew (rename {renamed!r}?); the reference's weights are "
            f"given after __init__, by name: {known}"
        )
    return (
        f"{name!r} is missing in ModelNew; the reference's weights are given after __init__, by "
        f"name: {known}"
    )


def packed(model: object, weights: Weights) -> str:
    """Return a remark on tensors of a model that may hold weights of before the reference's, or "".

    Those are as long as a weight, and none of them.
    """
    if not isinstance(model, torch.nn.Module):
        return ""
    made = dict(model.named_parameters()) | dict(model.named_buffers())
    for prefix, module in model.named_modules():
        own = {name: each for name, each in vars(module).items() if isinstance(each, torch.Tensor)}
        made |= {f"{prefix}.{name}".lstrip("."): each for name, each in own.items()}
    sizes = {each.numel() for each in weights.values()} - {1}
    unknown = (name for name, each in made.items() if name not in weights and each.numel() in sizes)
    if not (names := ", ".join(f"`{name}`" for name in unknown)):
        return ""
    return (
        f"{names} was made in `__init__`: where it did not follow the weights, make it at the "
        "first call"
    )


def _first_lacking(model: object, weights: Weights) -> str:
    own = model.state_dict() if isinstance(model, torch.nn.Module) else {}
    return next((n for n, each in weights.items() if n not in own or not _alike(own[n], each)), "")


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (one.shape, one.dtype) == (other.shape, other.dtype)


def perturb_parameters(model: torch.nn.Module, seed: int) -> tuple[str, ...]:
    """Change every element of the parameters, as training does; return the names of those changed.

    An untrained model has structure that no trained one has: a LayerNorm multiplies by 1 and adds
    0, layers are copies of one layer, a matrix is the identity. A kernel that counts on it would
    seem correct. An element keeps its sign; a zero becomes a small number, and elements that are
    all one number below `UNTRAINED` become about `TRAINED_SHARE`. Real and imaginary parts are
    elements. Parameters that take no gradient change only if all their elements are one number,
    and so do running means and variances of a BatchNorm; other buffers are part of the computation
    and are kept.
    """
    rng = torch.Generator().manual_seed(seed)
    found = dict(model.named_parameters())
    for prefix, module in model.named_modules():
        if isinstance(module, torch.nn.modules.batchnorm._NormBase):
            kept = {name: getattr(module, name) for name in ("running_mean", "running_var")}
            dot = "." if prefix else ""
            found |= {f"{prefix}{dot}{n}": v for n, v in kept.items() if v is not None}
    changed: list[str] = []
    for name in sorted(found.keys() & model.state_dict().keys()):
        value = found[name]
        real = value.is_floating_point()
        if not (real or (value.is_complex() and not value.is_conj())) or not value.numel():
            continue
        flat = value.detach() if real else torch.view_as_real(value.detach())
        parts = torch.split(flat.view(-1), PERTURBED_AT_ONCE) if flat.is_contiguous() else (flat,)
        first = _wide(parts[0]).flatten()[0]
        constant = all(bool((_wide(part) == first).all()) for part in parts)
        if (constant and not first.isfinite()) or not (constant or value.requires_grad):
            continue
        zeros = any(bool((_wide(part) == 0).any()) for part in parts)
        typical = _typical(parts) if zeros else 0.0
        uniform = constant and value.requires_grad and value.numel() > 1
        untrained = uniform and 0 < abs(float(first)) < UNTRAINED
        for part in parts:
            wide = _wide(part)
            noise = torch.rand(part.shape, generator=rng, dtype=wide.dtype)
            noise = noise.mul_(2 * TRAINED_SHARE).sub_(TRAINED_SHARE)
            trained = wide.sign() * (TRAINED_SHARE + noise / 2) if untrained else wide * (1 + noise)
            part.copy_(torch.where(wide == 0, typical * noise, trained))
        changed.append(name)
    return tuple(changed)


def _wide(part: torch.Tensor) -> torch.Tensor:
    """Return a tensor in single precision, or as it is: PyTorch can hardly compute with 8 bits."""
    return part if part.dtype == torch.float64 else part.float()


def _typical(parts: Sequence[torch.Tensor]) -> float:
    """Return the root mean square of the finite elements of a tensor; 1 if it is 0."""
    squares, count = 0.0, 0
    for part in parts:
        wide = _wide(part)
        known = wide[wide.isfinite()]
        squares, count = squares + float(known.double().square().sum()), count + known.numel()
    return math.sqrt(squares / count) or 1.0

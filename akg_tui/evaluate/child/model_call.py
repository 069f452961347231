"""Calls a model with the values of a flat list, as its contract says. Runs in the child.

The containers of a call are new ones. Results are the returned tensors and the arguments that the
reference changes, which a kernel must change too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

from akg_tui.evaluate.child.work_watch import WatchedModel
from akg_tui.evaluate.protocol import value_tree
from akg_tui.evaluate.protocol.child_protocol import Contract, Group
from akg_tui.evaluate.protocol.value_tree import Arguments, Classes, Flat, Mismatch

Model = Callable[..., object]


class BrokenContract(TypeError):
    """Why the results of a reference can't be those of a task."""


class Observed(NamedTuple):
    """What a call of a reference showed: its contract, its results, and their names."""

    contract: Contract
    results: list[torch.Tensor]
    names: list[str]


class ModelCall:
    """Calls models as a contract says; `classes` are those of the file that a model is in."""

    def __init__(self, contract: Contract, classes: Classes) -> None:
        self._contract = contract
        self._classes = classes
        self._plain = contract.inputs is None and not contract.gradients

    def prepared(self, values: Sequence[object]) -> Sequence[object]:
        """Return the values of one call: those to differentiate for are leaves of its own graph."""
        prepared = list(values)
        for at in self._contract.differentiable:
            value = values[at]
            if isinstance(value, torch.Tensor):
                prepared[at] = value.detach().requires_grad_()
        return prepared

    def call(self, model: Model, values: Sequence[object]) -> list[object]:
        """Call a model; return the tensors that it returned, and the arguments of the contract.

        Raises
        ------
        Mismatch
            The results are not nested as the reference's, or a container was changed.
        """
        contract, added = self._contract, list[object]()
        if self._plain:
            after = values
            returned = model(*values)
        else:
            values = self.prepared(values)
            arguments = value_tree.nested_arguments(contract.inputs, values, self._classes)
            with gradients(model) if contract.gradients else contextlib.nullcontext():
                returned = arguments.call(model)
            after = _after(contract.after or contract.inputs, arguments, values)
            kept = contract.kept if contract.after is not None else range(len(values))
            for at, value in zip(kept, after, strict=True):
                if at >= 0 and at not in contract.replaced and not _is(value, values[at]):
                    raise Mismatch("a value in a container of the arguments was replaced")
            if contract.after is not None:
                added = [value for at, value in zip(kept, after, strict=True) if at < 0]
                after = values
        found = value_tree.values_in(contract.returned, returned, value_tree.OUTPUT)
        found += [*added, *(after[at] for at in contract.changed)]
        if contract.gradients:
            return [each.detach() if isinstance(each, torch.Tensor) else each for each in found]
        return found


def observed(
    model: Model,
    given: Flat,
    values: Sequence[object],
    classes: Classes,
    *,
    differentiates: bool,
    parameters: Sequence[str] = (),
) -> Observed:
    """Call a reference and return its contract; `values` are copies of the `given` ones.

    A tensor is changed if an operator wrote to it, or its bytes are others. `parameters` are the
    names of the arguments that are passed by position.

    Raises
    ------
    BrokenContract
        It returns or changes something that can't be compared.
    """
    tensors = {at: each for at, each in enumerate(values) if isinstance(each, torch.Tensor)}
    wanting = [at for at in tensors if _wants_gradient(given.values[at])] if differentiates else []
    contract = Contract(given.group, gradients=differentiates, differentiable=tuple(wanting))
    versions = {at: each._version for at, each in tensors.items()}
    values = ModelCall(contract, classes).prepared(values)
    places = places_of(values)
    arguments = value_tree.nested_arguments(given.group, values, classes)
    with gradients(model) if differentiates else contextlib.nullcontext():
        returned = arguments.call(model)
    grown, kept = Flat(None, [], []), tuple[int, ...]()
    try:
        after = _after(given.group, arguments, values)
    except Mismatch:  # containers hold more or fewer values
        after, grown = values, value_tree.flat_arguments(arguments, parameters)
        known = {id(value): at for at, value in enumerate(values)}
        kept = tuple(known.get(id(value), -1) for value in grown.values)
    added = [at for at, place in enumerate(kept) if place < 0]
    if elsewhere := moved(places, values, given.names):
        raise BrokenContract(elsewhere)
    replaced, changed = [], []
    for at, value in enumerate(values):
        if at not in tensors:
            if after[at] is not value and after[at] != value:
                what = f"forward() changes the value {given.names[at]}, which is no tensor"
                raise BrokenContract(f"{what}: make it one")
        elif after[at] is not value:
            replaced.append(at)
        elif tensors[at]._version != versions[at] or not _same_bytes(value, given.values[at]):
            changed.append(at)
    flat = value_tree.flat_results(returned)
    every = sorted(replaced + changed)
    found = [*flat.values, *(grown.values[at] for at in added), *(after[at] for at in every)]
    names = [
        *flat.names,
        *(f"argument {grown.names[at] or at}" for at in added),
        *(f"argument {given.names[at] or at}" for at in every),
    ]
    results = []
    for name, each in zip(names, found, strict=True):
        if not isinstance(each, torch.Tensor):
            what = "forward() returned" if name == value_tree.OUTPUT else f"{name} is"
            what = f"{what} {value_tree.described(each)}"
            raise BrokenContract(f"{what}, expected a tensor or a tuple of tensors")
        results.append(each.detach())
    if not results:
        what = f"forward() returned {value_tree.described(returned)} and changes no argument"
        raise BrokenContract(f"{what}, expected a tensor or a tuple of tensors")
    memory = {_memory(values[at]) for at in changed}
    aliased = tuple(at for at in range(len(flat.values)) if _memory(found[at]) in memory)
    contract = Contract(
        given.group, flat.group, tuple(every), tuple(replaced), grown.group, kept, aliased,
        differentiates, tuple(wanting),
    )  # fmt: skip
    return Observed(contract, results, names)


Place = tuple[int, int, tuple[int, ...], tuple[int, ...]] | None
"""The memory of a tensor, and its offset, shape and strides there."""


def places_of(values: Sequence[object]) -> list[Place]:
    """Return where each tensor of a flat list lies."""
    with torch._C.DisableTorchFunction():
        return [
            (_memory(each), int(each.storage_offset()), tuple(each.shape), tuple(each.stride()))
            if isinstance(each, torch.Tensor) and each.layout is torch.strided
            else None
            for each in values
        ]


def moved(before: Sequence[Place], values: Sequence[object], names: Sequence[str]) -> str:
    """Return a complaint about a tensor that lies elsewhere than `before`, or "".

    The tensors of arguments serve many calls, for each of which the judge writes to their memory.
    """
    for at, (place, known) in enumerate(zip(places_of(values), before, strict=True)):
        if place != known:
            name = (names[at] if at < len(names) else "") or at
            return (
                f"forward() gives its argument {name} other memory, shape or strides: write into "
                "it (copy_), and make other views of it without a change in place"
            )
    return ""


@contextlib.contextmanager
def gradients(model: object) -> Iterator[None]:
    """Call a model with gradients inside; those of its parameters are dropped before and after.

    Kept, a returned gradient would be memory that outlives the result, which is then copied.
    """
    model = model.model if isinstance(model, WatchedModel) else model
    parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    for parameter in parameters:
        parameter.grad = None
    try:
        with torch.enable_grad():
            yield
    finally:
        for parameter in parameters:
            parameter.grad = None


def _is(value: object, other: object) -> bool:
    """Return whether a value in a container is still the same one; numbers may be equal."""
    tensors = isinstance(value, torch.Tensor) or isinstance(other, torch.Tensor)
    return value is other or (not tensors and value == other)


def _after(group: Group | None, arguments: Arguments, values: Sequence[object]) -> Sequence[object]:
    """Return the flat list of arguments after a call."""
    return value_tree.values_in(group, arguments, "") if group is not None else values


def _wants_gradient(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _memory(value: object) -> int:
    """Return what tells the memory of a tensor from that of others, also of a fake one."""
    return int(value.untyped_storage()._cdata) if isinstance(value, torch.Tensor) else 0


def _same_bytes(first: object, other: object) -> bool:
    if not isinstance(first, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    if first.is_meta or type(first) is not torch.Tensor:  # a fake one has no bytes
        return True
    # Not seen by a mode that follows what the reference computes.
    with torch._C.DisableTorchFunction():
        one, two = (v.detach().contiguous().reshape(-1).view(torch.uint8) for v in (first, other))
        return torch.equal(one, two)


def copies(inputs: Sequence[object]) -> list[object]:
    """Return the inputs of a call, tensors copied."""
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]

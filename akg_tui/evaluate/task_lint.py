"""Checks that a task rejects kernels that compute nothing.

Runs in the judge, once for each reference, before any candidate. Pure: reads the items
that the reference drew. Tries the known cheap answers: zeros, an input, a constant, an earlier
result, half of the digits, and the result for inputs of which one is altered.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

import torch

from akg_tui.evaluate import correctness
from akg_tui.evaluate.child.tensor_layout import FLOAT8, computable
from akg_tui.evaluate.child.unusual_values import Alteration, InputChange, same_value
from akg_tui.evaluate.correctness import FLOORS, Bound

PERTURBATION = 0.1
ROUNDED = 1e-9
"""The difference of two results in double precision that comes from rounding alone."""
WIDE = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Item:
    """One draw: the arguments, their results, and the results in double precision.

    The reference adds `terms` for an element of a result, and makes `roundings` in half precision.
    `pooled` are the bounds of results with few elements.
    """

    inputs: Sequence[object]
    results: Sequence[torch.Tensor]
    exact: Sequence[torch.Tensor] | None
    terms: int = 1
    roundings: int = 1
    pooled: Sequence[Bound | None] = ()
    _known: dict[float | None, list[Bound]] = field(default_factory=dict, compare=False, repr=False)

    def bounds(self, given: float | None) -> list[Bound]:
        """Return the bounds of a candidate's results; `given` is the task's own tolerance."""
        if given not in self._known:
            self._known[given] = correctness.bounds(
                self.results,
                self.exact,
                given,
                self.terms,
                roundings=self.roundings,
                pooled=self.pooled,
            )
        return self._known[given]


@dataclass(frozen=True)
class Fault:
    """The reason to refuse a task."""

    reason: str
    detail: str = ""
    copied: int | None = None
    """The position of an input that a kernel could return as its result."""


Answer = Callable[[int], Sequence[torch.Tensor] | None]
"""Returns a cheat's answer for the item with a number; None if no answer can be formed."""


def fault(
    items: Sequence[Item],
    again: Sequence[torch.Tensor],
    given: float | None,
    copied: Set[int] = frozenset(),
) -> Fault | None:
    """Return the fault of a task, or None.

    `items` are draws from different seeds, at least two; `again` a second result for
    `items[0]`; `given` the task's own tolerance; `copied` are the positions of inputs of which the
    result is a copy whatever their values are (`is_copy`).
    """
    return (
        _unsteady(items[0], again, given)
        or _undefined(items)
        or _undrawn(items)
        or _too_easy(items, given, copied)
        or _too_loose(items[0], given)
    )


def input_name(position: int, parameters: Sequence[str]) -> str:
    """Return the name of an input for a message: its parameter in quotes, or its position."""
    known = position < len(parameters) and parameters[position].isidentifier()
    return repr(parameters[position]) if known else f"input {position}"


def free_positions(
    free: Sequence[str | int], parameters: Sequence[str], count: int
) -> set[int] | Fault:
    """Return the positions of a task's `free_inputs`, or a fault that names an unknown one."""
    found = set()
    for each in free:
        at = list(parameters).index(each) if isinstance(each, str) and each in parameters else each
        if not isinstance(at, int) or at >= count:
            known = ", ".join(input_name(each, parameters) for each in range(count)) or "none"
            return Fault(
                f"correctness.free_inputs: forward() has no input {each!r}, it has: {known}"
            )
        found.add(at)
    return found


class Effect(enum.IntEnum):
    """How far the results move when one input is altered."""

    NONE = 0  # the same bits
    ROUNDING = 1  # in double precision the same but for rounding
    LITTLE = 2  # within the tolerance
    DECIDES = 3


def effect(
    item: Item, altered: Sequence[torch.Tensor], given: float | None, margin: float = 1.0
) -> Effect:
    """Return what altered inputs of an item have done to its results.

    But for `DECIDES` a kernel may return the item's results for the altered inputs too. An effect
    below `margin` times the tolerance is little.
    """
    held = correctness.widened(item.bounds(given), margin)
    if not correctness.accepts(altered, item.results, item.exact, held):
        return Effect.DECIDES
    same = all(map(same_value, altered, item.results))
    return Effect.NONE if same else Effect.LITTLE


def only_rounds(item: Item, altered: Sequence[torch.Tensor]) -> bool:
    """Return whether results in double precision for altered inputs are an item's but for rounding.

    So a bias that a later subtraction of the mean removes decides nothing.
    """
    if item.exact is None:
        return False
    held = [Bound(ROUNDED)] * len(item.exact)
    return correctness.accepts(altered, item.exact, None, held)


def undecided(change: InputChange, found: Effect, parameters: Sequence[str]) -> Fault:
    """Return the fault of a task with an input that decides nothing."""
    name = input_name(change.argument, parameters)
    free = name.removeprefix("input ").replace("'", '"')
    if change.alteration is Alteration.HALVED:
        return Fault(
            f"half of {name} decides nothing: without a random half of its elements the result "
            "stays within the tolerance, so a kernel could leave them out; draw it so that they "
            "matter (both signs, rows of mixed scale, fewer elements), or declare [correctness] "
            f"free_inputs = [{free}]"
        )
    if found is Effect.NONE:
        return Fault(
            f"{name} decides nothing: with other values the result is the same in every bit, so a "
            "kernel could ignore it; draw it so that it matters, remove it, or declare "
            f"[correctness] free_inputs = [{free}]"
        )
    if found is Effect.ROUNDING:
        return Fault(
            f"{name} decides nothing: with other values the result is the same but for rounding, "
            "so a kernel could ignore it; draw it so that it matters, remove it, or declare "
            f"[correctness] free_inputs = [{free}]"
        )
    return Fault(
        f"{name} decides nothing: with other values the result stays within the tolerance, so a "
        "kernel could ignore it; draw it so that it matters, remove it, or declare [correctness] "
        f"free_inputs = [{free}]"
    )


def _unsteady(item: Item, again: Sequence[torch.Tensor], given: float | None) -> Fault | None:
    held = item.bounds(given)
    found = correctness.compare(again, item.results, None, correctness.loosened(held))
    if not found.message:
        return None
    return Fault(
        "Model is not deterministic: called twice on the same input it gave different "
        f"results ({found.message})",
        found.detail,
    )


def _undefined(items: Sequence[Item]) -> Fault | None:
    for index, results in enumerate(zip(*(item.results for item in items), strict=True)):
        inexact = results[0].dtype in FLOORS and results[0].numel() > 0
        if inexact and all(bool(torch.isnan(result).all()) for result in results):
            return Fault(f"output {index} is NaN everywhere, so nothing can be checked")
    if not any(result.numel() for result in items[0].results):
        return Fault("every output is empty, so nothing can be checked")
    return None


def _undrawn(items: Sequence[Item]) -> Fault | None:
    """Return a fault if the inputs do not depend on the seed."""
    first = items[0].inputs
    if not all(
        same_value(a, b) for item in items[1:] for a, b in zip(first, item.inputs, strict=True)
    ):
        return None
    why = (
        "get_inputs() returns nothing, so a kernel could return what it returned before"
        if not first
        else "get_inputs() returns the same values every time, so a kernel could remember the "
        "answer: draw them from torch's, NumPy's or Python's global generator, and seed none"
    )
    return Fault(why)


def is_copy(item: Item, index: int) -> bool:
    """Return whether each result of an item is, in every bit, its input at a position."""
    return all(same_value(result, item.inputs[index]) for result in item.results)


def _too_easy(
    items: Sequence[Item], given: float | None, copied: Set[int] = frozenset()
) -> Fault | None:
    answers: list[tuple[str, Answer]] = [
        ("zeros", lambda at: [torch.zeros_like(r) for r in items[at].results]),
        ("the mean of the results, everywhere", lambda at: [_mean(r) for r in items[0].results]),
        ("ones", lambda at: [torch.ones_like(r) for r in items[at].results]),
    ]
    for what, answer in answers:
        if all(_passes(answer(at), items[at], given) for at in range(len(items))):
            return Fault(
                f"a kernel would pass that returns {what}: the results must differ from place to "
                "place by more than the tolerance"
            )
    for index in sorted(set(range(len(items[0].inputs))) - copied):
        answer = _passing_on(items, index)
        if all(_passes(answer(at), items[at], given) for at in range(len(items))):
            return Fault(
                f"a kernel would pass that returns input {index} itself: draw inputs of both signs "
                "and of more than one kind, or it is no task",
                copied=index,
            )
    # The first result is correct for the first input.
    if all(_passes(items[0].results, items[at], given) for at in range(1, len(items))):
        return Fault(
            "a kernel would pass that returns its first result, for every other input: the results "
            "hardly depend on the inputs"
        )
    return None


def _too_loose(item: Item, given: float | None) -> Fault | None:
    """Return a fault if the task's tolerance hides half of the digits, or a tenth of the value.

    A bound that the task does not set is derived from roundings: one number of 16 bits, such as the
    mean of a million terms, may lie within it by chance.
    """
    if given is None:
        return None
    # A step of 8 bits is more than a tenth of the value.
    fine = [r for r in item.results if r.dtype in FLOORS and r.dtype not in FLOAT8]
    if not fine:
        return None
    held = item.bounds(given)
    widest = max(bound.tolerance for bound in held)
    weakened = [
        (
            "is wrong by 10 %",
            [
                r * (1 + PERTURBATION) if r.dtype in FLOORS and r.dtype not in FLOAT8 else r
                for r in item.results
            ],
        ),
        ("has only 16 bits of the result", [_halved(r) for r in item.results]),
    ]
    for what, results in weakened:
        if correctness.compare(results, item.results, item.exact, held).message:
            continue
        lost = correctness.compare(results, item.results, None, held).error
        # Small whole numbers lose nothing in 16 bits.
        if lost > max(FLOORS[r.dtype] for r in fine):
            return Fault(
                f"the tolerance of {widest:.2g} is too loose: a kernel would pass that {what} "
                f"(error {lost:.2g})"
            )
    return None


def _passes(answer: Sequence[torch.Tensor] | None, item: Item, given: float | None) -> bool:
    if answer is None:
        return False
    return correctness.accepts(answer, item.results, item.exact, item.bounds(given))


def _passing_on(items: Sequence[Item], index: int) -> Answer:
    def answer(at: int) -> list[torch.Tensor] | None:
        value, results = items[at].inputs[index], items[at].results
        if not isinstance(value, torch.Tensor):
            return None
        fits = all(r.shape == value.shape and r.dtype == value.dtype for r in results)
        return [value] * len(results) if fits else None

    return answer


def _mean(result: torch.Tensor) -> torch.Tensor:
    if result.dtype not in FLOORS or result.numel() == 0:
        return result.reshape(-1)[0].expand(result.shape) if result.numel() else result
    wide = torch.nan_to_num(computable(result)) if not result.is_complex() else result
    return torch.full_like(result, wide.mean().item())


def _halved(result: torch.Tensor) -> torch.Tensor:
    if result.dtype not in WIDE:
        return result
    rounded = result.half().to(result.dtype)
    return torch.where(torch.isfinite(rounded), rounded, result)

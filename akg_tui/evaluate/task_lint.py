"""Checks that a task rejects kernels that compute nothing.

Runs in the judge, once for each reference, before any candidate. Pure: reads the items
that the reference drew. Tries the known cheap answers: zeros, an input, a constant, an earlier
result, and the result for inputs of which one is altered; and whether a task's own check tells
right results from wrong ones.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

import torch

from akg_tui.evaluate import correctness
from akg_tui.evaluate.child.unusual_values import same_value
from akg_tui.evaluate.correctness import FLOORS, Bound, Comparison
from akg_tui.evaluate.protocol.tensor_layout import FLOAT8, computable
from akg_tui.evaluate.protocol.value_tree import NAME
from akg_tui.evaluate.reference_fault import Fault, FaultKind

ROUNDED = 1e-9
"""The difference of two results in double precision that comes from rounding alone."""


@dataclass(frozen=True)
class Item:
    """One draw: the arguments, their results, and the results in double precision.

    The reference adds `terms` for an element of a result. `pooled` are the bounds of results with
    few elements. `check` is the task's own, which judges results in place of a comparison.
    `changed` are the positions of inputs that are results, after all others.
    """

    inputs: Sequence[object]
    results: Sequence[torch.Tensor]
    exact: Sequence[torch.Tensor] | None
    terms: int = 1
    pooled: Sequence[Bound | None] = ()
    changed: Sequence[int] = ()
    check: Callable[[Sequence[torch.Tensor]], Comparison] | None = None
    _known: dict[float | None, list[Bound]] = field(default_factory=dict, compare=False, repr=False)

    def bounds(self, given: float | None) -> list[Bound]:
        """Return the bounds of a candidate's results; `given` is the task's own tolerance."""
        if given not in self._known:
            self._known[given] = correctness.bounds(
                self.results, self.exact, given, self.terms, pooled=self.pooled
            )
        return self._known[given]

    def accepts(self, results: Sequence[torch.Tensor], given: float | None) -> bool:
        """Return whether a candidate's results are accepted."""
        if self.check is not None:
            return not self.check(results).message
        return correctness.accepts(results, self.results, self.exact, self.bounds(given))


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
        _unsound_check(items)
        or _unsteady(items[0], again, given)
        or _undefined(items)
        or _undrawn(items)
        or _too_easy(items, given, copied)
        or _too_loose(items[0], given)
    )


def input_name(position: int, parameters: Sequence[str]) -> str:
    """Return the name of an input for a message: its parameter in quotes, or its position."""
    name = name_of(position, parameters)
    return repr(name) if name else f"input {position}"


def name_of(position: int, parameters: Sequence[str]) -> str:
    """Return the name of the input at a position, or ""."""
    known = position < len(parameters) and NAME.fullmatch(parameters[position])
    return parameters[position] if known else ""


def positions(
    stated: Sequence[str | int], field: str, parameters: Sequence[str], count: int
) -> set[int] | Fault:
    """Return the positions of the inputs that a field of [correctness] names, or a fault.

    The name of a container stands for all that it holds.
    """
    found: set[int] = set()
    for each in stated:
        if isinstance(each, int):
            at = {each} & {*range(count)}
        else:
            inside = re.compile(rf"{re.escape(each)}([.\[].*)?")
            at = {place for place, name in enumerate(parameters) if inside.fullmatch(name)}
        if not at:
            known = ", ".join(input_name(each, parameters) for each in range(count)) or "none"
            why = f"correctness.{field}: forward() has no input {each!r}, it has: {known}"
            return Fault(reason=why, file="task.toml")
        found |= at
    return found


class Effect(enum.IntEnum):
    """How far the results move when one input is altered."""

    NONE = 0  # the same bits
    ROUNDING = 1  # in double precision the same but for rounding
    LITTLE = 2  # within the tolerance
    DECIDES = 3


def effect(item: Item, altered: Sequence[torch.Tensor], given: float | None) -> Effect:
    """Return what altered inputs of an item have done to its results.

    But for `DECIDES` a kernel may return the item's results for the altered inputs too.
    """
    if not item.accepts(altered, given):
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


def undecided(position: int, found: Effect, parameters: Sequence[str]) -> Fault:
    """Return the fault of a task with an input that decides nothing."""
    name = input_name(position, parameters)
    moved = {
        Effect.NONE: "the result is the same in every bit",
        Effect.ROUNDING: "the result is the same but for rounding",
    }.get(found, "the result stays within the tolerance")
    why = (
        f"{name} decides nothing: with other values {moved}, so a kernel could ignore it; draw it "
        "so that it matters, remove it"
    )
    ignored = found in (Effect.NONE, Effect.ROUNDING)
    named = name_of(position, parameters) or position
    return Fault(reason=why, kind=FaultKind.UNDECIDED, input=named, ignored=ignored)


def _unsteady(item: Item, again: Sequence[torch.Tensor], given: float | None) -> Fault | None:
    if item.check is not None:
        found = item.check(again)
    else:
        held = correctness.loosened(item.bounds(given))
        found = correctness.compare(again, item.results, None, held)
    if not found.message:
        return None
    why = (
        "Model is not deterministic: called twice on the same input it gave different "
        f"results ({found.message})"
    )
    return Fault(reason=why, kind=FaultKind.UNSTEADY, detail=found.detail)


def _undefined(items: Sequence[Item]) -> Fault | None:
    for index, results in enumerate(zip(*(item.results for item in items), strict=True)):
        inexact = results[0].dtype in FLOORS and results[0].numel() > 0
        if inexact and all(bool(torch.isnan(result).all()) for result in results):
            return Fault(reason=f"output {index} is NaN everywhere, so nothing can be checked")
    if not any(result.numel() for result in items[0].results):
        return Fault(reason="every output is empty, so nothing can be checked")
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
    return Fault(reason=why)


def _unsound_check(items: Sequence[Item]) -> Fault | None:
    """Return a fault if the task's own check refuses right results, or accepts wrong ones."""
    for check, item in [(item.check, item) for item in items if item.check is not None]:
        own = check(item.results)
        if own.message:
            why = f"the check does not accept the reference's own result: {own.message}"
            return _fault_of_check(own, why, own.detail)
        zeros = [torch.zeros_like(result) for result in item.results]
        wrong = [("zeros", zeros), ("a permuted result", _permuted(item.results))]
        for what, results in wrong:
            same = all(map(same_value, results, item.results))
            if not same and not check(results).message:
                why = f"the check accepts {what} in place of a result, so it checks nothing"
                return _fault_of_check(own, why)
    return None


def _fault_of_check(found: Comparison, why: str, detail: str = "") -> Fault:
    file = found.judged_by.partition(":")[0]
    return Fault(reason=why, kind=FaultKind.CHECK, file=file, detail=detail)


def _permuted(results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return results whose elements have other places; each result has its own order."""
    order = torch.Generator().manual_seed(1)
    return [
        result.reshape(-1)[torch.randperm(result.numel(), generator=order)].reshape(result.shape)
        for result in results
    ]


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
        ("nothing and changes no argument", lambda at: _unchanged(items[at])),
    ]
    for what, answer in answers:
        if all(_passes(answer(at), items[at], given) for at in range(len(items))):
            why = (
                f"a kernel would pass that returns {what}: the results must differ from place to "
                "place by more than the tolerance"
            )
            return Fault(reason=why, kind=FaultKind.TOO_EASY, answer=what)
    for index in sorted(set(range(len(items[0].inputs))) - copied):
        answer = _passing_on(items, index)
        if all(_passes(answer(at), items[at], given) for at in range(len(items))):
            why = (
                f"a kernel would pass that returns input {index} itself: draw inputs of both signs "
                "and of more than one kind, or it is no task"
            )
            what = f"input {index} itself"
            return Fault(reason=why, kind=FaultKind.TOO_EASY, answer=what, copied=index)
    # The first result is correct for the first input.
    if all(_passes(items[0].results, items[at], given) for at in range(1, len(items))):
        why = (
            "a kernel would pass that returns its first result, for every other input: the results "
            "hardly depend on the inputs"
        )
        what = "its first result, for every other input"
        return Fault(reason=why, kind=FaultKind.TOO_EASY, answer=what)
    return None


def _too_loose(item: Item, given: float | None) -> Fault | None:
    """Return a fault if the task's tolerance hides a tenth of the value."""
    # A step of 8 bits is more than a tenth of the value.
    fine = [r.dtype in FLOORS and r.dtype not in FLOAT8 for r in item.results]
    if given is None or not any(fine):
        return None
    wrong = [r * 1.1 if each else r for r, each in zip(item.results, fine, strict=True)]
    held = item.bounds(given)
    if correctness.compare(wrong, item.results, item.exact, held).message:
        return None
    why = f"the tolerance of {given:.2g} is too loose: a kernel would pass that is wrong by 10 %"
    return Fault(reason=why, kind=FaultKind.TOO_LOOSE)


def _passes(answer: Sequence[torch.Tensor] | None, item: Item, given: float | None) -> bool:
    if answer is None:
        return False
    return item.accepts(answer, given)


def _unchanged(item: Item) -> list[torch.Tensor] | None:
    """Return the arguments of a call that changes none; None if other results are wanted."""
    values = [item.inputs[at] for at in item.changed]
    found = [each for each in values if isinstance(each, torch.Tensor)]
    alike = [each.shape for each in found] == [each.shape for each in item.results]
    return found if alike else None


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

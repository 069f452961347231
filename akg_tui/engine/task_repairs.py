"""Examines a draft's reference as the judge does, and mends what can be mended.

`REPAIRS` says what is tried for a fault, by its kind. A repair changes the draft so that it passes,
or raises `ReferenceRefused` with the fault that is left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from akg_tui.core.task import Case
from akg_tui.engine.size_search import SizeSearch
from akg_tui.engine.task_draft import Draft
from akg_tui.evaluate.reference_fault import FaultKind
from akg_tui.problems.module_text import with_normal_draws
from akg_tui.problems.problem import NOT_TAKEN_OVER
from akg_tui.problems.wrapped_models import ALL_TENSORS, place_of, with_factors
from akg_tui.sizing.needs import Answer, in_common
from akg_tui.sizing.size_probe import ReferenceRefused

SMALLER_TRIED = 5
"""How often the sizes of a problem that is no task are lowered to make one of it."""

FACTORS = (16.0, 256.0, 1 / 16, 1 / 256)
"""The factors that are tried in turn for an input that decides less than the tolerance. Powers of
two: the products are exact."""

FACTORS_TRIED = 8
"""How many factors are tried for a problem, of all its inputs together."""


@dataclass(frozen=True)
class Examination:
    """The draft under examination, and the search that has the judge examine it."""

    draft: Draft
    search: SizeSearch

    def run(self) -> None:
        """Examine the reference; mend it where that makes a task of it, or raise its fault."""
        self.mend()
        self._take_band()
        if self.draft.tolerance is not None:
            told = "the problem's own, not the judge's bound"
            self.draft.decide(f"tolerance {self.draft.tolerance:.3g}: {told}")

    def _take_band(self) -> None:
        """Take a tolerance of which a part is absolute, beside the size of the results.

        Where that is too wide, the relative part may be a tolerance, if it is not narrower than the
        judge's own bound: the problem does not mean it to stand alone.
        """
        draft, problem = self.draft, self.draft.problem
        if problem.absolute is None or problem.check or not draft.size:
            return
        relative, own, size = problem.tolerance or 0.0, draft.bound, draft.size
        stated = f"{relative:g} of a value and {problem.absolute:g}"
        for tolerance in (relative + problem.absolute / size, relative):
            if tolerance == relative < own:
                break
            try:
                with draft.unless_refused():
                    draft.tolerance = tolerance
                    if tolerance > own:  # a narrower one hides no more
                        self.examine()
            except ReferenceRefused:
                continue
            draft.decide(f"the problem tolerates {stated}, beside results of {size:.3g}")
            return
        told = f"the problem's tolerance of {stated}, beside results of {size:.3g},"
        draft.decide(f"{told} would hide wrong results: the judge's own bound is used")

    def mend(self) -> None:
        """Examine the reference, and try the repairs for its fault."""
        try:
            self.examine()
            return
        except ReferenceRefused as error:
            refused = left = error
        for repair in REPAIRS.get(refused.fault.kind, ()):
            try:
                with self.draft.unless_refused():
                    repair(self, refused)
                return
            except ReferenceRefused as error:
                left = error
        raise left

    def examine(self, ignoring: Iterable[str | int] = ()) -> None:
        """Examine the draft as it is; leave out cases that are refused if others are not.

        The inputs `ignoring` need not matter.
        """
        draft = self.draft
        task = draft.task()
        free = (*task.correctness.free_inputs, *ignoring)
        # Which dimensions can differ is the judge's own question: a call of the reference for each.
        correctness = replace(task.correctness, free_inputs=free, inputs={}, fixed_shape=True)
        task = replace(task, correctness=correctness)
        found: list[Answer] = []
        kept: list[Case] = []
        refused: list[tuple[Case, ReferenceRefused]] = []
        for case in task.cases or (None,):
            changed = replace(task.reference, constants=task.constants(case))
            try:
                found.append(self.search.examine(replace(task, reference=changed, cases=())))
            except ReferenceRefused as error:
                if case is None or error.fault.kind is FaultKind.TOO_LOOSE:
                    raise
                refused.append((case, error))
            else:
                kept += [case] if case is not None else []
        if not found:
            raise refused[0][1]
        for each, why in refused:
            draft.decide(f"case {each.name} is left out: {why}")
        if refused:
            draft.keep_cases(kept)
        draft.inputs = in_common([each.structures for each in found])
        draft.contract = found[0].contract
        draft.size, draft.bound = max(e.size for e in found), max(e.bound for e in found)


def _use_own_bound(at: Examination, refused: ReferenceRefused) -> None:
    """Judge by the judge's own bound, not by the problem's tolerance."""
    draft = at.draft
    if draft.tolerance is None:
        raise refused
    told = f"the problem's tolerance of {draft.tolerance:g}"
    draft.decide(f"{told} would hide wrong results: the judge's own bound is used")
    draft.tolerance = None
    at.mend()


def _use_no_check(at: Examination, refused: ReferenceRefused) -> None:
    """Compare results with the reference's, because the problem's own check is unsound."""
    if not at.draft.check:
        raise refused
    at.draft.decide(f"{NOT_TAKEN_OVER}; {refused.fault.reason}")
    at.draft.check = ""
    at.mend()


def _draw_normal(at: Examination, refused: ReferenceRefused) -> None:
    """Draw inputs of both signs."""
    reference = with_normal_draws(at.draft.problem.reference)
    if reference == at.draft.problem.reference:
        raise refused
    what = "get_inputs() draws torch.randn, not torch.rand, whose numbers are never negative"
    _examine_changed(at, refused, reference, what)


def _multiply_all(at: Examination, refused: ReferenceRefused) -> None:
    """Multiply all inputs.

    A ReLU of numbers that are nearly all below zero gives zeros; of larger ones it does not.
    """
    for factor in FACTORS:
        reference = with_factors(at.draft.problem.reference, {ALL_TENSORS: factor})
        with contextlib.suppress(ReferenceRefused), at.draft.unless_refused():
            what = f"the inputs are multiplied by {factor:g}"
            _examine_changed(at, refused, reference, what)
            return
    raise refused


def _examine_changed(at: Examination, refused: ReferenceRefused, reference: str, what: str) -> None:
    answer = refused.fault.answer
    at.draft.change_reference(reference, f"{what}: a kernel would pass that returns {answer}")
    try:
        at.examine()
    except ReferenceRefused:
        raise refused from None


def _take_smaller(at: Examination, refused: ReferenceRefused) -> None:
    """Find smaller sizes.

    The mean of a million random numbers is nearly that of half of them; of a hundred it is not.
    Sizes near the limit may fail with other weights. So the next smaller sizes must pass too, and
    they are the result.
    """
    draft = at.draft
    before, passed = draft.values, False
    for _ in range(SMALLER_TRIED if draft.wanted.fit and not draft.cases else 0):
        found = at.search.smaller(draft.values)
        if found is None:
            break
        draft.values = found
        passed_before, passed = passed, True
        try:
            at.examine()
        except ReferenceRefused:
            passed = False
        if passed and passed_before:
            changed = {n: v for n, v in found.items() if v != before.get(n)}
            undecided = refused.fault.kind is FaultKind.UNDECIDED
            alike = "some would decide nothing" if undecided else "all is alike"
            told = f"smaller still: {draft.changes(changed)}; with more numbers {alike}"
            draft.decide(told)
            return
    raise refused


def _settle_inputs(at: Examination, refused: ReferenceRefused) -> None:
    """Make the inputs matter, or declare those free that change nothing.

    One that cancels, such as a bias before a softmax, changes the rounding only and is free too.
    One that changes the results within the tolerance, as one of a million numbers of a mean, is not
    declared: a kernel could then return a constant.
    """
    little = _deciding_little(at, refused)
    if not little:
        return
    refused = next(iter(little.values()))
    with contextlib.suppress(ReferenceRefused), at.draft.unless_refused():
        _take_smaller(at, refused)
        return
    _multiply(at, refused, list(little))


def _deciding_little(
    at: Examination, refused: ReferenceRefused
) -> Mapping[str | int, ReferenceRefused]:
    """Return the faults of the inputs that decide too little; declare the others free."""
    draft = at.draft
    little: dict[str | int, ReferenceRefused] = {}
    while len(little) < FACTORS_TRIED:
        name = refused.fault.input
        if name is None or name in draft.free:
            raise refused
        if refused.fault.ignored:
            draft.free = (*draft.free, name)
            draft.decide(
                f"input {name} changes no result here: a kernel may ignore it (free_inputs)"
            )
        else:
            little[name] = refused
        try:
            at.examine(ignoring=little)
            break
        except ReferenceRefused as found:
            if found.fault.kind is not FaultKind.UNDECIDED:
                raise
            refused = found
    return little


def _multiply(at: Examination, refused: ReferenceRefused, little: Sequence[str | int]) -> None:
    """Multiply the inputs that decide too little, so that each decides.

    Attention of numbers near zero is a mean of the values: the keys decide nothing. With larger
    ones they do, and a kernel that ignores them is found out.
    """
    draft, base = at.draft, at.draft.problem
    names: dict[int, str | int] = {}
    factors: dict[int, float] = {}

    def raise_factor(name: str | int | None) -> bool:
        """Choose the next factor of an input; return whether there is one."""
        place = place_of(base.reference, name) if isinstance(name, str) else name
        if place is None:
            return False
        left = FACTORS[FACTORS.index(factors[place]) + 1 :] if place in factors else FACTORS
        if left:
            names[place], factors[place] = name or place, left[0]
        return bool(left)

    for name in little:
        raise_factor(name)
    for _ in range(FACTORS_TRIED):
        draft.problem = base
        listed = ", ".join(f"input {names[place]} x {each:g}" for place, each in factors.items())
        told = "as drawn they change the results by less than the tolerance"
        told = f"some inputs are multiplied: {listed}; {told}"
        draft.change_reference(with_factors(base.reference, factors), told)
        try:
            at.examine()
            return
        except ReferenceRefused as error:
            # Values so large that an input changes nothing must not make it a free one.
            fault = error.fault
            undecided = fault.kind is FaultKind.UNDECIDED and not fault.ignored
            if not undecided or not raise_factor(fault.input):
                break
    raise refused


Repair = Callable[[Examination, ReferenceRefused], None]

REPAIRS: Mapping[FaultKind, Sequence[Repair]] = {
    FaultKind.TOO_LOOSE: (_use_own_bound,),
    FaultKind.CHECK: (_use_no_check,),
    FaultKind.TOO_EASY: (_draw_normal, _take_smaller, _multiply_all),
    FaultKind.UNDECIDED: (_settle_inputs,),
}
"""The repairs by kind of fault, tried in this order until one passes."""

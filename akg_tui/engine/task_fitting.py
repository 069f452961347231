"""Finds the sizes and cases with which a draft fits this machine, and refuses what can't.

Decides by the figures of `size_search`; each decision is told in one line.
"""

from __future__ import annotations

from collections.abc import Mapping

from akg_tui.engine.size_search import FIT_CALL_S, HOPELESS_SHARE, SizeSearch, is_too_large
from akg_tui.engine.task_draft import Draft
from akg_tui.evaluate.targets.cpu import caches
from akg_tui.problems.input_groups import FUNCTIONS
from akg_tui.problems.kernelbench import DRAWN
from akg_tui.problems.module_text import with_named_numbers
from akg_tui.sizing.needs import Needs
from akg_tui.sizing.size_probe import ReferenceRefused

SLOW_CALL_S = 1.0
"""An evaluation calls the reference hundreds of times, so a longer call is told."""


class TaskFitting:
    """Fits one draft; raises `BadTask` if it can't be used, `ReferenceRefused` for its faults."""

    def __init__(self, draft: Draft, search: SizeSearch) -> None:
        self._draft = draft
        self._search = search
        self._fits = draft.wanted.fit

    def fit(self) -> None:
        """Leave out cases that do not fit, or find the sizes of the task without cases."""
        self._fit_cases()
        self._search.forget_slow()
        if not self._draft.cases:
            self._fit_memory()
            self._fit_time()

    def _fit_cases(self) -> None:
        """Leave out the cases that do not fit or are refused; fewer than two are none."""
        draft = self._draft
        fitting = []
        refused: ReferenceRefused | None = None
        for case in draft.cases:
            try:
                why, needs = self._does_not_fit({**draft.values, **case.sizes})
            except ReferenceRefused as error:
                refused = refused or error
                why, needs = str(error), None
            if why:
                draft.decide(f"case {case.name} is left out: {why}")
            else:
                fitting.append(case)
                told = f", {_time(needs)} a call" if needs is not None else ""
                sizes = ", ".join(f"{name} = {value:g}" for name, value in case.sizes.items())
                draft.decide(f"case {case.name}: {sizes}{told}")
        if refused and not fitting:
            raise refused
        draft.keep_cases(fitting)

    def _does_not_fit(self, values: Mapping[str, int | float]) -> tuple[str, Needs | None]:
        """Return why a case does not fit, or "", and its needs."""
        search, needs = self._search, None
        try:
            needs = search.needs(values)
        except ReferenceRefused as error:
            if is_too_large(error) and not search.is_faked:
                return _need(None), None  # that was a real call, which else shows better why
        try:
            if needs is None or needs.held <= search.limit:
                needs = search.measured(values)
        except ReferenceRefused as error:
            if not is_too_large(error):
                raise
            return _need(None), None
        self._check_usable(needs)
        if needs.held > search.limit:
            return _need(needs), needs
        limit_s = 2 * FIT_CALL_S if self._fits else self._draft.task().timing.call_timeout_s
        if (needs.call_s or 0.0) > limit_s:
            return f"one call takes {_time(needs)}", needs
        return "", needs

    def _fit_memory(self) -> None:
        draft, search = self._draft, self._search
        try:
            needs = search.needs(draft.values)
        except ReferenceRefused as error:
            if not is_too_large(error):
                raise
            needs = None
        if needs is not None:
            self._check_usable(needs)
            search.original = needs
            draft.tell(f"{_told(needs)}; {_size(search.free)} free")
            if needs.held <= (search.fit_limit if self._fits else search.limit):
                return
        found = search.fitting_memory(draft.values)
        hopeless = needs is None or needs.held > search.free * HOPELESS_SHARE
        if self._fits:
            if found is None and self._name_numbers():
                found = search.fitting_memory(draft.values)
            if found is None:
                if not hopeless:
                    search.measured(draft.values)  # it may fail for another reason
                raise draft.refusal(f"{_need(needs)}, and no sizes were found that fit")
            draft.values = found
        elif hopeless:
            stated = {n: v for n, v in (found or {}).items() if v != draft.values.get(n)}
            sizes = ",".join(f"{name}={value}" for name, value in stated.items())
            remedy = f"use --fit, or --sizes {sizes}" if sizes else "no size at its top level helps"
            free = f"this machine has {_size(search.free)} free"
            raise draft.refusal(f"{_need(needs)}, {free}: {remedy}")
        else:
            draft.decide(
                "that is more than a twelfth of what a process may use: if an evaluation runs out "
                "of memory, use --fit"
            )

    def _fit_time(self) -> None:
        draft, search = self._draft, self._search
        if self._fits:
            needs = self._shorten()
            stated = {n: each.value for n, each in draft.known.items()} | draft.stated
            changed = {n: v for n, v in draft.values.items() if v != stated[n]}
            said = f"fitted: {draft.changes(changed)}" if changed else "it fits as it is"
            draft.decide(f"{said}; {_size(needs.held)}, {_time(needs)} a call")
            if changed and search.original is not None:
                known = search.needs(draft.values) if search.is_faked else needs
                stated_regime, regime = _regime(search.original), _regime(known)
                draft.decide(f"as stated: {stated_regime}; as fitted: {regime}")
        else:
            needs = search.measured(draft.values)
        self._check_usable(needs)
        call_s = needs.call_s or 0.0
        limit = draft.task().timing.call_timeout_s
        if call_s > limit:
            remedy = "no size at its top level helps" if self._fits else "use --fit"
            raise draft.refusal(f"one call takes {call_s:.1f} s, at most {limit:g} s: {remedy}")
        if self._fits and call_s > 2 * FIT_CALL_S:
            draft.decide("no number shortens a call further")
        elif not self._fits:
            slow = ": an evaluation makes hundreds, see --fit" if call_s > SLOW_CALL_S else ""
            draft.decide(f"one call takes {_time(needs)}{slow}")

    def _shorten(self) -> Needs:
        """Find sizes for which a call is short, if need be of numbers that had no names."""
        draft, search = self._draft, self._search
        try:
            draft.values, needs = search.fitting_time(draft.values)
            if (needs.call_s or 0.0) <= 2 * FIT_CALL_S or not self._name_numbers():
                return needs
        except ReferenceRefused as error:
            if not is_too_large(error) or not self._name_numbers():
                raise
        draft.values, needs = search.fitting_time(draft.values)
        return needs

    def _name_numbers(self) -> bool:
        """Make sizes of the numbers in the functions that draw inputs; return whether any are."""
        functions = ("get_inputs", "get_init_inputs", DRAWN, *FUNCTIONS)
        reference, named = with_named_numbers(self._draft.problem.reference, functions)
        if named:
            told = f"numbers of get_inputs() got names: {', '.join(named)}"
            self._draft.change_reference(reference, told)
        return bool(named)

    def _check_usable(self, needs: Needs) -> None:
        """Refuse what is empty."""
        draft = self._draft
        if needs.empty:
            name = "forward" if needs.empty.of == "output" else "get_inputs"
            raise draft.refusal(str(needs.empty), draft.line_of(name))


def _need(needs: Needs | None) -> str:
    if needs is None:
        return "a call needs more memory or time than it may use"
    others = needs.results + needs.weights
    if needs.peak > 2 * (needs.inputs + others):
        return f"its tensors need {_size(needs.peak)} at once"
    told = f"get_inputs() needs {_size(needs.inputs)}"
    return told if others < needs.inputs / 8 else f"{told} and the rest {_size(others)}"


def _told(needs: Needs) -> str:
    results = "not known" if needs.failed else _size(needs.results)
    parts = [f"inputs {_size(needs.inputs)}", f"results {results}"]
    if needs.weights:
        parts.append(f"weights {_size(needs.weights)}")
    if needs.peak > needs.inputs + needs.results + needs.weights:
        parts.append(f"{_size(needs.peak)} at once")
    return ", ".join(parts)


def _regime(needs: Needs) -> str:
    """Return what bounds the time of a call: its intensity, and the cache that holds its data."""
    found = caches()
    level = next((name for name, size in found.items() if needs.data <= size), "")
    where = f" in {level}" if level else f" beyond {list(found)[-1]}" if found else ""
    told = f"{_size(needs.data)} of data{where}"
    return f"{needs.intensity:.3g} operations a byte, {told}" if needs.intensity else told


def _time(needs: Needs) -> str:
    seconds = needs.call_s or 0.0
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"

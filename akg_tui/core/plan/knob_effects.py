"""The results of a search over declared knobs: the effect of each value, the untried settings.

Pure. The setting of an attempt is that of the kernel it was made from, with the values that the
text of its item states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from akg_tui.core.kernel.knobs import BadKnob, Knob, Value, find_knobs, read_setting, setting_key
from akg_tui.core.phases import Verdict
from akg_tui.core.state import RunState


class ValueEffect(NamedTuple):
    """A value of a knob: how often it was measured and how often it failed, and the ratios over
    the seed of its attempts: the geometric mean and the best; None without a time.
    """

    value: Value
    tried: int
    failed: int
    mean: float | None
    best: float | None


class KnobEffect(NamedTuple):
    """A knob with its values. `importance` is the share of the variance of the logarithms of the
    ratios that its values explain alone (eta squared of a one-way analysis), 0 to 1; None with
    fewer than three timed attempts. The shares of several knobs need not add up to 1.
    """

    name: str
    importance: float | None
    values: tuple[ValueEffect, ...]


class Search(NamedTuple):
    """The knobs, the most important first; `settings` are all that the declarations allow, `tried`
    the different ones measured. `best_at` is the number of measured attempts, the seed included, up
    to the best, and `measured` their number.
    """

    knobs: tuple[KnobEffect, ...]
    settings: int
    tried: int
    best_at: int
    measured: int


def search_of(state: RunState, seed: str) -> Search | None:
    """Return what the run has found about the knobs that the text of its `seed` declares.

    None if it declares none, or none that can be read.
    """
    try:
        knobs = find_knobs(seed.split("\n"))
    except BadKnob:
        return None
    if not knobs or not state.attempts:
        return None
    tries = _tries(state, knobs)
    effects = [_effect(knob, tries) for knob in knobs]
    effects.sort(key=lambda each: -(each.importance or 0.0))
    ratios = [ratio or 0.0 for _, ratio in tries]
    return Search(
        tuple(effects),
        settings=math.prod(len(knob.choices) for knob in knobs),
        tried=len({setting_key(setting) for setting, _ in tries}),
        best_at=1 + max(range(len(ratios)), key=ratios.__getitem__),
        measured=len(tries),
    )


Tries = Sequence[tuple[Mapping[str, Value], float | None]]


def _tries(state: RunState, knobs: Sequence[Knob]) -> Tries:
    """Return the setting of each attempt with its ratio over the seed; None for a FAIL."""
    first = {knob.name: knob.value for knob in knobs}
    settings = {state.attempts[0].blob: first}
    found: list[tuple[Mapping[str, Value], float | None]] = []
    for attempt in state.attempts:
        stated = read_setting(state.item(attempt.item).text) if attempt.item else {}
        base = settings.get(attempt.incumbent, first)
        setting = base | {name: value for name, value in stated.items() if name in first}
        settings[attempt.blob] = setting
        failed = attempt.verdict is Verdict.FAIL
        found.append((setting, None if failed else attempt.over_seed))
    return found


def _effect(knob: Knob, tries: Tries) -> KnobEffect:
    logs: dict[str, list[float]] = {repr(value): [] for value in knob.choices}
    failed = dict.fromkeys(logs, 0)
    for setting, ratio in tries:
        key = repr(setting[knob.name])
        if ratio is None:
            failed[key] = failed.get(key, 0) + 1
        else:
            logs.setdefault(key, []).append(math.log(ratio))
    values: list[ValueEffect] = []
    for value in knob.choices:
        here, lost = logs[repr(value)], failed[repr(value)]
        mean = math.exp(sum(here) / len(here)) if here else None
        best = math.exp(max(here)) if here else None
        values.append(ValueEffect(value, len(here) + lost, lost, mean, best))
    return KnobEffect(knob.name, _explained(list(logs.values())), tuple(values))


def _explained(groups: Sequence[Sequence[float]]) -> float | None:
    """Return the sum of squares between the groups over the total one, of at least three values."""
    every = [value for group in groups for value in group]
    if len(every) < 3:
        return None
    mean = sum(every) / len(every)
    total = sum((value - mean) ** 2 for value in every)
    if not total:
        return None
    between = sum(len(g) * (sum(g) / len(g) - mean) ** 2 for g in groups if g)
    return min(1.0, between / total)

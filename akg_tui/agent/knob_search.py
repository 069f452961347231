"""The search over declared knobs: which settings to measure next, from those that are measured.

Optuna's TPE sampler proposes. Used by the sweep agent, over the rounds of a run, and by the tool
`sweep_kernel`, inside one item. Measures nothing and reads no kernel.
"""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from akg_tui.core.kernel.knobs import Knob, Value

FAILED_LOG_RATIO = -2.0  # a failure counts as a kernel e² times slower than the seed
STARTUP_TRIALS = 4  # TPE samples at random until it has this many trials
ASKS_PER_SETTING = 40  # TPE repeats settings in small discrete spaces; then they are enumerated
MAX_ENUMERATED = 20_000


class Trial(Struct, frozen=True):
    """A measured setting. `over_seed` is its speed over the seed's; None after a failure."""

    setting: dict[str, Value]
    over_seed: float | None


def settings_in_space(knobs: Sequence[Knob]) -> int:
    """Return the number of combinations of all knobs' choices."""
    return math.prod(len(knob.choices) for knob in knobs)


def every_setting(knobs: Sequence[Knob]) -> Iterator[dict[str, Value]]:
    """Yield all settings, in the order of the choices; the last knob changes first."""
    names = [knob.name for knob in knobs]
    for values in itertools.product(*(knob.choices for knob in knobs)):
        yield dict(zip(names, values, strict=True))


def _key(knobs: Sequence[Knob], setting: Mapping[str, Value]) -> tuple[Value, ...]:
    return tuple(setting.get(knob.name, knob.value) for knob in knobs)


def propose_settings(
    knobs: Sequence[Knob],
    trials: Sequence[Trial],
    avoided: Sequence[Mapping[str, Value]],
    *,
    count: int,
    seed: int,
    first: Sequence[Mapping[str, Value]] = (),
) -> list[dict[str, Value]]:
    """Return up to `count` settings that were neither tried nor ruled out; fewer if none is left.

    Of `first`, those that set each knob to one of its choices are proposed before all others.

    The objective is the logarithm of the speed over the seed (Bergstra et al. 2011 for
    TPE; multivariate, because knobs interact).
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # Indices, not values: Optuna keeps categories by equality, where 1 == True == 1.0.
    space: dict[str, optuna.distributions.BaseDistribution] = {
        knob.name: optuna.distributions.CategoricalDistribution(tuple(range(len(knob.choices))))
        for knob in knobs
    }
    experimental = optuna.exceptions.ExperimentalWarning
    with warnings.catch_warnings(action="ignore", category=experimental):
        sampler = optuna.samplers.TPESampler(
            seed=seed + len(trials), multivariate=True, n_startup_trials=STARTUP_TRIALS
        )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    seen = {_key(knobs, {})}
    for trial in trials:
        seen.add(_key(knobs, trial.setting))
        indices = _indices(knobs, trial.setting)
        if indices is not None:
            value = FAILED_LOG_RATIO if trial.over_seed is None else math.log(trial.over_seed)
            study.add_trial(
                optuna.trial.create_trial(params=indices, distributions=space, value=value)
            )

    def candidates() -> Iterator[dict[str, Value]]:
        for known in first:
            if _indices(knobs, known) is not None:
                yield {knob.name: known[knob.name] for knob in knobs}
        for _ in range(count * ASKS_PER_SETTING):
            asked = study.ask(space)
            yield {knob.name: knob.choices[asked.params[knob.name]] for knob in knobs}
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
        rest = list(itertools.islice(every_setting(knobs), MAX_ENUMERATED))
        random.Random(seed).shuffle(rest)
        yield from rest

    proposed: list[dict[str, Value]] = []
    for setting in candidates():
        key = _key(knobs, setting)
        ruled_out = any(rule and rule.items() <= setting.items() for rule in avoided)
        if key not in seen and not ruled_out:
            seen.add(key)
            proposed.append(setting)
            if len(proposed) == count:
                break
    return proposed


def _indices(knobs: Sequence[Knob], setting: Mapping[str, Value]) -> dict[str, int] | None:
    """Return each knob's choice as an index; None if the setting does not fit the knobs."""
    try:
        return {knob.name: knob.choices.index(setting[knob.name]) for knob in knobs}
    except (KeyError, ValueError):
        return None

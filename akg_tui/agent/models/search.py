"""Which knob settings to try next, from those that were measured: Optuna's TPE sampler.

Deterministic: the same knobs, trials and seed give the same proposals.
"""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Mapping, Sequence

from msgspec import Struct

from akg_tui.agent.models.knobs import Knob
from akg_tui.core.setting import Value

FAILED_LOG_RATIO = -2.0  # a failure counts as a kernel e² times slower than the seed
STARTUP_TRIALS = 4  # TPE samples at random until this many trials are known
ASKS_PER_SETTING = 40  # TPE repeats itself in small discrete spaces; ask again, then enumerate
MAX_ENUMERATED = 20_000


class Trial(Struct, frozen=True):
    """A measured setting. `over_seed` is its speed over the seed's; None when it failed."""

    setting: dict[str, Value]
    over_seed: float | None


def settings_in_space(knobs: Sequence[Knob]) -> int:
    """How many settings the knobs span."""
    return math.prod(len(knob.choices) for knob in knobs)


def _key(knobs: Sequence[Knob], setting: Mapping[str, Value]) -> tuple[Value, ...]:
    return tuple(setting.get(knob.name, knob.value) for knob in knobs)


def _ruled_out(setting: Mapping[str, Value], avoided: Sequence[Mapping[str, Value]]) -> bool:
    return any(
        rule and all(setting.get(name) == value for name, value in rule.items()) for rule in avoided
    )


def propose_settings(
    knobs: Sequence[Knob],
    trials: Sequence[Trial],
    avoided: Sequence[Mapping[str, Value]],
    *,
    count: int,
    seed: int,
) -> list[dict[str, Value]]:
    """Up to `count` settings that were not tried and are not ruled out; fewer when none is left.

    The objective is the logarithm of the speed over the seed (Bergstra et al. 2011 for
    TPE; multivariate, because knobs interact).
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    names = [knob.name for knob in knobs]
    # Indices, not values: Optuna keeps categories by equality, where 1 == True == 1.0.
    space: dict[str, optuna.distributions.BaseDistribution] = {
        knob.name: optuna.distributions.CategoricalDistribution(tuple(range(len(knob.choices))))
        for knob in knobs
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed + len(trials), multivariate=True, n_startup_trials=STARTUP_TRIALS
        )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    current = {knob.name: knob.value for knob in knobs}
    seen = {_key(knobs, current)}
    for trial in trials:
        seen.add(_key(knobs, trial.setting))
        indices = _indices(knobs, trial.setting)
        if indices is not None:
            value = FAILED_LOG_RATIO if trial.over_seed is None else math.log(trial.over_seed)
            study.add_trial(
                optuna.trial.create_trial(params=indices, distributions=space, value=value)
            )
    proposed: list[dict[str, Value]] = []

    def take(setting: dict[str, Value]) -> None:
        key = _key(knobs, setting)
        if key not in seen and not _ruled_out(setting, avoided):
            seen.add(key)
            proposed.append(setting)

    for _ in range(count * ASKS_PER_SETTING):
        if len(proposed) == count:
            return proposed
        asked = study.ask(space)
        take({k.name: k.choices[asked.params[k.name]] for k in knobs})
        study.tell(asked, state=optuna.trial.TrialState.FAIL)
    for values in _unseen_order(knobs, seed):
        if len(proposed) == count:
            break
        take(dict(zip(names, values, strict=True)))
    return proposed


def _indices(knobs: Sequence[Knob], setting: Mapping[str, Value]) -> dict[str, int] | None:
    """Each knob's choice as an index; None when the setting is from other declarations."""
    indices: dict[str, int] = {}
    for knob in knobs:
        value = setting.get(knob.name)
        if value is None or value not in knob.choices:
            return None
        indices[knob.name] = knob.choices.index(value)
    return indices


def _unseen_order(knobs: Sequence[Knob], seed: int) -> list[tuple[Value, ...]]:
    space = itertools.product(*(knob.choices for knob in knobs))
    settings = list(itertools.islice(space, MAX_ENUMERATED))
    random.Random(seed).shuffle(settings)
    return settings

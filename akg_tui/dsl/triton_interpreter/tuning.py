"""Autotuners without a device: the judge says which configuration each launch takes.

On a GPU any configuration may be the fastest, so each is verified. The tuner's own hooks and
pruning are used, and as on a GPU the kernel runs once more before its first launch of a key.
"""

# Triton has no types.
# mypy: disable-error-code="import-untyped"

from __future__ import annotations

from typing import Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import InterpreterError

from akg_tui.dsl.interpretation import (
    CONFIGURATIONS,
    MOST_CONFIGURATIONS,
    FailedAssertion,
    NoValidLaunch,
)
from akg_tui.dsl.triton_interpreter import kernel_language


def correct_tuners() -> None:
    """Have tuners take the configuration that the judge names, also those of libraries."""
    Autotuner.run = tuned
    Autotuner.__init_subclass__ = classmethod(_of_a_library)
    kernel_language.refuse_others()


def _of_a_library(tuner: Any) -> None:
    """Replace a `run` of its own that never gets to Triton's: it would choose by a clock."""
    run = vars(tuner).get("run")
    if run is not None and "__class__" not in run.__code__.co_freevars:  # no `super()`
        tuner.run = tuned


def tuned(tuner: Any, *args: Any, **kwargs: Any) -> Any:
    """Launch the kernel with the configuration `CONFIGURATIONS.number` of those left by pruning."""
    with kernel_language.LAUNCHING:
        return _tuned(tuner, args, kwargs)


def _tuned(tuner: Any, args: Any, kwargs: Any) -> Any:
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    name = tuner.base_fn.__name__
    several = len(tuner.configs) > 1
    left = tuner.prune_configs(kwargs) if several else tuner.configs
    configs = _different(left)[:MOST_CONFIGURATIONS]
    if not configs:
        raise NoValidLaunch(f"the pruning of the autotuner of {name} leaves no configuration")
    for config in configs:
        if again := sorted(kwargs.keys() & config.kwargs.keys()):
            what = f"the launch of {name} passes {', '.join(again)}, which its autotuner chooses"
            raise NoValidLaunch(what)
    CONFIGURATIONS.most = max(CONFIGURATIONS.most, len(configs))
    first = CONFIGURATIONS.number % len(configs)
    refused = ""
    for config in configs[first:] + configs[:first]:
        if len(configs) > 1:
            CONFIGURATIONS.taken[name] = words(config)
        try:
            return _launch(tuner, config, args, kwargs, several=several)
        except InterpreterError as error:
            cause = innermost(error)
            # Of the errors of a kernel the tuner passes over a failed assertion only.
            if not several or not isinstance(cause, FailedAssertion):
                raise
            refused = refused or f"{words(config)}: {cause}"
    what = f"no configuration of the autotuner of {name} has a valid launch"
    raise NoValidLaunch(f"{what}: {refused}")


def _launch(tuner: Any, config: Any, args: Any, kwargs: Any, *, several: bool) -> Any:
    full = {**tuner.nargs, **kwargs, **config.all_kwargs()}
    known = tuner.cache if isinstance(tuner.cache, dict) else vars(tuner).setdefault("_known", {})
    if several and (key := _key(tuner, kwargs)) not in known:
        known[key] = config
        _try(tuner, config, args, kwargs, full)
        tuner.pre_hook(full, reset_only=True)
    tuner.best_config = config
    if config.pre_hook is not None:
        config.pre_hook(full)
    return tuner.fn.run(*args, **kwargs, **config.all_kwargs())


def _try(tuner: Any, config: Any, args: Any, kwargs: Any, full: dict[str, Any]) -> None:
    """Run the kernel as the tuner does to time it, with its hooks."""
    if config.pre_hook is not None:
        config.pre_hook(full)
    tuner.pre_hook(full)
    try:
        tuner.fn.run(*args, **kwargs, **config.all_kwargs())
    except Exception as error:
        tuner.post_hook(full, exception=error)
        raise
    tuner.post_hook(full, exception=None)


def _key(tuner: Any, kwargs: Any) -> tuple[Any, ...]:
    given = {k: v for k, v in {**tuner.nargs, **kwargs}.items() if k in tuner.arg_names}
    types = [str(each.dtype) for each in given.values() if hasattr(each, "dtype")]
    return (*(given[key] for key in tuner.keys if key in given), *types)


def _different(configs: Any) -> list[Any]:
    """Return configurations that differ for the interpreter: warps and stages are the same."""
    found: dict[str, Any] = {}
    for config in configs:
        found.setdefault(f"{sorted(config.kwargs.items())} {config.pre_hook}", config)
    return list(found.values())


def words(config: Any) -> str:
    """Return the parameters of a configuration."""
    return ", ".join(f"{name}={value}" for name, value in config.kwargs.items()) or "without names"


def innermost(error: BaseException) -> BaseException:
    """Return the error inside a kernel, in whichever function it was raised."""
    while isinstance(error, InterpreterError) and error.__cause__ is not None:
        error = error.__cause__
    return error

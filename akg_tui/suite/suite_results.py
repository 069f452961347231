"""The figures of a suite, from the journals of its runs: by task, and over all tasks of an agent.

`best_of` gives each task's ratios. An interval of a geometric mean is a bootstrap over the tasks,
with a fixed seed, so that equal suites give equal results. Writes nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.core.measurement import Measurement
from akg_tui.core.state import RunState
from akg_tui.core.summary import Ratios, best_of, summarize, verdict_counts
from akg_tui.core.verdict import is_proved
from akg_tui.store.errors import StoreError
from akg_tui.suite.suite_record import Entry, Suite, lost_to_machine

SCHEMA = 1
FAST_AT = (1.0, 1.5, 2.0)
"""The thresholds p of fast_p."""

RESAMPLES = 2_000
SEED = 20_250_214
CONFIDENCE = 0.95


class TaskResult(Struct, frozen=True, kw_only=True):
    """What became of one task with one agent. Ratios above 1 are faster than what they are over.

    `state`: `correct` (a verified kernel), `failed` (the run ended without one), `refused` (it
    could not be run), `open` (its run has not ended). Times are in seconds, cost in US dollars,
    None without a price. `roofline` is the best kernel's share of the memory bound. `gain` is the
    verified gain (`doublings`) over the seed, or over eager where the agent wrote the seed.
    `machines` describes what measured. `moved`: the run went on on another machine; then
    `over_compile` is None, because it is a product of measurements that one machine must have made.
    `not_proved` names the ratios, as ``eager``, of which neither faster nor slower is proved.
    """

    task: str
    agent: str
    state: str
    why: str = ""
    over_seed: float | None = None
    over_eager: float | None = None
    over_compile: float | None = None
    fresh: bool = False
    rounds: int = 0
    verdicts: dict[str, int] = {}
    worked_s: float = 0.0
    tokens: int = 0
    cost_usd: float | None = None
    roofline: float | None = None
    gain: float = 0.0
    machines: tuple[str, ...] = ()
    moved: bool = False
    run: str = ""
    not_proved: tuple[str, ...] = ()


class Mean(Struct, frozen=True):
    """A geometric mean over `count` tasks, with its bootstrap interval."""

    mean: float
    low: float
    high: float
    count: int


class AgentResult(Struct, frozen=True, kw_only=True):
    """The figures of one agent over its tasks.

    `tasks` are all but the refused ones, and every share is of these: a task without a correct
    kernel counts, as in KernelBench. `fast_eager` and `fast_compile` map p to the share of the
    tasks with a correct kernel more than p times as fast. Over compile the tasks are those whose
    runs have measured it, `compile_tasks`, and those without a correct kernel.
    """

    agent: str
    tasks: int
    refused: int
    open: int
    correct: int
    correct_share: float | None
    fast_eager: dict[str, float]
    fast_compile: dict[str, float]
    compile_tasks: int
    mean_eager: Mean | None
    mean_compile: Mean | None
    mean_seed: Mean | None
    worked_s: float
    median_s: float | None
    tokens: int
    cost_usd: float | None


class SuiteResults(Struct, frozen=True, kw_only=True):
    """All figures of a suite."""

    schema: int
    name: str
    version: str
    agents: tuple[AgentResult, ...]
    tasks: tuple[TaskResult, ...]


def results_of(suite: Suite) -> SuiteResults:
    """Return the figures of a suite as it stands."""
    tasks = tuple(_task_result(suite, entry) for entry in suite.entries)
    agents = suite.record.settings.agents
    return SuiteResults(
        schema=SCHEMA,
        name=suite.folder.resolve().name,
        version=suite.record.version,
        agents=tuple(
            _agent_result(agent, [t for t in tasks if t.agent == agent]) for agent in agents
        ),
        tasks=tasks,
    )


def _task_result(suite: Suite, entry: Entry) -> TaskResult:
    name, agent = entry.key
    run = suite.run_folder(entry)
    where = str(run.relative_to(suite.folder))
    if entry.refused:
        return TaskResult(task=name, agent=agent, state="refused", why=entry.refused)
    try:
        state = suite.state(entry)
    except StoreError as error:
        return TaskResult(task=name, agent=agent, state="open", why=str(error), run=where)
    if state is None:
        return TaskResult(task=name, agent=agent, state="open", why=entry.fault)
    ended = bool(state.finished) and not lost_to_machine(state)
    best = best_of(state)
    machines = _machines(state)
    moved = len(machines) > 1 or len(entry.hosts) > 1
    if best and moved:
        best = replace(best, over_compile=None)
    summary = summarize(state)
    return TaskResult(
        task=name,
        agent=agent,
        state=("correct" if best else "failed") if ended else "open",
        why=state.finished if ended else entry.fault,
        over_seed=best.over_seed.ratio if best else None,
        over_eager=best.over_eager.ratio if best and best.over_eager else None,
        over_compile=best.over_compile.ratio if best and best.over_compile else None,
        fresh=bool(best and best.fresh),
        rounds=state.rounds,
        verdicts=verdict_counts(state),
        worked_s=summary["worked_s"],
        tokens=state.tokens,
        cost_usd=summary["cost_usd"],
        roofline=_roofline(state),
        gain=_gain(state, best),
        machines=machines,
        moved=moved,
        run=where,
        not_proved=tuple(name for name, over in best.named if not is_proved(over)) if best else (),
    )


def doublings(low: float) -> float:
    """Return the gain of a ratio whose lower confidence bound is `low`: 1 is twice as fast.

    Never below 0: a kernel that is not faster is not used.
    """
    return math.log2(max(1.0, low))


def _gain(state: RunState, best: Ratios | None) -> float:
    over = best and (best.over_eager if state.tries else best.over_seed)
    return doublings(over.low) if over else 0.0


def _measurements(state: RunState) -> list[Measurement]:
    compiled = (state.compiled, state.autotuned)
    whole = (state.baseline, *compiled, state.final, state.final_eager)
    return [m for m in (*whole, *(a.measurement for a in state.attempts)) if m is not None]


def _machines(state: RunState) -> tuple[str, ...]:
    """Return the machines that measured, by processor, number of CPUs and memory."""
    found: dict[str, None] = {}
    for each in _measurements(state):
        known = [each.environment.get(name, "") for name in ("cpu", "cpus", "memory")]
        if any(known):
            found["; ".join(known)] = None
    return tuple(found)


def _roofline(state: RunState) -> float | None:
    """Return the best kernel's share of the memory bound."""
    measured = state.final or state.baseline
    return measured.memory_share if measured is not None and state.best is not None else None


def _agent_result(agent: str, results: Sequence[TaskResult]) -> AgentResult:
    counted = [r for r in results if r.state != "refused"]
    correct = [r for r in counted if r.state == "correct"]
    eager = [r.over_eager for r in correct if r.over_eager]
    compiled = [r.over_compile for r in correct if r.over_compile]
    seeds = [r.over_seed for r in correct if r.over_seed]
    costs = [r.cost_usd for r in counted if r.run]
    times = [r.worked_s for r in counted if r.worked_s]
    ended = any(r.state != "open" for r in counted)
    return AgentResult(
        agent=agent,
        tasks=len(counted),
        refused=len(results) - len(counted),
        open=sum(r.state == "open" for r in counted),
        correct=len(correct),
        correct_share=len(correct) / len(counted) if ended else None,
        fast_eager=_fast(eager, len(counted) if ended else 0),
        # A correct kernel without a time of compile cannot be counted; one that failed is slower.
        fast_compile=_fast(compiled, len(compiled) + len(counted) - len(correct))
        if compiled
        else {},
        compile_tasks=len(compiled),
        mean_eager=geometric_mean(eager),
        mean_compile=geometric_mean(compiled),
        mean_seed=geometric_mean(seeds),
        worked_s=math.fsum(r.worked_s for r in counted),
        median_s=median(times) if times else None,
        tokens=sum(r.tokens for r in counted),
        cost_usd=None if None in costs else math.fsum(c for c in costs if c is not None),
    )


def _fast(ratios: Sequence[float], count: int) -> dict[str, float]:
    """Return fast_p: the share of `count` tasks whose ratio is above p."""
    if not count:
        return {}
    return {f"{p:g}": sum(ratio > p for ratio in ratios) / count for p in FAST_AT}


def geometric_mean(ratios: Iterable[float]) -> Mean | None:
    """Return the geometric mean of ratios with its percentile bootstrap interval."""
    logs = [math.log(ratio) for ratio in ratios]
    if not logs:
        return None
    middle = math.fsum(logs) / len(logs)
    low, high = bootstrap(logs)
    return Mean(math.exp(middle), math.exp(low), math.exp(high), len(logs))


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean of `values`, by a fixed seed.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 13.3.
    """
    dice = random.Random(SEED)
    count = len(values)
    means = sorted(math.fsum(dice.choices(values, k=count)) / count for _ in range(RESAMPLES))
    cut = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    return means[cut], means[-1 - cut]

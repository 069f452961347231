"""The figures of a run's best kernel, and the summary of the run as JSON values. Pure.

Every view takes the figure of the best kernel from `best_of`, so that no two of them differ.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, to_builtins

from akg_tui.core.events import Purpose
from akg_tui.core.measurement import Interval, Metric
from akg_tui.core.model_info import known_cost_usd
from akg_tui.core.phases import Verdict
from akg_tui.core.state import Attempt, RunState
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.limits import each_goal
from akg_tui.core.usage import cache_read_share
from akg_tui.core.verdict import is_proved


class Ratios(Struct, frozen=True):
    """A kernel's speed as ratios over the seed, over eager and over compile.

    Eager is the reference run by PyTorch, compile the reference under `torch.compile`, in the
    faster of the modes that were measured; a ratio is None where its baseline has no time.
    `fresh`: the ratio over the seed is the FINAL measurement; otherwise it is provisional, the
    product of the kept ratios. The ratio over eager is measured with it where the task wants that;
    the others are products with the baseline measurements.
    """

    attempt: int
    fresh: bool
    over_seed: Interval
    over_eager: Interval | None
    over_compile: Interval | None

    @property
    def provisional(self) -> bool:
        """Whether the figure is an estimate. The seed's ratio over itself is none."""
        return self.attempt != 0 and not self.fresh

    @property
    def named(self) -> tuple[tuple[str, Interval], ...]:
        """The ratios that are known, each with the name of what it is over; the proved ones first.

        The seed's ratio over itself tells nothing, so it stands only where there is no other.
        """
        over = {"seed": self.over_seed, "eager": self.over_eager, "compile": self.over_compile}
        if self.attempt == 0 and self.over_eager is not None:
            del over["seed"]
        known = [(name, found) for name, found in over.items() if found is not None]
        return tuple(sorted(known, key=lambda pair: not is_proved(pair[1])))

    @property
    def headline(self) -> tuple[str, Interval]:
        """The ratio that stands for all: over eager, or the first if only that one is proved."""
        first, over = self.named[0]
        eager = self.over_eager
        if eager is None or (is_proved(over) and not is_proved(eager)):
            return first, over
        return "eager", eager

    @property
    def line(self) -> str:
        """The ratios as text: ``22.0x seed · 2.10x eager · 1.70x? compile (0.82–3.54)``.

        The interval stands after a ratio that is not proved.
        """
        return " · ".join(
            f"{ratio_text(found.ratio)}x{doubt(found)} {name}{doubt_told(found)}"
            for name, found in self.named
        )


def ratio_text(ratio: float) -> str:
    """Return a ratio as text with two decimals; with one decimal from ten on."""
    return f"{ratio:.1f}" if ratio >= 9.995 else f"{ratio:.2f}"


DOUBT = "?"
"""The mark of a ratio that is not proved."""


def doubt(found: Interval) -> str:
    """Return the mark after a ratio that is not proved; "" for one that is."""
    return "" if is_proved(found) else DOUBT


def doubt_told(found: Interval) -> str:
    """Return the interval of a ratio that is not proved, to stand after it; "" for one that is."""
    return "" if is_proved(found) else f" ({ratio_text(found.low)}–{ratio_text(found.high)})"


def best_of(state: RunState) -> Ratios | None:
    """Return the ratios of the best kernel; None while there is none, and where none is timed."""
    best = state.best
    if best is None or state.task.estimate:
        return None
    fresh = state.final.ratio if state.final else None
    return _ratios(state, best.attempt, fresh or best.speedup, fresh=fresh is not None)


def ratios_of(state: RunState, attempt: Attempt) -> Ratios | None:
    """Return the ratios of an attempt, those of `best_of` for the best; None without a time."""
    if state.best is not None and attempt.number == state.best.attempt:
        return best_of(state)
    if attempt.number == 0 and not state.task.estimate:
        return _ratios(state, 0, Interval(1.0, 1.0, 1.0, 1.0), fresh=False)
    over_seed = attempt.speedup
    return _ratios(state, attempt.number, over_seed, fresh=False) if over_seed else None


def candidate_of(state: RunState) -> Ratios | None:
    """Return the ratios that a KEEP of the measured candidate would give; None without a time."""
    measured = state.measured.ratio if state.measured else None
    if state.best is None or measured is None:
        return None
    over_seed = state.best.speedup.chained(measured)
    return _ratios(state, state.next_attempt, over_seed, fresh=False)


def _ratios(state: RunState, attempt: int, over_seed: Interval, *, fresh: bool) -> Ratios:
    eager = state.baseline.ratio if state.baseline else None
    compiled = compiled_over_eager(state)
    over_eager = over_seed.chained(eager) if eager else None
    if fresh and state.final_eager is not None and state.final_eager.ratio is not None:
        over_eager = state.final_eager.ratio
    behind = compiled.inverse if compiled else None
    over_compile = over_eager.chained(behind) if over_eager and behind else None
    return Ratios(attempt, fresh, over_seed, over_eager, over_compile)


def climb_of(state: RunState) -> list[float]:
    """Return the ratio of the best over the seed after each attempt, the seed first.

    The last one is that of `best_of`, so a fresh figure replaces the estimate.
    """
    value, climb = 1.0, []
    for attempt in state.attempts:
        kept = attempt.verdict is Verdict.KEEP and attempt.number not in state.undone
        if kept and attempt.over_seed:
            value = attempt.over_seed
        climb.append(value)
    if climb and (best := best_of(state)):
        climb[-1] = best.over_seed.ratio
    return climb


def reference_lines(state: RunState) -> tuple[tuple[str, Interval], ...]:
    """Return eager and compile as ratios over the seed, each with its name, where measured."""
    seed = state.baseline.ratio if state.baseline else None
    eager = seed.inverse if seed else None
    if eager is None:
        return ()
    compiled = compiled_over_eager(state)
    over_seed = {"eager": eager} | ({"compile": eager.chained(compiled)} if compiled else {})
    return tuple(over_seed.items())


def verdict_counts(state: RunState) -> dict[str, int]:
    """Return the attempts by verdict, without the seed; SHORTLIST only in a run that has it."""
    shown = [each for each in Verdict if each is not Verdict.SHORTLIST or state.count(each)]
    return {verdict.value: state.count(verdict) for verdict in shown}


def token_fields(used: int, policy: AutomationPolicy | None) -> dict[str, int]:
    """Return the token fields of progress and final messages; the limit only if one is set."""
    fields = {"tokens_used_session": used}
    if policy is not None and policy.max_tokens is not None:
        fields["max_tokens"] = policy.max_tokens
    return fields


def compiled_over_eager(state: RunState) -> Interval | None:
    """Return the reference under `torch.compile` over eager, in its faster measured mode."""
    modes = (state.compiled, state.autotuned)
    timed = [found.ratio for found in modes if found is not None and found.ratio is not None]
    return max(timed, key=lambda over: over.ratio, default=None)


def compile_problem(state: RunState, purpose: Purpose) -> str:
    """Return why this measurement of `torch.compile` has no time, in one line; "" if it has one,
    is still to come or is not wanted.
    """
    found = state.compiled if purpose is Purpose.COMPILE else state.autotuned
    if found is None:
        left_out = state.compile_left_out and purpose in state.task.baselines
        return "a person left it out" if left_out else ""
    return "" if found.ratio is not None else found.message or "no timing was possible"


def held_by(state: RunState) -> str:
    """Return why a run that is not over does not go on by itself: its session broke, or the model
    cannot be used; "" where it does, or is over.
    """
    return "" if state.finished else state.broke or state.api_failure


def summarize(state: RunState) -> dict[str, Any]:
    """Return the `summary` object of the command line.

    `best` has the figures of `best_of`, provisional until the FINAL measurement.
    `speedup_vs_seed` is from the FINAL measurement, best against seed; it is 1.0 when the
    best kernel is the seed, and None when there is no FINAL measurement with a ratio.
    """
    final = state.final.ratio if state.final else None
    best = state.best
    unchanged = best is not None and best.attempt == 0 and not state.task.estimate
    kept = [
        {
            "round": a.round,
            "attempt": a.number,
            "ratio": to_builtins(a.measurement.ratio),
            "undone": a.number in state.undone,
        }
        for a in state.attempts
        if a.number and a.verdict is Verdict.KEEP
    ]
    baseline, compiled, autotuned = state.baseline, state.compiled, state.autotuned
    cost = known_cost_usd(state.usage)
    return {
        "type": "summary",
        "run_id": state.run_id,
        "op": state.task.op,
        "workflow": state.workflow.name,
        "ok": state.ok and not held_by(state),
        "reason": state.finished or held_by(state),
        **({} if state.settles is None else {"settles": to_builtins(state.settles)}),
        "rounds": state.rounds,
        "tries_to_write": state.tries,
        "verdicts": verdict_counts(state),
        "keeps": kept,
        "best": to_builtins(best_of(state)),
        "best_attempt": best.attempt if best else None,
        "best_commit": best.commit if best else None,
        "speedup_vs_seed": final.ratio if final else (1.0 if unchanged else None),
        "speedup_vs_seed_interval": to_builtins(final),
        "seed_vs_reference": to_builtins(baseline.ratio) if baseline else None,
        "seed_ms": baseline.candidate_ms if baseline else None,
        "reference_ms": baseline.baseline_ms if baseline else None,
        "compile_vs_eager": to_builtins(compiled.ratio) if compiled else None,
        "compile_ms": compiled.candidate_ms if compiled else None,
        "compile_problem": compile_problem(state, Purpose.COMPILE),
        "max_autotune_vs_eager": to_builtins(autotuned.ratio) if autotuned else None,
        "max_autotune_ms": autotuned.candidate_ms if autotuned else None,
        "max_autotune_problem": compile_problem(state, Purpose.MAX_AUTOTUNE),
        "best_ms": state.final.candidate_ms if state.final else None,
        "forked_from": (
            {"run": forked.parent, "round": forked.round, "seq": forked.seq, "hash": forked.hash}
            if (forked := state.forked)
            else None
        ),
        "worked_s": round(state.worked_s, 3),
        "tokens": {"input": state.input_tokens, "output": state.output_tokens},
        "cache_read_share": cache_read_share(state.usage),
        **token_fields(state.session_tokens, state.task.policy.automation),
        "cost_usd": None if cost is None else round(cost, 6),
        "stop_conditions": list(state.stop_conditions),
        "goals_met": state.goals_met,
        "goals": [
            {"goal": str(goal), "met": met, "range": [now.low, now.high] if now else None}
            for goal, met, now in each_goal(state)
        ],
        "metrics": to_builtins(best_metrics(state)),
    }


def best_metrics(state: RunState) -> tuple[Metric, ...]:
    """Return the task's metrics of the best kernel, as the goals see them."""
    best = state.best
    return state.attempts[best.attempt].measurement.metrics if best is not None else ()


def _exactly(ratio: float) -> Interval:
    return Interval(ratio, ratio, ratio, 1.0)


class CasesOverSeed:
    """Each case's ratio over the seed, an estimate like an attempt's `over_seed`, for the chart.

    Takes the attempts in their order, because a ratio is multiplied with those of the kernels
    that were kept before.
    """

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, float]] = {}  # by the kernel's blob, then by case

    def read(self, attempt: Attempt) -> dict[str, Interval]:
        """Return the ratio of each timed case of the next attempt, by the case's name."""
        timed = {each.name: each.ratio for each in attempt.measurement.cases if each.ratio}
        if not attempt.number:
            return dict.fromkeys(timed, _exactly(1.0))
        before = self._kept.get(attempt.incumbent, {})
        found = {name: _exactly(before.get(name, 1.0)).chained(r) for name, r in timed.items()}
        if attempt.verdict is Verdict.KEEP:
            self._kept[attempt.blob] = before | {name: r.ratio for name, r in found.items()}
        return found

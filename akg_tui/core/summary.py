"""The summary of a run as JSON values, computed from its state. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from akg_tui.core.model_info import known_cost_usd
from akg_tui.core.phases import Verdict
from akg_tui.core.state import RunState
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.usage import cache_read_share


def token_fields(used: int, policy: AutomationPolicy | None) -> dict[str, int]:
    """Return the token fields of progress and final messages; the limit only if one is set."""
    fields = {"tokens_used_session": used}
    if policy is not None and policy.max_tokens is not None:
        fields["max_tokens"] = policy.max_tokens
    return fields


def summarize(state: RunState) -> dict[str, Any]:
    """Return the `summary` object of the command line.

    `speedup_vs_seed` is from the FINAL measurement, best against seed; it is 1.0 when the
    best kernel is the seed, and None when there is no FINAL measurement with a ratio.
    """
    final = state.final.ratio if state.final else None
    best = state.best
    unchanged = best is not None and best.attempt == 0
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
    baseline = state.baseline
    cost = known_cost_usd(state.usage)
    return {
        "type": "summary",
        "run_id": state.run_id,
        "op": state.task.op,
        "workflow": state.workflow.name,
        "ok": state.ok and not state.api_failure,
        "reason": state.finished or state.api_failure,
        "rounds": state.settled,
        "tries_to_write": state.tries,
        "verdicts": {verdict.value: state.count(verdict) for verdict in Verdict},
        "keeps": kept,
        "best_attempt": best.attempt if best else None,
        "best_commit": best.commit if best else None,
        "speedup_vs_seed": final.ratio if final else (1.0 if unchanged else None),
        "speedup_vs_seed_interval": to_builtins(final),
        "seed_vs_reference": to_builtins(baseline.ratio) if baseline else None,
        "seed_ms": baseline.candidate_ms if baseline else None,
        "reference_ms": baseline.baseline_ms if baseline else None,
        "best_ms": state.final.candidate_ms if state.final else None,
        "forked_from": (
            {"run": forked.parent, "round": forked.round, "seq": forked.seq, "hash": forked.hash}
            if (forked := state.forked)
            else None
        ),
        "worked_s": round(state.worked_s, 3),
        "tokens": {"input": state.input_tokens, "output": state.output_tokens},
        "cache_read_share": cache_read_share(state.usage),
        **token_fields(state.tokens, state.task.policy.automation),
        "cost_usd": None if cost is None else round(cost, 6),
        "stop_conditions": list(state.stop_conditions),
        "goals_met": state.goals_met,
    }

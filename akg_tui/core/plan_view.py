"""PLAN.md as a pure function of the state: what an agent re-reads and a person can diff.

Only conclusions that can be used again: direction, verdict, ratio with its interval,
a one-line reason, the commit. Deterministic to the byte.
"""

from __future__ import annotations

from akg_tui.core.machine import ItemState
from akg_tui.core.measurement import Interval
from akg_tui.core.plain import one_line
from akg_tui.core.state import Item, RunState

REASON_WIDTH = 120
ITEM_WIDTH = 400

_OPEN = (ItemState.ACTIVE, ItemState.PENDING)


def cell(text: str, width: int = REASON_WIDTH) -> str:
    """`text` as one cell of a Markdown table: one line, no bar."""
    return one_line(text, width).replace("|", "¦")


def _ratio(interval: Interval | None) -> str:
    return str(interval) if interval else "-"


def _row(item: Item) -> str:
    cells = (
        item.id,
        item.state.value,
        _ratio(item.ratio),
        cell(item.text, ITEM_WIDTH),
        cell(item.reason) or "-",
        item.commit[:7] or "-",
    )
    return "| " + " | ".join(cells) + " |"


def render_plan(state: RunState) -> str:
    """The whole of PLAN.md."""
    best = state.best
    lines = [
        "---",
        f"run: {state.run_id}",
        f"op: {state.task.op}",
        f"target: {state.task.target.backend}",
        f"dsl: {state.task.target.dsl}",
        f"phase: {state.phase}",
        f"rounds: {state.settled}/{state.task.policy.max_rounds}",
        f"best_attempt: {best.attempt if best else '-'}",
        f"best_commit: {best.commit if best else '-'}",
        f"best_over_seed: {best.over_seed:.3f}" if best else "best_over_seed: -",
        f"fail_streak: {state.fail_streak}",
        "---",
        "",
        "# Plan",
        "",
    ]
    open_items = [item for item in state.items if item.state in _OPEN]
    for item in open_items:
        mark = ">" if item.state is ItemState.ACTIVE else " "
        why = f" ({cell(item.rationale)})" if item.rationale else ""
        lines.append(f"- [{mark}] {item.id}: {cell(item.text, ITEM_WIDTH)}{why}")
    if not open_items:
        lines.append("No open item.")
    settled = [item for item in state.items if item.state not in _OPEN]
    if settled:
        lines += ["", "# Conclusions", "", "| id | state | ratio | item | reason | commit |"]
        lines += ["|---|---|---|---|---|---|", *map(_row, settled)]
    if state.diagnosis:
        lines += ["", "# Diagnosis", "", cell(state.diagnosis.cause, 400)]
        lines += [f"- avoid: {cell(text)}" for text in state.diagnosis.avoid]
        lines += [f"- try: {cell(text)}" for text in state.diagnosis.directions]
    return "\n".join(lines) + "\n"

"""What the agent is told: one system text, and one fresh prompt for every visit to a phase.

A prompt is made from the state alone (PLAN.md and what follows from it), so after a
restart the agent stands exactly where it stood.
"""

from __future__ import annotations

from akg_tui.core.machine import Phase
from akg_tui.core.plain import one_line
from akg_tui.core.plan_view import render_plan
from akg_tui.core.state import RunState
from akg_tui.core.told import told_by_person
from akg_tui.core.tried import render_tried

SYSTEM = """\
You tune one compute kernel inside a state machine. The harness evaluates, decides,
keeps and rolls back; you plan and edit. Each plan item is one direction; each edit
belongs to the active item. After an edit the harness verifies the kernel against the
reference and times it against the best kernel so far (the incumbent). KEEP means
faster beyond doubt; DISCARD and FAIL restore the incumbent. Do not repeat what the
plan shows as discarded or failed."""

_DUTY = {
    Phase.PLAN: "Read the kernel if you need to, then call submit_plan with the items to try "
    "next, best first. Call finish when no direction is left.",
    Phase.EDIT: "Carry out the active item: read_kernel, then edit_kernel with the tags it showed.",
    Phase.DIAGNOSE: "The last attempts failed one after the other. Find what they share and call "
    "report_diagnosis with the cause, what to avoid, and directions to try.",
}


def visit_prompt(state: RunState) -> str:
    """The user message that opens a visit to the current agent phase."""
    policy = state.task.policy
    parts = [
        f"Phase {state.phase}. {_DUTY[state.phase]}",
        f"Rounds settled: {state.settled} of {policy.max_rounds}.",
    ]
    if state.active is not None:
        item = state.item(state.active)
        parts.append(f"Active item: {item.id}: {one_line(item.text, 400)}")
    if state.attempts and state.attempts[-1].number:
        last = state.attempts[-1]
        parts.append(f"Last verdict: {last.item} {last.verdict}: {one_line(last.reason, 300)}")
        if last.measurement.detail:
            detail = last.measurement.detail[:2_000]
            parts.append(f"What the harness saw:\n{detail}")
    parts += told_by_person(state)
    parts.append(render_plan(state))
    if state.phase is not Phase.EDIT and (tried := render_tried(state)):
        parts.append(tried)
    return "\n\n".join(parts)

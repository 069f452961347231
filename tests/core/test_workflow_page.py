"""docs/workflows.md shows each workflow as its table is."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.core.phases import WORKFLOWS, Phase, Workflow

PAGE = (Path(__file__).parents[2] / "docs" / "workflows.md").read_text("utf-8")
DOERS = {"": "the harness", "agent": "the run's own agent", "subagent": "a subagent"}


def transitions(workflow: Workflow) -> str:
    """The transitions as a row of a table."""
    steps = [f"{phase} → {', '.join(row.to)}" for phase, row in workflow.rows.items() if row.to]
    return f"| `{workflow.name}` | {'; '.join(steps)} |"


def rows() -> list[str]:
    """The rows of the table of phases, in the order in which a run passes through them."""
    found = {phase: row for each in WORKFLOWS.values() for phase, row in each.rows.items()}
    in_all = WORKFLOWS["write_then_tune"].rows
    told: list[str] = []
    for phase in in_all:
        of = ", ".join(f"`{each.name}`" for each in WORKFLOWS.values() if phase in each.rows)
        row = found[phase]
        by = ", ".join(f"`{name}`" for name in row.by)
        told.append(f"| {phase} | {of} | {DOERS[row.agent]} | {by} |")
    return told


@pytest.mark.parametrize("workflow", WORKFLOWS.values())
def test_the_page_has_the_transitions_of_each_workflow(workflow: Workflow) -> None:
    assert transitions(workflow) in PAGE, transitions(workflow)


def test_the_page_says_who_works_in_each_phase() -> None:
    assert set(WORKFLOWS["write_then_tune"].rows) == set(Phase)
    assert "\n".join(rows()) in PAGE, "\n".join(rows())

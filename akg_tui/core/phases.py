"""The state machines of a run, as tables: its workflow (a table of phases), and plan items.

Run phases
    A run is always in exactly one phase. The agent works in WRITE, PLAN, EDIT and DIAGNOSE.
    In INIT, BASELINE, EVAL, DECIDE and DONE the harness works and the agent can call no
    tool. Each tool declares the phases in which it may be called, enforced where tools
    are executed; the list of tools sent to a model never changes.

Workflows
    `tune` makes a correct kernel faster, `write` makes a kernel correct and then ends,
    `write_then_tune` does both, and `settle`, of earlier versions, measured a shortlist. A task
    may bring a table of its own (`user_workflow`), with fewer steps. A run keeps the workflow
    that it began with.

        tune    INIT → BASELINE → PLAN → EDIT → EVAL → DECIDE → EDIT | PLAN | DIAGNOSE | DONE
                                                                DIAGNOSE → PLAN
        write   INIT → BASELINE → WRITE | DONE,  WRITE → BASELINE
        settle  INIT → BASELINE → EDIT → EVAL → DECIDE → EDIT | DONE

    Further transitions: BASELINE → DONE (the kernel or the reference is unusable),
    WRITE | PLAN | EDIT | DIAGNOSE → DONE (finish, a stop, or a spent budget), EVAL → DONE (the
    evaluations ended in errors), EDIT → PLAN (no item is left, or a person wants a new
    plan), and PLAN | EDIT → DIAGNOSE (a person demands it, or the agent is blocked).

    BASELINE measures the first kernel against the reference. Where a WRITE follows, the agent
    edits a kernel that is not correct, and each edit is measured in BASELINE again. Such a try
    is a round. The first correct kernel is the seed of the run: its attempt 0.

    In `settle` no agent works: each item has its kernel from the beginning, and EDIT takes it.

Plan items
    PENDING → ACTIVE → KEPT | DISCARDED | FAILED | SHORTLISTED. A diagnosis suspends unsettled
    items, except pinned pending ones and those that wait for a measurement; a replan or a person
    drops items. At most one item is ACTIVE. Ids (p1, p2, …) are never used twice. The agent
    drops pending items, and reopens discarded, failed, suspended and dropped ones, by itself.

    INCONCLUSIVE settles nothing: the time budget was spent before a probable gain was
    proved. The item is PENDING again, behind the others, and waits: when its turn comes
    and the incumbent is unchanged, the harness measures the same kernel again, in a round
    and an attempt of their own and without the agent, and the earlier measurements count.
    After MAX_MEASUREMENTS of them it is DISCARDED. If the incumbent has changed, the agent
    gets the item like any other. DISCARDED → PENDING: a person wants it measured again, or the
    agent reopens it.

    SHORTLIST is the KEEP of an estimate run, in which no kernel is timed: the estimate is lower
    than that of the best so far, and the kernel takes its place. It claims nothing about time.

Overlays stop a phase and change nothing else: a pause, a step that was not granted,
a gate or a question without an answer, a model's server that does not answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct


class Phase(StrEnum):
    INIT = "INIT"
    BASELINE = "BASELINE"
    WRITE = "WRITE"
    PLAN = "PLAN"
    EDIT = "EDIT"
    EVAL = "EVAL"
    DECIDE = "DECIDE"
    DIAGNOSE = "DIAGNOSE"
    DONE = "DONE"


class ItemState(StrEnum):
    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    KEPT = "KEPT"
    DISCARDED = "DISCARDED"
    FAILED = "FAILED"
    SUSPENDED = "SUSPENDED"
    DROPPED = "DROPPED"
    SHORTLISTED = "SHORTLISTED"


class Verdict(StrEnum):
    KEEP = "KEEP"
    DISCARD = "DISCARD"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    SHORTLIST = "SHORTLIST"


class Mode(StrEnum):
    """Supervision: `auto` never waits, `review` waits before a KEEP, `step` at each transition."""

    AUTO = "auto"
    REVIEW = "review"
    STEP = "step"


class Gate(StrEnum):
    """A point where the run waits for a person's approval. A change of mode sets all gates."""

    PLAN = "plan"  # before a plan's first item is worked on
    EDIT = "edit"  # before new code first runs
    KEEP = "keep"  # before a candidate becomes the best
    ASK = "ask"  # the agent's questions go to a person
    SCRIPT = "script"  # before a script of the agent runs


MODE_GATES: dict[Mode, tuple[Gate, ...]] = {
    Mode.AUTO: (),
    Mode.REVIEW: (Gate.KEEP, Gate.ASK),
    Mode.STEP: (Gate.KEEP, Gate.ASK),
}


class Overlay(StrEnum):
    """A reason why the current phase waits."""

    PAUSED = "PAUSED"
    WAIT_STEP = "WAIT_STEP"
    WAIT_USER = "WAIT_USER"
    WAIT_API = "WAIT_API"


class BadWorkflow(ValueError):
    """A workflow in which a run could be lost: a phase without a way in, out, or to its work.

    `at` are the phase and the faulty field of its row, and `why` is what is wrong with it.
    """

    def __init__(self, workflow: str, phase: str, why: str, field: str = "to") -> None:
        super().__init__(f"workflow {workflow}: {phase} {why}")
        self.at = (phase, field) if field else (phase,)
        self.why = why


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """A phase of a workflow: the phases that may follow, the expected one first, and who works.

    `agent` is the run's own agent (`agent`), a `subagent` with fresh context, or none (""): the
    harness works. `by` are the tools that do the agent's work in the phase; the tools declare
    all phases in which they may be called. If `tools` has any, the agent may call no other tool.
    `duty` is what a user's table asks of the agent besides.
    """

    to: tuple[Phase, ...]
    agent: Literal["", "agent", "subagent"] = ""
    by: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    duty: str = ""


WorkflowName = Literal["tune", "write", "write_then_tune"]
"""The workflows of the program that a task can name."""


class Workflow(Struct, frozen=True, forbid_unknown_fields=True):
    """A phase table: its rows stand in the order in which a run usually passes through them.

    Raises `BadWorkflow` if a run could be lost in it; the message names the workflow and the phase.
    """

    name: str
    rows: dict[Phase, Row]

    def __post_init__(self) -> None:
        for end in (Phase.INIT, Phase.DONE):
            if end not in self.rows:
                raise self._bad(end, "is missing")
        for phase, row in self.rows.items():
            for follower in row.to:
                if follower not in self.rows:
                    raise self._bad(phase, f"leads to {follower}, which has no row")
        for phase, row in self.rows.items():
            if bool(row.agent) is not bool(row.by):
                raise self._bad(phase, "needs both an agent and the tools that do its work")
            if phase is Phase.DONE and row.to:
                raise self._bad(phase, "is the end, and cannot be left")
            if Phase.DONE not in self._reached(phase):
                raise self._bad(phase, "has no way to DONE")
        reached = self._reached(Phase.INIT)
        if lost := next((phase for phase in self.rows if phase not in reached), None):
            raise self._bad(lost, "cannot be reached from INIT")

    def _reached(self, start: Phase) -> set[Phase]:
        reached, new = {start}, [start]
        while new:
            found = [phase for phase in self.rows[new.pop()].to if phase not in reached]
            reached.update(found)
            new += found
        return reached

    def _bad(self, phase: Phase, why: str) -> BadWorkflow:
        return BadWorkflow(self.name, phase, why)


_BEGIN = {Phase.INIT: Row((Phase.BASELINE,))}
_WRITING = {Phase.WRITE: Row((Phase.BASELINE, Phase.DONE), "agent", ("edit_kernel",))}
_TUNING = {
    Phase.PLAN: Row(
        (Phase.EDIT, Phase.DIAGNOSE, Phase.DONE), "agent", ("submit_plan", "revise_plan", "finish")
    ),
    Phase.EDIT: Row(
        (Phase.EVAL, Phase.PLAN, Phase.DIAGNOSE, Phase.DONE), "agent", ("edit_kernel",)
    ),
    Phase.EVAL: Row((Phase.DECIDE, Phase.DONE)),
    Phase.DECIDE: Row((Phase.EDIT, Phase.PLAN, Phase.DIAGNOSE, Phase.DONE)),
    Phase.DIAGNOSE: Row((Phase.PLAN, Phase.DONE), "subagent", ("report_diagnosis",)),
}
_END = {Phase.DONE: Row(())}

TUNE = Workflow(
    "tune", {**_BEGIN, Phase.BASELINE: Row((Phase.PLAN, Phase.DONE)), **_TUNING, **_END}
)
WRITE = Workflow(
    "write", {**_BEGIN, Phase.BASELINE: Row((Phase.DONE, Phase.WRITE)), **_WRITING, **_END}
)
WRITE_THEN_TUNE = Workflow(
    "write_then_tune",
    {
        **_BEGIN,
        Phase.BASELINE: Row((Phase.PLAN, Phase.WRITE, Phase.DONE)),
        **_WRITING,
        **_TUNING,
        **_END,
    },
)
WORKFLOWS: dict[str, Workflow] = {
    "tune": TUNE,
    "write": WRITE,
    "write_then_tune": WRITE_THEN_TUNE,
}
assert set(WORKFLOWS) == set(get_args(WorkflowName))
SETTLE = Workflow(
    "settle",  # of a run that takes a shortlist: no task can name it
    {
        **_BEGIN,
        Phase.BASELINE: Row((Phase.EDIT, Phase.DONE)),
        Phase.EDIT: Row((Phase.EVAL, Phase.DONE)),
        Phase.EVAL: Row((Phase.DECIDE, Phase.DONE)),
        Phase.DECIDE: Row((Phase.EDIT, Phase.DONE)),
        **_END,
    },
)


class StatedPhase(Struct, frozen=True, forbid_unknown_fields=True):
    """A phase of a user's table; the fields are those of `Row`, but the worker is fixed."""

    to: tuple[str, ...] = ()
    tools: Annotated[tuple[str, ...], Meta(max_length=64)] = ()
    duty: Annotated[str, Meta(max_length=2_000)] = ""


OPTIONAL: dict[Phase, tuple[Phase, ...]] = {
    Phase.BASELINE: (Phase.PLAN, Phase.WRITE),
    Phase.PLAN: (Phase.DIAGNOSE,),
    Phase.EDIT: (Phase.PLAN, Phase.DIAGNOSE),
    Phase.DECIDE: (Phase.EDIT, Phase.PLAN, Phase.DIAGNOSE),
}
"""The steps of `write_then_tune` that a user's table may leave out."""


def user_workflow(name: str, stated: Mapping[str, StatedPhase]) -> Workflow:
    """Return the workflow of a user's table: the steps of `write_then_tune`, or some of them.

    INIT and DONE may be left out. Raises `BadWorkflow`.
    """
    table = {Phase.INIT: StatedPhase((Phase.BASELINE,))}
    for phase, each in stated.items():
        if phase not in WRITE_THEN_TUNE.rows:
            raise BadWorkflow(name, phase, f"is no phase, expected some of: {', '.join(Phase)}", "")
        table[Phase(phase)] = each
    table[Phase.DONE] = table.pop(Phase.DONE, StatedPhase())  # it stands last in the rail
    rows = {phase: _stated_row(name, phase, each) for phase, each in table.items()}
    return Workflow(name, rows)


def _stated_row(workflow: str, phase: Phase, stated: StatedPhase) -> Row:
    known, to = WRITE_THEN_TUNE.rows[phase], stated.to
    for follower in to:
        if not known.to:
            raise BadWorkflow(workflow, phase, "is the end, and cannot be left")
        if follower not in known.to or to.count(follower) > 1:
            why = f"leads to {follower}, expected some of {', '.join(known.to)}, each once"
            raise BadWorkflow(workflow, phase, why)
    needed = [one for one in known.to if one not in OPTIONAL.get(phase, ())]
    if lacks := next((one for one in needed if one not in to), None):
        raise BadWorkflow(workflow, phase, f"does not lead to {lacks}, which a run may need")
    field = "tools" if stated.tools else "duty"
    if not known.agent and (stated.tools or stated.duty):
        raise BadWorkflow(workflow, phase, "has no agent: the harness works in it", field)
    if stated.tools and known.by[0] not in stated.tools:
        why = f"lacks the tool {known.by[0]}, which does its work"
        raise BadWorkflow(workflow, phase, why, field)
    followers = tuple(Phase(follower) for follower in to)
    return Row(followers, known.agent, known.by, stated.tools, stated.duty)


SETTLED: dict[Verdict, ItemState] = {
    Verdict.KEEP: ItemState.KEPT,
    Verdict.DISCARD: ItemState.DISCARDED,
    Verdict.FAIL: ItemState.FAILED,
    Verdict.SHORTLIST: ItemState.SHORTLISTED,
}

ITEM_AFTER: dict[Verdict, ItemState] = {**SETTLED, Verdict.INCONCLUSIVE: ItemState.PENDING}
"""The state of an item after its verdict; `SETTLED` has the verdicts that settle it."""

ADVANCES = (Verdict.KEEP, Verdict.SHORTLIST)
"""The verdicts after which the attempt's kernel is the best, and the base of the next item."""

MAX_MEASUREMENTS = 3
"""The INCONCLUSIVE measurements of one kernel against one incumbent that end in a DISCARD."""

ITEM_TABLE: dict[ItemState, frozenset[ItemState]] = {
    ItemState.PENDING: frozenset({ItemState.ACTIVE, ItemState.SUSPENDED, ItemState.DROPPED}),
    ItemState.ACTIVE: frozenset({*ITEM_AFTER.values(), ItemState.SUSPENDED, ItemState.DROPPED}),
    ItemState.KEPT: frozenset(),
    ItemState.SHORTLISTED: frozenset(),
    ItemState.DISCARDED: frozenset({ItemState.PENDING}),
    ItemState.FAILED: frozenset({ItemState.PENDING}),
    ItemState.SUSPENDED: frozenset({ItemState.PENDING}),
    ItemState.DROPPED: frozenset({ItemState.PENDING}),
}

AGENT_PHASES = frozenset(
    phase for each in WORKFLOWS.values() for phase, row in each.rows.items() if row.agent
)


class IllegalTransition(ValueError):
    """A transition that is not in its table. The fold raises it for an invalid journal."""


def check_phase(workflow: Workflow, current: Phase, following: Phase) -> None:
    """Raise `IllegalTransition` unless the workflow allows `following` after `current`."""
    if following not in workflow.rows[current].to:
        raise IllegalTransition(f"{current} cannot be followed by {following}")


def check_item(item: str, current: ItemState, following: ItemState) -> None:
    """Raise `IllegalTransition` unless the table allows an item `following` after `current`."""
    if following not in ITEM_TABLE[current]:
        raise IllegalTransition(f"{item} is {current} and cannot become {following}")

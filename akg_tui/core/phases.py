"""The two state machines, as tables.

Run phases
    A run is always in exactly one phase. The agent works in PLAN, EDIT and DIAGNOSE.
    In INIT, BASELINE, EVAL, DECIDE and DONE the harness works and the agent can call no
    tool. Each tool declares the phases in which it may be called, enforced where tools
    are executed; the list of tools sent to a model never changes.

        INIT → BASELINE → PLAN → EDIT → EVAL → DECIDE → EDIT | PLAN | DIAGNOSE | DONE
                                                        DIAGNOSE → PLAN

    Further transitions: BASELINE → DONE (the kernel or the reference is unusable),
    PLAN | EDIT | DIAGNOSE → DONE (finish, a stop, or a spent budget), EVAL → DONE (the
    evaluations ended in errors), EDIT → PLAN (no item is left, or a person wants a new
    plan), and PLAN | EDIT → DIAGNOSE (a person demands it, or the agent is blocked).

Plan items
    PENDING → ACTIVE → KEPT | DISCARDED | FAILED. A diagnosis suspends unsettled items,
    except pinned pending ones and those that wait for a measurement; a replan or a person
    drops items. At most one item is ACTIVE. Ids (p1, p2, …) are never used twice.

    INCONCLUSIVE settles nothing: the time budget was spent before a probable gain was
    proved. The item is PENDING again, behind the others, and waits: when its turn comes
    and the incumbent is unchanged, the harness measures the same kernel again, in a round
    and an attempt of their own and without the agent, and the earlier measurements count.
    After MAX_MEASUREMENTS of them it is DISCARDED. If the incumbent has changed, the agent
    gets the item like any other. DISCARDED → PENDING: a person wants it measured again.

Overlays stop a phase and change nothing else: a pause, a step that was not granted,
a gate or a question without an answer, a model's server that does not answer.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    INIT = "INIT"
    BASELINE = "BASELINE"
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


class Verdict(StrEnum):
    KEEP = "KEEP"
    DISCARD = "DISCARD"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


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


PHASE_TABLE: dict[Phase, frozenset[Phase]] = {
    Phase.INIT: frozenset({Phase.BASELINE}),
    Phase.BASELINE: frozenset({Phase.PLAN, Phase.DONE}),
    Phase.PLAN: frozenset({Phase.EDIT, Phase.DIAGNOSE, Phase.DONE}),
    Phase.EDIT: frozenset({Phase.EVAL, Phase.PLAN, Phase.DIAGNOSE, Phase.DONE}),
    Phase.EVAL: frozenset({Phase.DECIDE, Phase.DONE}),
    Phase.DECIDE: frozenset({Phase.EDIT, Phase.PLAN, Phase.DIAGNOSE, Phase.DONE}),
    Phase.DIAGNOSE: frozenset({Phase.PLAN, Phase.DONE}),
    Phase.DONE: frozenset(),
}

SETTLED: dict[Verdict, ItemState] = {
    Verdict.KEEP: ItemState.KEPT,
    Verdict.DISCARD: ItemState.DISCARDED,
    Verdict.FAIL: ItemState.FAILED,
}

ITEM_AFTER: dict[Verdict, ItemState] = {**SETTLED, Verdict.INCONCLUSIVE: ItemState.PENDING}
"""The state of an item after its verdict; `SETTLED` has the verdicts that settle it."""

MAX_MEASUREMENTS = 3
"""The INCONCLUSIVE measurements of one kernel against one incumbent that end in a DISCARD."""

ITEM_TABLE: dict[ItemState, frozenset[ItemState]] = {
    ItemState.PENDING: frozenset({ItemState.ACTIVE, ItemState.SUSPENDED, ItemState.DROPPED}),
    ItemState.ACTIVE: frozenset({*ITEM_AFTER.values(), ItemState.SUSPENDED, ItemState.DROPPED}),
    ItemState.KEPT: frozenset(),
    ItemState.DISCARDED: frozenset({ItemState.PENDING}),
    ItemState.FAILED: frozenset(),
    ItemState.SUSPENDED: frozenset(),
    ItemState.DROPPED: frozenset(),
}

AGENT_PHASES = frozenset({Phase.PLAN, Phase.EDIT, Phase.DIAGNOSE})


class IllegalTransition(ValueError):
    """A transition that is not in the table. The fold raises it for an invalid journal."""


def check_phase(current: Phase, following: Phase) -> None:
    """Raise `IllegalTransition` unless the table allows `following` directly after `current`."""
    if following not in PHASE_TABLE[current]:
        raise IllegalTransition(f"{current} cannot be followed by {following}")


def check_item(item: str, current: ItemState, following: ItemState) -> None:
    """Raise `IllegalTransition` unless the table allows an item `following` after `current`."""
    if following not in ITEM_TABLE[current]:
        raise IllegalTransition(f"{item} is {current} and cannot become {following}")

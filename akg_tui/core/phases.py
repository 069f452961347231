"""The two state machines, as tables.

Run phases
    A run is always in exactly one phase. PLAN, EDIT and DIAGNOSE belong to the
    agent; INIT, BASELINE, EVAL, DECIDE and DONE belong to the harness and offer the
    agent nothing. Each tool declares the phases in which it may be called, enforced where
    tools are executed; the list of tools that a model is told about never changes.

        INIT → BASELINE → PLAN → EDIT → EVAL → DECIDE → EDIT | PLAN | DIAGNOSE | DONE
                                                        DIAGNOSE → PLAN

    Beside the main road: BASELINE → DONE (the kernel or the reference is unusable),
    PLAN | EDIT | DIAGNOSE → DONE (finish, a stop, or a spent budget),
    EDIT → PLAN (the agent left its item without an edit, or a person wants a new plan),
    and PLAN | EDIT → DIAGNOSE (a person calls for one, or the agent says it is blocked).

Plan items
    PENDING → ACTIVE → KEPT | DISCARDED | FAILED. A diagnosis suspends what is not
    settled, a replan or a person drops it. At most one item is ACTIVE. Ids (p1, p2,
    …) are never used twice.

Overlays hold a phase still and change nothing else: a pause, a step that was not
granted, a gate or a question without an answer, a model's server that does not answer.
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


class Mode(StrEnum):
    """Supervision: `auto` waits nowhere, `review` before a KEEP, `step` before every transition."""

    AUTO = "auto"
    REVIEW = "review"
    STEP = "step"


class Gate(StrEnum):
    """A place where supervision waits for a person's leave. A mode sets all of them."""

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
    """What holds the current phase still, if anything does."""

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

ITEM_TABLE: dict[ItemState, frozenset[ItemState]] = {
    ItemState.PENDING: frozenset({ItemState.ACTIVE, ItemState.SUSPENDED, ItemState.DROPPED}),
    ItemState.ACTIVE: frozenset({*SETTLED.values(), ItemState.SUSPENDED, ItemState.DROPPED}),
    ItemState.KEPT: frozenset(),
    ItemState.DISCARDED: frozenset(),
    ItemState.FAILED: frozenset(),
    ItemState.SUSPENDED: frozenset(),
    ItemState.DROPPED: frozenset(),
}

AGENT_PHASES = frozenset({Phase.PLAN, Phase.EDIT, Phase.DIAGNOSE})


class IllegalTransition(ValueError):
    """A transition that the table does not hold. Raised by the fold: the journal is wrong."""


def check_phase(current: Phase, following: Phase) -> None:
    """Raise `IllegalTransition` unless `following` may come directly after `current`."""
    if following not in PHASE_TABLE[current]:
        raise IllegalTransition(f"{current} cannot be followed by {following}")


def check_item(item: str, current: ItemState, following: ItemState) -> None:
    """Raise `IllegalTransition` unless an item in `current` may become `following`."""
    if following not in ITEM_TABLE[current]:
        raise IllegalTransition(f"{item} is {current} and cannot become {following}")

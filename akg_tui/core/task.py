"""What a task is: the typed form of `task.toml`.

Only types and their bounds live here; reading the file, and telling the user
which line is wrong, is `akg_tui.store.task_folder`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr, replace

from akg_tui.core.automation import TUNING, AutomationPolicy

Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Fraction = Annotated[float, Meta(ge=0, lt=1)]

Backend = Literal["cpu"]
Dsl = Literal["cpp", "torch"]


class Files(Struct, frozen=True, forbid_unknown_fields=True):
    """File names inside the task folder. `editable` is the only one an agent may change."""

    reference: str = "reference.py"
    editable: str = "kernel.py"


class Target(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the kernel runs. `arch` is free text for the reader (for example `zen4`)."""

    backend: Backend = "cpu"
    dsl: Dsl = "cpp"
    arch: str = ""


class Correctness(Struct, frozen=True, forbid_unknown_fields=True):
    """How a candidate is compared with the reference.

    `trials` fresh inputs are drawn from a secret seed at every evaluation.
    `tolerance` bounds ``max|y - ref| / (|ref| + rms(ref))``; without it the bound
    comes from the dtype and from the reference's own rounding error.
    """

    trials: Positive = 3
    tolerance: Annotated[float, Meta(gt=0)] | None = None


class Timing(Struct, frozen=True, forbid_unknown_fields=True):
    """How a candidate is timed against the incumbent, and what a KEEP takes.

    `min_gain` is the fraction by which the lower confidence bound of the ratio must
    exceed 1. `budget_s` bounds the sampling of one comparison; `call_timeout_s` one
    call of a kernel; `build_timeout_s` loading and compiling it.
    """

    threads: Positive = 1
    min_gain: Fraction = 0.01
    budget_s: Seconds = 20.0
    call_timeout_s: Seconds = 10.0
    build_timeout_s: Seconds = 120.0


class Sandbox(Struct, frozen=True, forbid_unknown_fields=True):
    """What a kernel's process is kept from. `require` refuses to start where that is less.

    `memory_gb` bounds the memory of one kernel's processes; half of the machine's when it
    is not said.
    """

    require: bool = False
    memory_gb: Annotated[float, Meta(gt=0)] | None = None


class Policy(Struct, frozen=True, forbid_unknown_fields=True):
    """When a run stops, what a plan must have, how many failures in a row call for a diagnosis.

    `max_hours` counts worked time. `min_plan_items` that is not said is the agent's own
    (`akg_tui.core.plan_rules`). The policy's `automation.max_rounds` becomes `max_rounds`.
    """

    max_rounds: Positive = 20
    max_hours: Seconds | None = None
    min_rounds: Positive = 1
    fail_streak: Positive = 3
    min_plan_items: Positive | None = None
    automation: AutomationPolicy | None = TUNING

    def __post_init__(self) -> None:
        automation = self.automation
        if automation is not None and automation.max_rounds is not None:
            force_setattr(self, "max_rounds", automation.max_rounds)
            force_setattr(self, "automation", replace(automation, max_rounds=None))


class Agent(Struct, frozen=True, forbid_unknown_fields=True):
    """Which model plays, and the seed of its own choices (never of the judge's inputs)."""

    model: Literal["sweep"] = "sweep"
    seed: Annotated[int, Meta(ge=0)] = 0


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    """One task: what to tune, against what, on which target."""

    op: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]
    files: Files = field(default_factory=Files)
    target: Target = field(default_factory=Target)
    correctness: Correctness = field(default_factory=Correctness)
    timing: Timing = field(default_factory=Timing)
    sandbox: Sandbox = field(default_factory=Sandbox)
    policy: Policy = field(default_factory=Policy)
    agent: Agent = field(default_factory=Agent)

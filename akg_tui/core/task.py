"""What a task is: the typed form of `task.toml`.

Only types and their bounds live here; reading the file, and telling the user
which line is wrong, is `akg_tui.store.task_folder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, ValidationError, convert, field, to_builtins
from msgspec.structs import force_setattr, replace

from akg_tui.core.stopping.automation import TUNING, AutomationPolicy

Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Fraction = Annotated[float, Meta(ge=0, lt=1)]

Backend = Literal["cpu", "cuda"]
Dsl = Literal["cpp", "torch", "triton"]


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

    Beyond these, a candidate meets unusual values and shapes as far as the reference takes
    them. `values` says which: `any`, infinities and NaN included; `finite`, without those;
    `drawn`, only what get_inputs() gives. `fixed_shape` spares it other shapes.
    `noncontiguous` adds inputs with gaps and permuted strides. `strides` says whether a
    result may lie in memory otherwise than the reference's. `deterministic` demands the
    same bits for the same input.
    """

    trials: Positive = 3
    tolerance: Annotated[float, Meta(gt=0)] | None = None
    values: Literal["any", "finite", "drawn"] = "any"
    fixed_shape: bool = False
    noncontiguous: bool = False
    strides: Literal["reference", "any"] = "reference"
    deterministic: bool = False


class Guard(Struct, frozen=True, forbid_unknown_fields=True):
    """What the static guard does with what it finds in a kernel's text.

    `level`: `warn` refuses nothing, `fail` what no honest kernel does, `strict` every
    finding. `kernel_must_do_the_work` forbids the framework's own compute ops.
    """

    level: Literal["warn", "fail", "strict"] = "fail"
    kernel_must_do_the_work: bool = False
    allow_compile: bool = False
    """Whether `torch.compile` may stand in for a kernel of one's own."""


class Timing(Struct, frozen=True, forbid_unknown_fields=True):
    """How a candidate is timed against the incumbent, and what a KEEP takes.

    `min_gain` is the fraction by which the lower confidence bound of the ratio must
    exceed 1. `budget_s` bounds the sampling of one comparison; `call_timeout_s` one
    call of a kernel; `build_timeout_s` loading and compiling it. `reads_all_inputs` states
    that no correct kernel can do without a byte of its inputs, so that a time too short to
    read them is refused; without it only the outputs count.
    """

    threads: Positive = 1
    min_gain: Fraction = 0.01
    budget_s: Seconds = 20.0
    call_timeout_s: Seconds = 10.0
    build_timeout_s: Seconds = 120.0
    reads_all_inputs: bool = False


class Sandbox(Struct, frozen=True, forbid_unknown_fields=True):
    """What a kernel's process is kept from. `require` refuses to start where that is less.

    `memory_gb` bounds the memory of one kernel's processes; half of the machine's when it
    is not said.
    """

    require: bool = False
    memory_gb: Annotated[float, Meta(gt=0)] | None = None


class Policy(Struct, frozen=True, forbid_unknown_fields=True):
    """When a run stops, what a plan must have, how many failures in a row call for a diagnosis.

    `max_rounds_without_keep` counts settled rounds since the last KEEP that stands.
    `max_hours` counts worked time. The agent's `finish` is refused until `min_rounds` rounds
    (at most `max_rounds`) are settled. `min_plan_items` that is not said is the agent's own
    (`akg_tui.core.plan.submission`). `diagnosis_attempts` bounds the reports and visits of one
    diagnosis before the plain facts take its place; `on_blocked` says what follows when the
    agent reports that it cannot go on. The policy's `automation.max_rounds` becomes
    `max_rounds`.
    """

    max_rounds: Positive = 20
    max_rounds_without_keep: Positive | None = None
    max_hours: Seconds | None = None
    min_rounds: Positive = 1
    fail_streak: Positive = 3
    min_plan_items: Positive | None = None
    diagnosis_attempts: Positive = 3
    on_blocked: Literal["diagnose", "ask", "stop"] = "diagnose"
    automation: AutomationPolicy | None = TUNING

    def __post_init__(self) -> None:
        automation = self.automation
        if automation is not None and automation.max_rounds is not None:
            force_setattr(self, "max_rounds", automation.max_rounds)
            force_setattr(self, "automation", replace(automation, max_rounds=None))


# The id that `claude` stands for. A run holds the id, so a newer default changes no old run.
DEFAULT_CLAUDE = "claude-opus-5-5"
SWEEP = "sweep"


EditFormat = Literal["hashline", "str_replace", "str_replace lines", "apply_patch", "unified diff"]


class Agent(Struct, frozen=True, forbid_unknown_fields=True):
    """Which model plays, where it is served, and what a call of it may take.

    `model` is `sweep`, `claude`, or any id that the server knows. `base_url` is a server
    that speaks the Anthropic Messages API; "" is Anthropic's own. The key itself is never
    here, only the file that may hold it. `max_output_tokens` bounds one reply,
    `context_tokens` is the size of prompt from which the next round begins with a new one.
    `thinking`: what the model does by itself (`default`), none (`off`), as much as it finds
    right (`adaptive`), or at most `thinking_tokens` (`budget`). `seed` is for the model's
    own choices, never for the judge's inputs. `tools` names a file of tool definitions in
    the task folder; without it `tools.yaml` and `domain_tools.yaml` are read where they
    are. `allow_script` lets scripts run without asking. `edit_format` is how a model sees
    and changes the kernel; the sweep agent has tags always.
    """

    model: Annotated[
        str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/@+-]*$")
    ] = SWEEP
    seed: Annotated[int, Meta(ge=0)] = 0
    tools: Annotated[str, Meta(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*\.ya?ml)?$")] = ""
    allow_script: bool = False
    base_url: Annotated[str, Meta(pattern=r"^(https?://[^\s/?#@]+(/[^\s?#]*)?)?$")] = ""
    api_key_file: str = ""
    max_output_tokens: Annotated[int, Meta(ge=256, le=128_000)] = 16_000
    context_tokens: Annotated[int, Meta(ge=4_000)] = 48_000
    thinking: Literal["default", "off", "adaptive", "budget"] = "default"
    thinking_tokens: Annotated[int, Meta(ge=1024)] = 4_096
    edit_format: EditFormat = "hashline"

    @property
    def edits_in(self) -> EditFormat:
        """The edit format of a run with this agent."""
        return "hashline" if self.model == SWEEP else self.edit_format

    def __post_init__(self) -> None:
        if self.thinking == "budget" and self.thinking_tokens >= self.max_output_tokens:
            raise ValueError("thinking_tokens must be less than max_output_tokens")


class BadAgent(ValueError):
    """A `setting` of an agent that is not allowed, and what would be."""

    def __init__(self, setting: str, why: str) -> None:
        super().__init__(f"{setting}: {why}")
        self.setting = setting
        self.why = why


def stated_agent(agent: Agent, said: Mapping[str, str]) -> Agent:
    """`agent` with what a person says besides, checked as a task's own. Raises `BadAgent`."""
    plain = {**to_builtins(agent), **said}
    if plain["model"] == "claude":
        plain["model"] = DEFAULT_CLAUDE
    try:
        return convert(plain, Agent)
    except ValidationError as error:
        why, _, place = str(error).partition(" - at `$.")
        raise BadAgent(place.rstrip("`"), why) from None


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    """One task: what to tune, against what, on which target."""

    op: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]
    files: Files = field(default_factory=Files)
    target: Target = field(default_factory=Target)
    correctness: Correctness = field(default_factory=Correctness)
    guard: Guard = field(default_factory=Guard)
    timing: Timing = field(default_factory=Timing)
    sandbox: Sandbox = field(default_factory=Sandbox)
    policy: Policy = field(default_factory=Policy)
    agent: Agent = field(default_factory=Agent)

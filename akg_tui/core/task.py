"""A task: the typed form of `task.toml`.

This module holds only types and their bounds. `akg_tui.store.task_toml` reads the file and
reports the faulty line to the user.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr, replace

from akg_tui.core.phases import TUNE, WORKFLOWS, Workflow
from akg_tui.core.sanitize import Said, check_name, one_line
from akg_tui.core.stopping.automation import TUNING, AutomationPolicy
from akg_tui.core.stopping.goals import METRICS

Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0, le=1e7)]
Fraction = Annotated[float, Meta(ge=0, lt=1)]
Position = Annotated[int, Meta(ge=0)]
INPUT_NAME = r"[^\W\d]\w*(\.\w+|\[\d+\])*"
"""The pattern of a name of an input, also in a container: `state.m[0]`; or of a weight."""

InputName = Annotated[str, Meta(pattern=rf"^{INPUT_NAME}\Z", max_length=200)]
Identifier = Annotated[str, Meta(pattern=r"^[^\W\d]\w*\Z", max_length=64)]

WORKFLOW_FILE = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\.toml"
"""The pattern of the name of a file with a phase table."""

MetricName = Annotated[
    str, Meta(min_length=1, max_length=64, pattern=r"^[^\s<>=]([^<>=\n]*[^\s<>=])?\Z")
]
Backend = Literal["cpu", "cuda", "ascend"]
CompileBaseline = Literal["compile", "max-autotune"]
Baseline = Literal["eager", CompileBaseline]
Dsl = Literal["cpp", "cuda_cpp", "ascendc", "torch", "triton", "helion"]


Editable = str | Annotated[tuple[str, ...], Meta(min_length=1, max_length=16)]
"""The name of the editable file, or the names of several."""


def names_of(editable: Editable) -> tuple[str, ...]:
    """Return the names in a value of `Files.editable`."""
    return (editable,) if isinstance(editable, str) else editable


class Files(Struct, frozen=True, forbid_unknown_fields=True):
    """File names inside the task folder. An agent may change only the files `editable`.

    `editable` is one file, or a list whose first file is the kernel that the judge loads.
    `context` are globs of text files in the folder that the agent may read and search. A name that
    could leave the folder raises `BadName`.
    """

    reference: str = "reference.py"
    editable: Editable = "kernel.py"
    context: Annotated[tuple[str, ...], Meta(max_length=16)] = ()

    def __post_init__(self) -> None:
        check_name("reference", self.reference)
        for name in self.names:
            check_name("editable", name)
        for pattern in self.context:
            check_name("context", pattern, folders=True)
        if len(self.names) == 1:  # so that a list of one file is that file in the journal too
            force_setattr(self, "editable", self.names[0])

    @property
    def names(self) -> tuple[str, ...]:
        """The editable files; the kernel that the judge loads is the first."""
        return names_of(self.editable)

    @property
    def kernel(self) -> str:
        """The file that the judge loads."""
        return self.names[0]


class ReferenceChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """What the task changes in its reference, whose file stays as it is.

    `constants` are other values for numbers that the file binds at its top level, by name. With
    `gradients` `forward` gives a loss, and the results are its gradients for these parameters of
    `forward` and weights.
    """

    constants: dict[str, int | float] = {}
    gradients: tuple[InputName, ...] = ()


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes that a kernel is verified and timed on, beside those of the task's other cases.

    `sizes` are values for numbers that the reference binds at its top level, by name, instead of
    those of `reference.constants`. `weight` is the share of the case in the geometric mean of
    the ratios, relative to the other weights.
    """

    name: Annotated[str, Meta(min_length=1, max_length=32, pattern=r"^[^\W_][\w.-]*\Z")]
    sizes: dict[str, int | float] = {}
    weight: Annotated[float, Meta(gt=0, le=1e6)] = 1.0


class Target(Struct, frozen=True, forbid_unknown_fields=True):
    """The hardware and the DSL of the kernel. `arch` is a free-text note (for example `zen4`)."""

    backend: Backend = "cpu"
    dsl: Dsl = "cpp"
    arch: str = ""


InputStructure = Literal[
    "any", "zeros and ones", "no empty rows", "one-hot rows", "positive", "sorted rows",
    "permutations", "distinct", "lower triangular", "upper triangular", "banded", "fixed zeros",
    "symmetric", "positive definite", "orthogonal",
]  # fmt: skip
"""A structure of an input that the judge keeps in all values that it tries; `any`: none is kept."""


CheckName = Annotated[str, Meta(max_length=128, pattern=r"^([\w-][\w.-]*\.py:[^\W\d]\w*)?\Z")]
"""A function of a file in the task's folder, as ``check.py:check``."""


class Correctness(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules by which the judge compares a candidate with the reference.

    `trials` fresh inputs are drawn from a secret seed at every evaluation.
    `tolerance` bounds ``max|y - ref| / (|ref| + rms(ref))``; without it the bound
    comes from the dtype and from the reference's own rounding error.

    `check` names a function of a file in the folder that judges results in place of that.

    The judge also tests unusual values and shapes, if the reference accepts them. `values` selects
    the values that count: `any` counts infinities and NaN too, with `finite` a difference there is
    a note, `drawn` uses only the values of get_inputs(). `fixed_shape` excludes other shapes.
    `noncontiguous` adds inputs with gaps and permuted strides. With `strides` "reference" a result
    must have the reference's strides. `deterministic` demands equal bits for equal inputs.
    `free_inputs` are inputs, by the name of their parameter in `forward` or by position from 0,
    that a kernel may ignore. `inputs` are the structures of inputs, by name or position, instead of
    those that the judge finds.
    """

    trials: Positive = 3
    tolerance: Annotated[float, Meta(gt=0)] | None = None
    check: CheckName = ""
    values: Literal["any", "finite", "drawn"] = "finite"
    fixed_shape: bool = False
    noncontiguous: bool = False
    strides: Literal["reference", "any"] = "reference"
    deterministic: bool = False
    free_inputs: tuple[InputName | Position, ...] = ()
    inputs: dict[str, InputStructure | tuple[InputStructure, ...]] = {}

    def __post_init__(self) -> None:
        if self.check and self.tolerance is not None:
            raise ValueError("`check` judges the results, so `tolerance` has no meaning beside it")


class Guard(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules that refuse a kernel although its results are right.

    `level`: at `warn` the findings of the static guard are reported and refuse nothing, at `fail`
    and `strict`, which are the same, they refuse. `kernel_must_do_the_work`: a kernel that leaves
    work to the framework or to a library of linear algebra is refused, unless the level is `warn`.
    """

    level: Literal["warn", "fail", "strict"] = "fail"
    kernel_must_do_the_work: bool = False
    allow_compile: bool = False
    """Whether a kernel may call `torch.compile` instead of its own code."""


class Timing(Struct, frozen=True, forbid_unknown_fields=True):
    """The timing of a candidate against the incumbent, and the condition for a KEEP.

    For a KEEP the lower confidence bound of the ratio must exceed 1 by the fraction `min_gain`, and
    no case of the task may be slower by more than the fraction `max_regression` beyond doubt.
    `budget_s` bounds the sampling of one comparison, `call_timeout_s` one call of a kernel,
    `verify_timeout_s` all calls of its verification together, in every case, and what its results
    cost the task's own check in a case beyond the time for the reference's, and
    `build_timeout_s` its compilation and loading. `reads_all_inputs` states that a correct kernel
    must read every byte of its inputs, so that the judge refuses a time too short to read them;
    without it the judge counts only the outputs.
    """

    threads: Annotated[int, Meta(ge=1, le=1024)] = 1
    min_gain: Fraction = 0.01
    max_regression: Fraction = 0.02
    budget_s: Seconds = 20.0
    call_timeout_s: Seconds = 10.0
    verify_timeout_s: Seconds = 300.0
    build_timeout_s: Seconds = 120.0
    reads_all_inputs: bool = False


class Sandbox(Struct, frozen=True, forbid_unknown_fields=True):
    """The confinement of a kernel's process. With `require` no run starts without all protections.

    `memory_gb` bounds the memory of one kernel's processes; the default is half of the
    machine's memory.
    """

    require: bool = False
    memory_gb: Annotated[float, Meta(gt=0, le=1e6)] | None = None


class Policy(Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of a run, the size of a plan, and the failures in a row that force a diagnosis.

    `max_rounds_without_keep` counts settled rounds since the last KEEP that was not undone.
    `max_hours` counts worked time. A best kernel that reaches `max_bound_share` of the rate of
    memory, where that bounds it, ends the run. The agent's `finish` is refused until `min_rounds`
    rounds (at most `max_rounds`) are settled. Without `min_plan_items` the agent's default applies
    (`akg_tui.core.plan.submission`). `diagnosis_attempts` bounds the refused reports and failed
    visits of one diagnosis; then a diagnosis made from the last failures replaces it.
    `trials` bounds the kernels that the agent may try for one item without settling it, and
    `trial_s` the seconds of one of them.
    After `discard_streak` DISCARDs since the last KEEP, diagnosis or plan made for that reason,
    `on_discards` follows. Without the number it is 10, and the sweep agent has no such limit.
    `on_blocked` is the reaction to an agent's report that it is blocked. A value in
    `automation.max_rounds` is moved to `max_rounds`.
    """

    max_rounds: Positive = 20
    max_rounds_without_keep: Positive | None = None
    max_hours: Seconds | None = None
    max_bound_share: Annotated[float, Meta(gt=0)] | None = 0.85
    min_rounds: Positive = 1
    fail_streak: Positive = 3
    discard_streak: Positive | None = None
    on_discards: Literal["diagnose", "plan"] = "plan"
    min_plan_items: Positive | None = None
    diagnosis_attempts: Positive = 3
    trials: Annotated[int, Meta(ge=0)] = 5
    trial_s: Seconds = 300.0
    on_blocked: Literal["diagnose", "ask", "stop"] = "diagnose"
    automation: AutomationPolicy | None = TUNING

    def __post_init__(self) -> None:
        automation = self.automation
        if automation is not None and automation.max_rounds is not None:
            force_setattr(self, "max_rounds", automation.max_rounds)
            force_setattr(self, "automation", replace(automation, max_rounds=None))


# The model id for the name `claude`. A run stores the id, so a new default changes no old run.
DEFAULT_CLAUDE = "claude-opus-5-5"
SWEEP = "sweep"
MODEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:/@+-]*\Z"
MCP = "mcp"  # the agent of a run that a client drives from outside, `akg-tui mcp`


Api = Literal["messages", "chat"]
"""The API of a model's server: Anthropic's Messages API, or OpenAI's chat completions."""

MAKERS: dict[Api, str] = {
    "messages": "https://api.anthropic.com",
    "chat": "https://api.openai.com/v1",
}
"""The server of each API's maker."""


def is_makers(server: str, api: Api) -> bool:
    """Return whether an address is that of the API's maker."""
    return server.rstrip("/") == MAKERS[api]


class Agent(Struct, frozen=True, forbid_unknown_fields=True):
    """The model of the agent, its server, and the limits of one call.

    `model` is `sweep`, `claude`, or a model id of the server. `api` is the API that the server
    at `base_url` speaks; "" is the server of the API's maker. The key is never stored here;
    `api_key_file` is the path of the file with the key. `max_output_tokens` bounds one
    reply. When a prompt reaches `context_tokens`, the next round begins with a new prompt.
    `thinking`: the model's default (`default`), none (`off`), an amount that the model
    chooses (`adaptive`), or at most `thinking_tokens` (`budget`). `seed` seeds the model's
    own choices, never the judge's inputs. `tools` names a file of tool definitions in
    the task folder; without it `tools.yaml` and `domain_tools.yaml` are read, where they
    exist. `functions` names a Python file in the task folder whose functions are tools.
    `allow_script` lets scripts run without asking; left out, they may where every protection of
    the sandbox holds, and then write to a scratch folder alone. `instructions` are a person's, and
    stand after the rules in the agent's prompt.
    `idle_work`: the judge measures while a served model is waited for.
    """

    model: Annotated[str, Meta(min_length=1, max_length=128, pattern=MODEL_NAME)] = SWEEP
    seed: Annotated[int, Meta(ge=0)] = 0
    tools: Annotated[str, Meta(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*\.ya?ml)?\Z")] = ""
    functions: Annotated[str, Meta(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*\.py)?\Z")] = ""
    packages: tuple[str, ...] = ()  # of earlier journals: a run with any can be read, not resumed
    allow_script: bool | None = None
    api: Api = "messages"
    base_url: Annotated[str, Meta(pattern=r"^(https?://[^\s/?#@]+(/[^\s?#]*)?)?\Z")] = ""
    api_key_file: str = ""
    max_output_tokens: Annotated[int, Meta(ge=256, le=128_000)] = 16_000
    context_tokens: Annotated[int, Meta(ge=4_000)] = 48_000
    thinking: Literal["default", "off", "adaptive", "budget"] = "default"
    thinking_tokens: Annotated[int, Meta(ge=1024)] = 4_096
    instructions: Annotated[str, Meta(max_length=8_000)] = ""
    edit_format: str = "hashline"  # of earlier tasks and journals: every run edits by tags
    idle_work: bool = True

    @property
    def server(self) -> str:
        """The address of the server that the model is asked at; "" where no server is."""
        if self.model in (SWEEP, MCP):
            return ""
        return self.base_url or MAKERS[self.api]

    def __post_init__(self) -> None:
        if self.thinking == "budget" and self.thinking_tokens >= self.max_output_tokens:
            raise ValueError("thinking_tokens must be less than max_output_tokens")
        if self.api == "chat" and self.thinking != "default":
            raise ValueError("thinking is set by the Messages API only: leave it at default")


AGENT_FILES = ("tools", "functions")
"""The settings of an agent that name a file of the task folder."""


def host_of(server: str) -> str:
    """Return the host and port of an address, cleaned; "" for ""."""
    return _end(server.partition("://")[2].partition("/")[0], 80)


def _end(text: str, width: int) -> str:
    """Return the last characters of a text, cleaned: the end tells whose a host is, and which file
    a path names.
    """
    line = one_line(text)
    return line if len(line) <= width else f"…{line[1 - width :]}"


class Act(Struct, frozen=True):
    """Something that a folder's settings do outside the sandbox, for which they need trust.

    `what` is an address, a path or a name; `more` the server of a key file, or the digest of a tool
    file. `own-key` is never a folder's: a person has named that server. The text is one sentence.
    """

    kind: Literal["server", "key-file", "own-key", "tools", "scripts"]
    what: str = ""
    more: str = ""

    def __str__(self) -> str:
        what = _end(self.what, 120)
        if self.kind in ("server", "own-key"):
            what = f"{self.what.partition('://')[0]}://{host_of(self.what)}"
        match self.kind:
            case "server":
                return Said("the task, its kernels and what the agent reads go to {url}", url=what)
            case "key-file":
                return Said(
                    "the content of the file {path} goes to {host} as the key",
                    path=what,
                    host=host_of(self.more),
                )
            case "own-key":
                return Said("the key of your environment may go to {url}", url=what)
            case "tools":
                return Said("the agent calls the tools that {file} defines", file=what)
            case "scripts":
                return "scripts of the agent run without asking you"


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    """One task: the operator `op` to tune, its files, its target, and the rules of the run.

    Without `cases` a kernel is verified and timed on the sizes of the reference alone.
    `workflow` names the phase table, of the program or in a file of the folder. Without it a run of
    a model is `write_then_tune`, one of the sweep agent `tune`; the task of a run says which. Older
    journals do not: they are `tune`.
    `baselines` are measured once a run, besides the seed against the reference. With `eager` the
    best kernel is timed against the reference when the run ends. With `compile` the reference under
    `torch.compile` is timed after the first KEEP, or at the end; with `max-autotune` also in that
    mode.
    `metrics` are the names of numbers that the function `metrics` of the reference returns for a
    correct kernel; a goal may name them.
    With `estimate`, the name of an arch, no kernel is timed: each is verified in Triton's
    interpreter, compiled for that arch, and ranked by an estimate.
    """

    op: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[\w.-]+\Z")]
    baselines: tuple[Baseline, ...] = ()
    metrics: Annotated[tuple[MetricName, ...], Meta(max_length=32)] = ()
    files: Files = field(default_factory=Files)
    reference: ReferenceChanges = field(default_factory=ReferenceChanges)
    cases: Annotated[tuple[Case, ...], Meta(max_length=32)] = ()
    target: Target = field(default_factory=Target)
    correctness: Correctness = field(default_factory=Correctness)
    guard: Guard = field(default_factory=Guard)
    timing: Timing = field(default_factory=Timing)
    sandbox: Sandbox = field(default_factory=Sandbox)
    policy: Policy = field(default_factory=Policy)
    agent: Agent = field(default_factory=Agent)
    workflow: (
        Annotated[str, Meta(pattern=rf"^({'|'.join(WORKFLOWS)}|{WORKFLOW_FILE})\Z")] | None
    ) = None
    table: Workflow | None = None
    """The phase table in the file that `workflow` names: the reader of the folder adds it."""
    estimate: Annotated[str, Meta(max_length=32, pattern=r"^[A-Za-z0-9_-]*\Z")] = ""
    check_source: str = ""
    """The text of the file that `correctness.check` names, if that is not the reference: the reader
    of the folder adds it."""

    def __post_init__(self) -> None:
        names = [case.name for case in self.cases]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise ValueError(f"two cases are named {twice!r}")
        taken = (*METRICS, *self.metrics)
        if again := next((name for name in self.metrics if taken.count(name) > 1), ""):
            raise ValueError(f"two metrics are named {again!r}")

    def with_other_reference(self) -> Task:
        """Return the task's rules for another reference, without what concerns its own."""
        return replace(
            self,
            baselines=(),
            metrics=(),
            reference=ReferenceChanges(),
            cases=(),
            correctness=Correctness(),
        )

    @property
    def phases(self) -> Workflow:
        """The phase table of the task."""
        return self.table or WORKFLOWS.get(self.workflow or "", TUNE)

    def constants(self, case: Case | None = None) -> dict[str, int | float]:
        """Return the values that replace numbers of the reference, in a case or without one."""
        return self.reference.constants | (case.sizes if case is not None else {})

"""The contents of a report, as values: the schema of `report.json` (`docs/report.md`).

Only data. Names carry units; text is as in the journal, and the code that shows it must sanitize
it. A change of meaning raises `SCHEMA`, a new field does not.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import CaseTiming, InputError, Interval, Metric
from akg_tui.core.phases import Workflow
from akg_tui.core.summary import Ratios
from akg_tui.core.task import Editable

SCHEMA = 1


class Result(Struct, frozen=True):
    """The result that a run exports, once a person has asked for it."""

    output_type: str
    output_path: str
    commit: str
    summary: str


class About(Struct, frozen=True, kw_only=True):
    """The identity of the run, its settings and its progress.

    `held_why` tells why a run that is not over does not go on by itself.
    `tries_to_write` are the rounds in which the agent wrote the first correct kernel, or tried to.
    """

    run_id: str
    op: str
    backend: str
    dsl: str
    arch: str
    agent: str
    mode: str
    workflow: str
    made_by_version: str
    phase: str
    ended: bool
    ended_ok: bool
    ended_why: str
    held_why: str = ""
    table: Workflow | None = None
    started_utc: str
    last_event_utc: str
    worked_s: float
    rounds: int
    tries_to_write: int
    max_rounds: int
    verdicts: dict[str, int]
    open_items: int
    estimate: str = ""


class Figures(Struct, frozen=True, kw_only=True):
    """The figures to quote: `best` has those of the best kernel, provisional unless `fresh`.

    `speedup_over_seed` is the final measurement, made afresh; `estimate_over_seed` the product of
    the kept ratios, available before that measurement. `compile` is the reference under
    `torch.compile`, in ratios in the faster of the measured modes; `compile_problem` and
    `max_autotune_problem` tell why a mode has no time.
    """

    best: Ratios | None

    speedup_over_seed: Interval | None
    estimate_over_seed: Interval | None
    reference_over_seed: Interval | None
    compile_over_seed: Interval | None
    compile_over_reference: Interval | None
    best_over_reference: float | None
    seed_ms: float | None
    reference_ms: float | None
    best_ms: float | None
    compile_ms: float | None
    compile_problem: str
    max_autotune_ms: float | None = None
    max_autotune_problem: str = ""


class Round(Struct, frozen=True, kw_only=True):
    """One settled round. `ratio` compares the candidate with the incumbent of its round.

    `again_of` is the attempt whose kernel this round measured again. `errors` are those nearest to
    their bound, one for each case and dtype.
    """

    round: int
    attempt: int
    item: str
    text: str
    rationale: str
    direction: str
    verdict: str
    reason: str
    ratio: Interval | None
    estimate_over_seed: Interval | None
    incumbent_over_seed: float
    candidate_ms: float | None
    incumbent_ms: float | None
    max_error: float | None
    tolerance: float | None
    commit: str
    settled_utc: str
    measured_s: float
    again_of: int | None = None
    cases: tuple[CaseTiming, ...] = ()
    errors: tuple[InputError, ...] = ()
    metrics: tuple[Metric, ...] = ()


class Direction(Struct, frozen=True, kw_only=True):
    """All rounds whose texts set equal knobs or, without knobs, begin with equal words."""

    name: str
    rounds: int
    kept: int
    discarded: int
    failed: int
    best_ratio: float | None
    reasons: tuple[str, ...]
    inconclusive: int = 0


class Diagnosis(Struct, frozen=True):
    at_utc: str
    cause: str
    avoid: tuple[str, ...]
    directions: tuple[str, ...]
    source: str


class TimedNote(Struct, frozen=True):
    """An event in words, with its number."""

    at_utc: str
    seq: int
    what: str


class Step(Struct, frozen=True):
    """From this round on, the incumbent's estimated speedup over the seed."""

    after_round: int
    attempt: int
    over_seed: float


class Tokens(Struct, frozen=True):
    model: str
    tokens: dict[str, int]


class Spent(Struct, frozen=True, kw_only=True):
    """`cost_usd` is None when a model without a price was used."""

    input_tokens: int
    output_tokens: int
    by_model: tuple[Tokens, ...]
    cost_usd: float | None
    price_table: str


class Stop(Struct, frozen=True):
    """Why the run stopped: all conditions that held, in order of precedence."""

    primary: str
    conditions: tuple[str, ...]
    goals_met: bool


class Protection(Struct, frozen=True):
    """One protection of the sandbox, and the number of evaluations in which it was in force."""

    name: str
    meaning: str
    evaluations: int


class Sandbox(Struct, frozen=True):
    evaluations: int
    protections: tuple[Protection, ...]


class Disturbed(Struct, frozen=True):
    """A timing on a disturbed machine: of the baseline, an attempt, or the final measurement.

    `smallest_gain` is the smallest gain that it would have seen, 0.03 for 3 %.
    """

    what: str
    noise: tuple[str, ...]
    smallest_gain: float


class Noise(Struct, frozen=True):
    """The number of timings, and those on a disturbed machine, in their order."""

    timings: int
    disturbed: tuple[Disturbed, ...]


class Source(Struct, frozen=True):
    """A kernel's text, and its location in git. A kernel in several files has these by name too."""

    attempt: int
    blob: str
    commit: str
    text: str
    files: dict[str, str] = {}

    @classmethod
    def of(cls, attempt: int, blob: str, commit: str, kernel: KernelFiles) -> Source:
        """Return a kernel that stands there in git."""
        files = kernel.texts if len(kernel.texts) > 1 else {}
        return cls(attempt, blob, commit, kernel.page, files)

    def kernel(self, name: str) -> KernelFiles:
        """Return the files; `name` is that of a single one."""
        return KernelFiles(self.files or {name: self.text})


class Journal(Struct, frozen=True):
    """`head_sha256` is of the whole line of the last event in the report."""

    file: str
    events: int
    head_sha256: str


class Report(Struct, frozen=True, kw_only=True):
    """The whole report. `status` and `result` are under the export guard (`docs/policy.md`).

    `errors`, `correctness_notes` and `metrics` are those of the best kernel: all errors by case,
    kind of input and dtype, of its last verification.
    """

    schema: int
    status: str
    result: Result | None
    notes: tuple[str, ...]
    about: About
    figures: Figures
    cases: tuple[CaseTiming, ...]
    errors: tuple[InputError, ...] = ()
    correctness_notes: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    stop: Stop
    rounds: tuple[Round, ...]
    incumbents: tuple[Step, ...]
    directions: tuple[Direction, ...]
    diagnoses: tuple[Diagnosis, ...]
    baseline_problem: str
    interventions: tuple[TimedNote, ...]
    sessions: tuple[TimedNote, ...]
    spent: Spent
    settings: dict[str, Any]
    policy: dict[str, Any]
    environment: dict[str, tuple[str, ...]]
    noise: Noise
    sandbox: Sandbox
    kernel_file: Editable
    seed: Source
    best: Source
    reference_sha256: str
    seed_sha256: str
    journal: Journal

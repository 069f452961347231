"""The state of a run: what the journal adds up to. Frozen; only `evolve` makes the next one."""

from __future__ import annotations

from msgspec import Struct

from akg_tui.core.capabilities import Capabilities
from akg_tui.core.events import ApiWaiting, DiagnosisReported, PlanEdited
from akg_tui.core.machine import ItemState, Mode, Phase, Verdict
from akg_tui.core.measurement import Interval, Measurement
from akg_tui.core.prices import Usage
from akg_tui.core.task import Task


class Item(Struct, frozen=True, gc=False):
    """A plan item and, once settled, what became of it."""

    id: str
    text: str
    rationale: str = ""
    state: ItemState = ItemState.PENDING
    round: int | None = None
    attempt: int | None = None
    ratio: Interval | None = None
    reason: str = ""
    commit: str = ""


class Attempt(Struct, frozen=True, gc=False):
    """One kernel version that was evaluated. Attempt 0 is the seed.

    `over_seed` is the product of the kept ratios up to this attempt times its own:
    an estimate for the chart, and `speedup` the same with its bounds, for goals. The
    figure to quote is the FINAL measurement.
    """

    number: int
    round: int
    item: str
    blob: str
    commit: str
    verdict: Verdict
    reason: str
    measurement: Measurement
    over_seed: float | None
    at: float
    speedup: Interval | None = None


class Incumbent(Struct, frozen=True):
    attempt: int
    blob: str
    commit: str
    over_seed: float = 1.0
    speedup: Interval = Interval(1.0, 1.0, 1.0, 1.0)


class OpenGate(Struct, frozen=True):
    """A question to the person. `answer` is "" until it is given."""

    gate: int
    attempt: int
    answer: str = ""
    comment: str = ""


class Running(Struct, frozen=True):
    """The evaluation that was started and has no result yet."""

    attempt: int
    purpose: str
    blob: str
    since: float


class RunState(Struct, frozen=True, kw_only=True):
    """Everything a run is, after the event number `seq`."""

    run_id: str
    task: Task
    mode: Mode
    agent: str
    seed_blob: str
    reference_sha256: str
    seq: int
    started_at: float
    last_at: float
    worked_s: float = 0.0

    phase: Phase = Phase.INIT
    phase_since: float = 0.0
    paused: bool = False
    granted: int = 0

    items: tuple[Item, ...] = ()
    active: str | None = None
    round: int = 0
    settled: int = 0
    fail_streak: int = 0

    best: Incumbent | None = None
    work_blob: str = ""
    edited: bool = False
    turn_open: bool = False
    open_calls: tuple[tuple[str, str], ...] = ()  # (call, tool) without an answer
    visits_failed: int = 0
    plans_refused: int = 0  # submit_plan calls in a row that were answered with an error
    closing_reply: str = ""  # the last reply's text, unless it called a tool
    visit_failed_here: bool = False
    visit_failure: str = ""  # why the last visit that failed did

    api_wait: ApiWaiting | None = None  # the model's server is given time
    api_failure: str = ""  # why the model cannot be used; a new session tries again
    capabilities: Capabilities | None = None  # of the model's server, once it was asked

    attempts: tuple[Attempt, ...] = ()
    next_attempt: int = 1
    running: Running | None = None
    measured: Measurement | None = None
    eval_errors: int = 0
    decided_here: bool = False
    gate: OpenGate | None = None
    gates_opened: int = 0

    baseline: Measurement | None = None
    final: Measurement | None = None
    diagnosis: DiagnosisReported | None = None
    diagnosed_here: bool = False
    hints: tuple[str, ...] = ()

    input_tokens: int = 0  # with what was read from a cache or written to one
    output_tokens: int = 0
    usage: tuple[Usage, ...] = ()  # the same tokens by model and kind
    finish_reason: str = ""
    stop_reason: str = ""
    stop_conditions: tuple[str, ...] = ()
    goals_met: bool = False
    plan_edits: tuple[PlanEdited, ...] = ()
    finished: str = ""
    ok: bool = True

    def item(self, item_id: str) -> Item:
        """The item with this id. Raises `KeyError` when there is none."""
        for item in self.items:
            if item.id == item_id:
                return item
        raise KeyError(item_id)

    @property
    def pending(self) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.state is ItemState.PENDING)

    @property
    def tokens(self) -> int:
        """Input and output tokens of the whole run, over all its sessions."""
        return self.input_tokens + self.output_tokens

    def count(self, verdict: Verdict) -> int:
        """How many attempts ended with this verdict."""
        return sum(attempt.verdict is verdict for attempt in self.attempts if attempt.number)

    def worked(self, now: float) -> float:
        """Seconds worked so far, without the time between sessions."""
        return self.worked_s if self.finished else self.worked_s + max(0.0, now - self.last_at)

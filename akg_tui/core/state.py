"""The state of a run: the fold of its journal. Frozen; only `evolve` makes the next state.

The module also changes the state of plan items, checked against the table of item states.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.core.events import (
    ApiWaiting,
    DiagnosisReported,
    Forked,
    IdleMeasured,
    MachineDescribed,
    MemoryRecalled,
    PlanEdited,
    PlannedItem,
    Purpose,
    Scope,
    ShortlistTaken,
    UndoQueued,
)
from akg_tui.core.measurement import Interval, Measurement, Outcome
from akg_tui.core.model_info import Capabilities, Usage
from akg_tui.core.phases import (
    ADVANCES,
    SETTLE,
    Gate,
    ItemState,
    Mode,
    Phase,
    Row,
    Verdict,
    Workflow,
    check_item,
)
from akg_tui.core.sanitize import SaidError
from akg_tui.core.task import SWEEP, Task

DISCARD_STREAK = 10
"""The default of the policy's `discard_streak`, for every agent but the sweep."""


class Item(Struct, frozen=True, gc=False):
    """A plan item and, once it is settled, its result.

    `pinned`: only a person can drop it. `undone`: a person undid its KEEP. An item that is
    PENDING or ACTIVE and has an `attempt` was measured and is not settled; `verdict` is that of
    the attempt, and `unproved` counts the INCONCLUSIVE verdicts in a row on this kernel since it
    was made or a person asked. `reopened` counts how often the agent took it up again. `blob` is
    the kernel of an item that has one from the beginning (workflow `settle`).
    """

    id: str
    text: str
    rationale: str = ""
    state: ItemState = ItemState.PENDING
    round: int | None = None
    attempt: int | None = None
    ratio: Interval | None = None
    reason: str = ""
    commit: str = ""
    pinned: bool = False
    undone: bool = False
    verdict: Verdict | None = None
    unproved: int = 0
    reopened: int = 0
    blob: str = ""

    @property
    def inconclusive(self) -> bool:
        """Whether the item came back to the plan because its gain was not proved."""
        return self.state is ItemState.PENDING and self.verdict is Verdict.INCONCLUSIVE

    @property
    def word(self) -> str:
        """The item's state in one word, for the agent and for people."""
        if self.inconclusive:
            return Verdict.INCONCLUSIVE.value
        return "UNDONE" if self.undone else self.state.value


class Attempt(Struct, frozen=True, gc=False):
    """One kernel version that was evaluated. Attempt 0 is the seed.

    `over_seed` is the product of the kept ratios before this attempt, times its own ratio:
    an estimate, for the chart. `speedup` is this estimate with its bounds, for goals. The
    figure to quote is the FINAL measurement. `tokens` counts the whole run's tokens until the
    attempt was settled. `incumbent` is the blob of the kernel that it was measured against.
    `again_of` is the attempt whose kernel was measured again in this one.
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
    tokens: int = 0
    lost: bool = False  # the kernel's text is lost: the attempt is listed but never used
    incumbent: str = ""
    again_of: int | None = None

    @property
    def advanced(self) -> bool:
        """Whether its kernel became the best, and the base of the next item."""
        return self.verdict in ADVANCES


class Draft(Struct, frozen=True, gc=False):
    """A kernel that the agent wrote in phase WRITE and that was not correct: no attempt."""

    round: int
    blob: str
    measurement: Measurement


class Incumbent(Struct, frozen=True):
    attempt: int
    blob: str
    commit: str
    over_seed: float = 1.0
    speedup: Interval = Interval(1.0, 1.0, 1.0, 1.0)


class OpenGate(Struct, frozen=True):
    """A request that waits for a person's approval. `answer` is "" until the person answers.

    `since` is the start of the wait, in seconds since the epoch.
    """

    gate: int
    attempt: int
    answer: str = ""
    comment: str = ""
    kind: str = "keep"
    subject: str = ""
    detail: str = ""
    agent: str = ""
    interpreter: str = ""
    since: float = 0.0


class Rule(Struct, frozen=True, gc=False):
    """An approval rule of a person. `ended` is "" while the rule is in force, then why it ended.

    `gate` is the request whose answer made the rule, `at` the time in seconds since the epoch;
    `used` counts the requests that the rule has approved.
    """

    number: int
    scope: Scope
    gate: int
    at: float
    used: int = 0
    ended: str = ""


class Question(Struct, frozen=True):
    """A question of the agent. `answer` is None while it is open.

    `until` is the time at which its default is taken (seconds since the epoch), None: never.
    `since` is the time of the question. `source` is the source in `QuestionAnswered`.
    """

    number: int
    text: str
    choices: tuple[str, ...]
    default: str | None
    until: float | None
    attended: bool
    answer: str | None = None
    source: str = ""
    since: float = 0.0


class Demand(Struct, frozen=True):
    """A demand for a plan or a diagnosis (`kind`: "plan" or "diagnosis") that has not begun."""

    kind: str
    reason: str


class Trial(Struct, frozen=True, gc=False):
    """A kernel that the agent tried without settling its item; `told` is its outcome in a line.

    `sweep` is the number of the sweep that made it, 0 for a trial alone. `faster` is the lower
    bound of its ratio over `incumbent`, the kernel that it was measured against; 0 without one.
    """

    number: int
    item: str
    blob: str
    told: str
    sweep: int = 0
    incumbent: str = ""
    faster: float = 0.0


class Subagent(Struct, frozen=True, gc=False):
    """A subagent at work, with its model calls and tokens so far.

    `call` is the tool call that the subagent answers; "" for a subagent that is the visit itself.
    `hints` are a person's messages that no request has carried yet; `stopped`: a person
    has stopped the subagent, and its end is not journaled yet.
    """

    id: str
    agent: str
    call: str = ""
    calls: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    hints: tuple[str, ...] = ()
    stopped: bool = False
    stop_reason: str = ""


class Running(Struct, frozen=True):
    """An evaluation that has started and has no result yet; `since` is seconds since the epoch."""

    attempt: int
    purpose: str
    blob: str
    since: float


class RunState(Struct, frozen=True, kw_only=True):
    """The whole state of a run after event number `seq`.

    `seed_blob` is the kernel that BASELINE measures: the task's own or, in a workflow in which
    the agent writes, the last one that it wrote.
    """

    run_id: str
    task: Task
    mode: Mode
    gates: tuple[Gate, ...] = ()
    agent: str
    seed_blob: str
    reference_sha256: str
    seq: int
    started_at: float
    last_at: float
    worked_s: float = 0.0

    phase: Phase = Phase.INIT
    phase_since: float = 0.0
    phase_reason: str = ""  # why the phase was entered
    paused: bool = False
    granted: int = 0

    items: tuple[Item, ...] = ()
    queue: tuple[str, ...] = ()  # the order of the pending items, if it is not by id
    active: str | None = None
    plan_owed: bool = False  # the agent must submit a plan even if items are pending
    plan_approved: bool = False
    demand: Demand | None = None
    undo_queued: UndoQueued | None = None
    recalls: int = 0  # visits that a person's command cut off
    round: int = 0
    settled: int = 0
    measured_anew: int = 0  # of the settled rounds, those in which the harness measured again
    fail_streak: int = 0
    discard_streak: int = 0  # since the last KEEP, diagnosis, or plan made for that reason
    discards_ended: bool = False  # by this phase: too many DISCARDs led to it
    reopened: tuple[str, ...] = ()  # items that the agent reopened in this phase
    blocked_item: str = ""  # why the active item is to be suspended
    finish_agreed: bool = False  # a diagnosis found no direction left, and nothing came since

    best: Incumbent | None = None
    former: tuple[Incumbent, ...] = ()  # earlier incumbents, which an undo restores
    undone: tuple[int, ...] = ()  # attempts whose KEEP was undone
    work_blob: str = ""
    edited: bool = False
    turn_open: bool = False
    open_calls: tuple[tuple[str, str], ...] = ()  # (call, tool) without an answer
    subagents: tuple[Subagent, ...] = ()  # only those at work
    subagents_started: int = 0
    visits_failed: int = 0
    plans_refused: int = 0  # submit_plan calls in a row with an error
    plan_faults: tuple[str, ...] = ()  # the last different ones of them
    closing_reply: str = ""  # the last reply's text, unless it called a tool
    visit_failed_here: bool = False
    blocked: bool = False  # the agent reported in this turn that it is blocked
    visit_failure: str = ""  # the reason of the last failed visit

    api_wait: ApiWaiting | None = None  # the present wait for the model's server
    api_failure: str = ""  # why the model cannot be used; a new session clears it
    machine: MachineDescribed | None = None  # as the prompts have it
    memory: MemoryRecalled | None = None  # as the prompts have it
    capabilities: Capabilities | None = None  # of the model's server, after its probe

    attempts: tuple[Attempt, ...] = ()
    drafts: tuple[Draft, ...] = ()  # before the first correct kernel
    trials: tuple[Trial, ...] = ()  # of all items
    idle: tuple[IdleMeasured, ...] = ()  # measured during waits for the model
    next_attempt: int = 1
    running: Running | None = None
    queued: bool = False  # the judge waits for the right to time
    measured: Measurement | None = None
    eval_errors: int = 0
    decided_here: bool = False
    gate: OpenGate | None = None
    gates_opened: int = 0
    approved_blob: str = ""  # the kernel text that is approved to run
    scripts: tuple[tuple[str, bool], ...] = ()  # (digest, approved) of each answered script
    rules: tuple[Rule, ...] = ()  # all rules, also ended ones, by number
    questions: tuple[Question, ...] = ()

    baseline: Measurement | None = None
    compiled: Measurement | None = None  # torch.compile of the reference; failed: it has no time
    autotuned: Measurement | None = None  # torch.compile in the mode max-autotune, likewise
    compile_left_out: bool = False  # by a person
    final: Measurement | None = None
    final_eager: Measurement | None = None
    diagnosis: DiagnosisReported | None = None
    diagnosed_here: bool = False
    diagnosis_attempts: int = 0  # reports refused and visits failed in this diagnosis
    hints: tuple[str, ...] = ()

    input_tokens: int = 0  # includes tokens read from or written to a cache
    output_tokens: int = 0
    usage: tuple[Usage, ...] = ()  # all tokens by model and kind
    sessions: int = 1
    tokens_before: int = 0  # those of the sessions before the last one
    recent_calls: tuple[Usage, ...] = ()  # one entry for each of the last calls
    call_refused: str = ""
    finish_reason: str = ""
    stop_reason: str = ""
    stop_conditions: tuple[str, ...] = ()
    goals_met: bool = False
    plan_edits: tuple[PlanEdited, ...] = ()
    adopted: tuple[str, ...] = ()  # the names of the adopted plan edits
    forked: Forked | None = None
    settles: ShortlistTaken | None = None
    broke: str = ""  # why the last session could not go on; a new session clears it
    finished: str = ""
    ok: bool = True

    @property
    def workflow(self) -> Workflow:
        """The phase table of the run."""
        if self.settles is not None:
            return SETTLE
        return self.task.phases

    @property
    def row(self) -> Row:
        """The row of the current phase in the run's workflow."""
        return self.workflow.rows[self.phase]

    @property
    def rounds(self) -> int:
        """The settled rounds that the limits count: the agent had no part in the others."""
        return self.settled - self.measured_anew

    @property
    def tries(self) -> int:
        """The settled rounds in which the agent wrote the first correct kernel, or tried to."""
        return self.attempts[0].round if self.attempts else self.settled

    @property
    def standing_blob(self) -> str:
        """The kernel to which an undone edit goes back: the best, or before it the last seed."""
        return self.best.blob if self.best is not None else self.seed_blob

    def item(self, item_id: str) -> Item:
        """Return the item with this id. Raises `OutOfOrder` when there is none."""
        return self.items[place(self.items, item_id)]

    @property
    def pending(self) -> tuple[Item, ...]:
        """The pending items, in the order of work."""
        pending = ItemState.PENDING  # one lookup, because a long run has thousands of items
        found = [item for item in self.items if item.state is pending]
        if self.queue:
            place = {item_id: at for at, item_id in enumerate(self.queue)}
            found.sort(key=lambda item: place.get(item.id, len(place)))
        return tuple(found)

    def waiting(self, item: Item) -> Attempt | None:
        """Return the attempt of an open item whose kernel is to be measured again, or None.

        None also when the incumbent has changed: what was measured does not count any more.
        """
        if item.state not in (ItemState.PENDING, ItemState.ACTIVE) or item.attempt is None:
            return None
        attempt = self.attempts[item.attempt]
        same = self.best is not None and attempt.incumbent == self.best.blob
        return attempt if same and not attempt.lost else None

    @property
    def measured_again(self) -> Attempt | None:
        """The attempt whose kernel the active item measures again, without the agent, or None."""
        if self.active is None:
            return None
        attempt = self.waiting(self.item(self.active))
        return attempt if attempt is not None and attempt.blob == self.work_blob else None

    @property
    def idle_found(self) -> tuple[IdleMeasured, ...]:
        """Measurements made during waits for the model, of torch.compile and of the best kernel."""
        best = self.best.blob if self.best is not None else ""
        return tuple(e for e in self.idle if best in (e.blob, e.incumbent) or not e.blob)

    def found_idle(self, purpose: Purpose, blob: str, incumbent: str | None) -> Measurement | None:
        """Return what was measured so during a wait for the model, or None."""
        wanted = (purpose, blob, incumbent)
        found = (e for e in self.idle if (e.purpose, e.blob, e.incumbent) == wanted)
        return next((each.measurement for each in found), None)

    @property
    def proved_trial(self) -> Trial | None:
        """The trial of the active item that was faster than the best kernel beyond doubt, or None.

        Of several it is the one with the largest lower bound; none that was an attempt.
        """
        if self.best is None or self.active is None:
            return None
        known = {attempt.blob for attempt in self.attempts}
        here = (self.active, self.best.blob)
        proved = (
            trial
            for trial in self.trials
            if (trial.item, trial.incumbent) == here and trial.faster > 1
            if trial.blob not in known
        )
        return max(proved, key=lambda trial: trial.faster, default=None)

    @property
    def replaceable(self) -> tuple[str, ...]:
        """The pending items that a new plan or a diagnosis removes.

        Not pinned, not reopened in this phase, and not waiting for a measurement.
        """
        kept = self.reopened
        return tuple(
            i.id
            for i in self.pending
            if not i.pinned and i.id not in kept and self.waiting(i) is None
        )

    @property
    def replan_reason(self) -> str:
        """Why a plan is owed for another reason than that the last one is settled, or ""."""
        other = self.pending or self.discards_ended
        owed = self.phase is Phase.PLAN and self.plan_owed
        return self.phase_reason if owed and other else ""

    @property
    def discard_limit(self) -> int | None:
        """The DISCARDs without a KEEP that lead to a diagnosis or a plan; None: no number does."""
        stated = self.task.policy.discard_streak
        return DISCARD_STREAK if stated is None and self.agent != SWEEP else stated

    @property
    def question(self) -> Question | None:
        """The open question, or None."""
        last = self.questions[-1] if self.questions else None
        return last if last is not None and last.answer is None else None

    @property
    def rules_in_force(self) -> tuple[Rule, ...]:
        """The approval rules that have not ended."""
        return tuple(rule for rule in self.rules if not rule.ended)

    @property
    def tokens(self) -> int:
        """The input and output tokens of the whole run, over all its sessions."""
        return self.input_tokens + self.output_tokens

    @property
    def session_tokens(self) -> int:
        """The tokens since a person began a new session, or else since the run began."""
        return self.tokens - self.tokens_before

    def count(self, verdict: Verdict) -> int:
        """Return the number of attempts with this verdict, without the seed."""
        count = [attempt.verdict for attempt in self.attempts].count(verdict)
        seed = bool(self.attempts) and not self.attempts[0].number
        return count - (seed and self.attempts[0].verdict is verdict)

    @property
    def resting(self) -> bool:
        """Whether the run waits: for a person (a pause, an unusable model, a request, a step), or
        for the right to time.

        The value ignores a turn that was under way when the pause began; its next event adds the
        time of that turn to the worked time.
        """
        if self.queued:
            return True
        if self.running is not None:
            return False
        held = (self.paused or bool(self.api_failure)) and not self.granted
        return held or (not self.turn_open and (self._asks or self._waits_for_a_step))

    @property
    def _asks(self) -> bool:
        """Whether a gate or a question waits for a person's answer."""
        gate, question = self.gate, self.question
        return (gate is not None and not gate.answer) or (
            question is not None and question.attended and self.phase is not Phase.DONE
        )

    @property
    def _waits_for_a_step(self) -> bool:
        """Whether the phase has done its work in mode step, and no step is granted."""
        if self.mode is not Mode.STEP or self.granted:
            return False
        done: dict[Phase, bool] = {
            Phase.INIT: True,
            Phase.BASELINE: self.best is not None,
            Phase.PLAN: not self.plan_owed,
            Phase.EDIT: self.edited,
            Phase.EVAL: self.measured is not None and self.measured.outcome is not Outcome.ERROR,
            Phase.DECIDE: self.decided_here,
            Phase.DIAGNOSE: self.diagnosed_here,
        }
        return done.get(self.phase, False)

    def worked(self, now: float) -> float:
        """Return the seconds worked so far, without pauses and the time between sessions."""
        if self.finished or self.resting:
            return self.worked_s
        return self.worked_s + max(0.0, now - self.last_at)


class OutOfOrder(SaidError, ValueError):
    """An event that does not fit the state: a wrong number, id or item."""


def place(items: tuple[Item, ...], item_id: str) -> int:
    """Return the index of the item. Ids are assigned in order, so p7 has index 6."""
    number = item_id.removeprefix("p")
    at = int(number) - 1 if number.isdecimal() and len(number) < 10 else -1
    if not (0 <= at < len(items) and items[at].id == item_id):
        raise OutOfOrder("there is no plan item {item}", item=item_id)
    return at


def changed(run: RunState, item_id: str, **change: Any) -> RunState:
    """Return the state with the fields `change` of one item replaced."""
    items = run.items
    at = place(items, item_id)
    # A long run has thousands of items, and a changed item is usually near the end: `+`
    # copies the items once, `*` would copy them three times.
    items = items[:at] + (replace(items[at], **change), *items[at + 1 :])  # noqa: RUF005
    return replace(run, items=items)


def moved(state: RunState, ids: Iterable[str], to: ItemState, **change: Any) -> RunState:
    """Return the run with the items in state `to`. Raises `IllegalTransition`."""
    for item_id in ids:
        check_item(item_id, state.item(item_id).state, to)
        state = changed(state, item_id, state=to, **change)
        if state.active == item_id and to is not ItemState.ACTIVE:
            state = replace(state, active=None, api_wait=None)  # the wait belonged to this item
    return state


def added(
    state: RunState, new: Iterable[PlannedItem], *, pinned: bool = False, before: str = ""
) -> RunState:
    """Return the state with new pending items, last or before `before`; ids must be consecutive."""
    new = tuple(new)
    for number, planned in enumerate(new, len(state.items) + 1):
        if planned.id != f"p{number}":
            raise OutOfOrder(f"plan item id {planned.id} is not the next one, p{number}")
    items = tuple(Item(p.id, p.text, p.rationale, pinned=pinned) for p in new)
    if not before:  # the usual case, without a pass over thousands of items
        return replace(state, items=state.items + items)
    queue = [item.id for item in state.pending]
    state = replace(state, items=state.items + items)
    at = queue.index(before)
    queue[at:at] = [planned.id for planned in new]
    return ordered(state, queue)


def ordered(state: RunState, queue: Iterable[str]) -> RunState:
    """Return the state with the pending items in this order. Raises `OutOfOrder`."""
    queue = tuple(queue)
    if sorted(queue) != sorted(item.id for item in state.pending):
        raise OutOfOrder(f"{', '.join(queue)} are not the pending items")
    return replace(state, queue=queue)


UNMEASURED: dict[str, Any] = {
    **{"attempt": None, "ratio": None, "reason": "", "commit": "", "verdict": None, "unproved": 0}
}
"""The fields of an item without a measurement."""


def reworded(state: RunState, planned: PlannedItem) -> RunState:
    """Return the state with another text and rationale of a pending item. Raises `OutOfOrder`."""
    if state.item(planned.id).state is not ItemState.PENDING:
        raise OutOfOrder(f"{planned.id} is not pending")
    item = state.item(planned.id)
    if item.attempt is not None and item.text != planned.text:
        # The measured kernel does not belong to the new text: the agent makes another one.
        state = changed(state, item.id, **UNMEASURED)
    return changed(state, planned.id, text=planned.text, rationale=planned.rationale)

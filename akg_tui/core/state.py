"""The state of a run: what the journal adds up to. Frozen; only `evolve` makes the next one.

Also how plan items move in a state, checked against the table of item states.
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
    PlanEdited,
    PlannedItem,
    Scope,
)
from akg_tui.core.measurement import Interval, Measurement
from akg_tui.core.model_info import Capabilities, Usage
from akg_tui.core.phases import Gate, ItemState, Mode, Phase, Verdict, check_item
from akg_tui.core.task import Task


class Item(Struct, frozen=True, gc=False):
    """A plan item and, once settled, what became of it.

    `pinned`: only a person drops it. `undone`: it was kept, and a person took that back.
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

    @property
    def word(self) -> str:
        """Its state in a word, for the agent and for people."""
        return "UNDONE" if self.undone else self.state.value


class Attempt(Struct, frozen=True, gc=False):
    """One kernel version that was evaluated. Attempt 0 is the seed.

    `over_seed` is the product of the kept ratios up to this attempt times its own:
    an estimate for the chart, and `speedup` the same with its bounds, for goals. The
    figure to quote is the FINAL measurement. `tokens` are those of the whole run until it was
    settled.
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
    lost: bool = False  # its kernel's text is gone: it is listed, and never used


class Incumbent(Struct, frozen=True):
    attempt: int
    blob: str
    commit: str
    over_seed: float = 1.0
    speedup: Interval = Interval(1.0, 1.0, 1.0, 1.0)


class OpenGate(Struct, frozen=True):
    """Something waits for a person's leave. `answer` is "" until it is given.

    `since` is when it began to wait, in seconds since the epoch.
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
    """An approval rule of a person. `ended` is "" while it is in force, then says why not.

    `gate` is the request whose answer it was learned from, `source` the person's channel, `at`
    the time in seconds since the epoch; `used` counts the requests that it has answered.
    """

    number: int
    scope: Scope
    gate: int
    source: str
    at: float
    used: int = 0
    ended: str = ""


class Question(Struct, frozen=True):
    """A question of the agent. `answer` is None while it is open.

    `until` is when its default is taken (seconds since the epoch), None for never; `since` is
    when it was asked. `source` is who answered, as in `QuestionAnswered`.
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
    """A plan or a diagnosis (`kind`) that was called for and has not begun."""

    kind: str
    reason: str


class Subagent(Struct, frozen=True, gc=False):
    """A subagent at work, and what it has taken so far.

    `call` is the tool call that it answers; "" when it is the visit to the phase itself.
    `hints` are a person's messages that no request of it has carried yet; `stopped`: a person
    has stopped it, and its end is still to be journaled.
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
    paused: bool = False
    granted: int = 0

    items: tuple[Item, ...] = ()
    queue: tuple[str, ...] = ()  # the order of the pending items, where it is not their ids'
    active: str | None = None
    plan_owed: bool = False  # the agent has to plan, whatever is pending
    plan_approved: bool = False
    demand: Demand | None = None
    recalls: int = 0  # visits that a person's command cut off
    round: int = 0
    settled: int = 0
    fail_streak: int = 0

    best: Incumbent | None = None
    former: tuple[Incumbent, ...] = ()  # the bests before, that an undo goes back to
    undone: tuple[int, ...] = ()  # attempts whose KEEP was undone
    work_blob: str = ""
    edited: bool = False
    turn_open: bool = False
    open_calls: tuple[tuple[str, str], ...] = ()  # (call, tool) without an answer
    subagents: tuple[Subagent, ...] = ()  # those at work
    subagents_started: int = 0
    visits_failed: int = 0
    plans_refused: int = 0  # submit_plan calls in a row that were answered with an error
    closing_reply: str = ""  # the last reply's text, unless it called a tool
    visit_failed_here: bool = False
    blocked: bool = False  # the agent said so in the turn under way
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
    approved_blob: str = ""  # the edit that may run
    scripts: tuple[tuple[str, bool], ...] = ()  # digest, and whether it may run
    rules: tuple[Rule, ...] = ()  # all that were ever learned, by number
    questions: tuple[Question, ...] = ()

    baseline: Measurement | None = None
    final: Measurement | None = None
    diagnosis: DiagnosisReported | None = None
    diagnosed_here: bool = False
    diagnosis_attempts: int = 0  # reports refused and visits failed in this diagnosis
    hints: tuple[str, ...] = ()

    input_tokens: int = 0  # with what was read from a cache or written to one
    output_tokens: int = 0
    usage: tuple[Usage, ...] = ()  # the same tokens by model and kind
    recent_calls: tuple[Usage, ...] = ()  # the last few calls, each for itself
    call_refused: str = ""
    finish_reason: str = ""
    stop_reason: str = ""
    stop_conditions: tuple[str, ...] = ()
    goals_met: bool = False
    plan_edits: tuple[PlanEdited, ...] = ()
    adopted: tuple[str, ...] = ()  # the plan edits that were taken over, by name
    forked: Forked | None = None
    finished: str = ""
    ok: bool = True

    def item(self, item_id: str) -> Item:
        """The item with this id. Raises `OutOfOrder` when there is none."""
        return self.items[place(self.items, item_id)]

    @property
    def pending(self) -> tuple[Item, ...]:
        """What will be worked on, in that order."""
        pending = ItemState.PENDING  # looked up once: a long run has thousands of items
        found = [item for item in self.items if item.state is pending]
        if self.queue:
            place = {item_id: at for at, item_id in enumerate(self.queue)}
            found.sort(key=lambda item: place.get(item.id, len(place)))
        return tuple(found)

    @property
    def question(self) -> Question | None:
        """The question that is open, if one is."""
        last = self.questions[-1] if self.questions else None
        return last if last is not None and last.answer is None else None

    @property
    def rules_in_force(self) -> tuple[Rule, ...]:
        """The rules that answer in a person's place."""
        return tuple(rule for rule in self.rules if not rule.ended)

    @property
    def tokens(self) -> int:
        """Input and output tokens of the whole run, over all its sessions."""
        return self.input_tokens + self.output_tokens

    def count(self, verdict: Verdict) -> int:
        """How many attempts ended with this verdict."""
        count = [attempt.verdict for attempt in self.attempts].count(verdict)
        seed = bool(self.attempts) and not self.attempts[0].number
        return count - (seed and self.attempts[0].verdict is verdict)

    @property
    def resting(self) -> bool:
        """Whether the run is held by a pause, or because no model can be used.

        A turn that was under way when the pause began does not show here: its time counts with
        its next event.
        """
        held = self.paused or bool(self.api_failure)
        return held and not self.granted and self.running is None

    def worked(self, now: float) -> float:
        """Seconds worked so far, without the time between sessions and that of pauses."""
        if self.finished or self.resting:
            return self.worked_s
        return self.worked_s + max(0.0, now - self.last_at)


class OutOfOrder(ValueError):
    """An event that does not fit in its place: a wrong number, id or item."""


def place(items: tuple[Item, ...], item_id: str) -> int:
    """Where the item is. Ids are given out in order, so p7 is the seventh."""
    number = item_id.removeprefix("p")
    at = int(number) - 1 if number.isdecimal() and len(number) < 10 else -1
    if not (0 <= at < len(items) and items[at].id == item_id):
        raise OutOfOrder(f"there is no plan item {item_id}")
    return at


def changed(run: RunState, item_id: str, **change: Any) -> RunState:
    """One item with other values."""
    items = run.items
    at = place(items, item_id)
    # A long run has thousands of items, and the one that changes is near the end: `+`
    # copies them once where `*` would copy them three times.
    items = items[:at] + (replace(items[at], **change), *items[at + 1 :])  # noqa: RUF005
    return replace(run, items=items)


def moved(state: RunState, ids: Iterable[str], to: ItemState, **change: Any) -> RunState:
    """Items in another state. Raises `IllegalTransition` where the table has no such move."""
    for item_id in ids:
        check_item(item_id, state.item(item_id).state, to)
        state = changed(state, item_id, state=to, **change)
        if state.active == item_id and to is not ItemState.ACTIVE:
            state = replace(state, active=None, api_wait=None)  # the wait was that item's
    return state


def added(
    state: RunState, new: Iterable[PlannedItem], *, pinned: bool = False, before: str = ""
) -> RunState:
    """New pending items, last or before another one. Their ids must be the next ones."""
    new = tuple(new)
    for number, planned in enumerate(new, len(state.items) + 1):
        if planned.id != f"p{number}":
            raise OutOfOrder(f"plan item id {planned.id} is not the next one, p{number}")
    items = tuple(Item(p.id, p.text, p.rationale, pinned=pinned) for p in new)
    if not before:  # as nearly always: a walk over thousands of items is not for every plan
        return replace(state, items=state.items + items)
    queue = [item.id for item in state.pending]
    state = replace(state, items=state.items + items)
    at = queue.index(before)
    queue[at:at] = [planned.id for planned in new]
    return ordered(state, queue)


def ordered(state: RunState, queue: Iterable[str]) -> RunState:
    """The pending items in this order."""
    queue = tuple(queue)
    if sorted(queue) != sorted(item.id for item in state.pending):
        raise OutOfOrder(f"{', '.join(queue)} are not the pending items")
    return replace(state, queue=queue)


def reworded(state: RunState, planned: PlannedItem) -> RunState:
    """A pending item with other words."""
    if state.item(planned.id).state is not ItemState.PENDING:
        raise OutOfOrder(f"{planned.id} is not pending")
    return changed(state, planned.id, text=planned.text, rationale=planned.rationale)

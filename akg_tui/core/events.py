"""The events of a run: the journal is a sequence of them, and the only truth.

Small frozen values. An event
states a fact in the past tense and is never edited. Adding a field needs a default,
so that older journals still read. A new event is a class here, a row of the table in
`akg_tui.core.fold`, and its words.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Union

import msgspec
from msgspec import Struct

from akg_tui.core.measurement import Interval, Measurement
from akg_tui.core.model_info import Capabilities
from akg_tui.core.phases import Gate, Mode, Phase, Verdict
from akg_tui.core.task import Policy, Task

COMMAND_LINE = "command line"  # `source` of a change to a run at rest, before its next session


class Purpose(StrEnum):
    """Why a kernel is measured: against what, and what follows from it."""

    BASELINE = "baseline"  # the seed against the reference
    CANDIDATE = "candidate"  # an attempt against the incumbent
    FINAL = "final"  # the best kernel against the seed, afresh


class Event(Struct, frozen=True, kw_only=True, tag_field="type", tag=True, gc=False):
    """Base of all events; on disk the field `type` names the class.

    Values without cycles: the garbage collector need not walk a long journal (`gc=False`).
    The class variables are tags, set in the class of an event: no other module lists classes.
    """

    projected: ClassVar[bool] = False
    """After it a projection (refs, work tree, PLAN.md) shows something else."""
    by_a_person: ClassVar[bool] = False
    """A person's doing, or its effect. If the run rested, the time before it was not worked: any
    other event in a pause ends something that was under way when the pause began."""
    from_a_terminal: ClassVar[bool] = False
    """`source` may be `COMMAND_LINE`; then the time before it was not worked."""
    at_rest: ClassVar[bool] = False
    """The time before it was not worked, in any case."""


class Observation(Event, frozen=True):
    """Base of the facts from outside core, which cannot be refused."""


class RunCreated(Event, frozen=True):
    """`kernel_blob` is the git object that holds the seed kernel's exact bytes."""

    run_id: str
    task: Task
    mode: Mode
    agent: str
    version: str
    reference_sha256: str
    kernel_sha256: str
    kernel_blob: str


class SessionOpened(Observation, frozen=True):
    """A process took the run over. Time before it, since the last event, was not worked."""

    at_rest = True
    pid: int
    version: str
    resumed: bool


class PhaseEntered(Event, frozen=True):
    projected = True
    phase: Phase
    previous: Phase
    reason: str = ""


class EvalStarted(Event, frozen=True):
    attempt: int
    purpose: Purpose
    blob: str


class EvalFinished(Event, frozen=True):
    attempt: int
    purpose: Purpose
    measurement: Measurement


class EvalInterrupted(Observation, frozen=True):
    attempt: int
    reason: str


class BaselineAccepted(Event, frozen=True):
    """The seed is correct: it is attempt 0 and the first incumbent."""

    projected = True
    commit: str
    blob: str


class PlannedItem(Struct, frozen=True, gc=False):
    id: str
    text: str
    rationale: str = ""


class PlanSubmitted(Event, frozen=True):
    projected = True
    items: tuple[PlannedItem, ...]
    summary: str = ""


class ItemActivated(Event, frozen=True):
    projected = True
    item: str
    round: int


class ItemsSuspended(Event, frozen=True):
    projected = True
    items: tuple[str, ...]
    reason: str


class ItemsDropped(Event, frozen=True):
    projected = by_a_person = True
    items: tuple[str, ...]
    reason: str


class KernelEdited(Event, frozen=True):
    projected = True
    item: str
    blob: str
    sha256: str
    added: int
    removed: int
    note: str = ""


class ModelReplied(Observation, frozen=True):
    """One reply of the model has arrived; its tool calls follow, then `TurnEnded`.

    The tokens of the prompt are `input_tokens` (neither read from a cache nor written to
    one), `cache_read_tokens` and `cache_write_tokens`; of those written, the share
    `cache_write_short_tokens` lives five minutes, the rest an hour. `estimated` says that
    the server sent no usage and the counts are made from lengths. `cache_miss` is the
    server's own word on why the prompt was not read from its cache. `hints_told` is how
    many of the waiting hints the request carried; None: all of them. `source` is the
    subagent that was answered; "" is the run's own agent. `own_hints_told` counts the
    messages to that subagent alone.
    """

    phase: Phase
    model: str
    text: str = ""
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_short_tokens: int = 0
    stop_reason: str = ""
    request_id: str = ""
    duration_s: float = 0.0
    estimated: bool = False
    cache_miss: str = ""
    hints_told: int | None = None
    own_hints_told: int = 0
    source: str = ""

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


class ReplyLost(Observation, frozen=True):
    """A reply was cut off: what is known of it is paid for and used for nothing."""

    phase: Phase
    model: str
    reason: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_short_tokens: int = 0
    source: str = ""

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


class SubagentStarted(Observation, frozen=True):
    """An agent with a conversation of its own begins. Its replies and calls name `subagent`.

    `call` is the tool call that it answers; "" when it is the visit to a phase itself, as in
    DIAGNOSE. `prompt` is how its prompt begins, `prompt_sha256` the digest of all of it;
    `trace` is the folder in the run where the whole conversation is kept.
    """

    subagent: str
    agent: str
    phase: Phase
    call: str = ""
    prompt: str = ""
    prompt_sha256: str = ""
    trace: str = ""


SubagentStatus = Literal["done", "limit", "failed", "cancelled", "interrupted"]


class SubagentEnded(Observation, frozen=True):
    """`status`: it answered (done), used up its model calls (limit), could not go on (failed),
    or was stopped, by a person (cancelled) or with its process (interrupted).

    `calls` are the model's replies; the tokens are those of whole prompts and replies.
    """

    subagent: str
    agent: str
    status: SubagentStatus
    reason: str = ""
    calls: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0


class ApiWaiting(Observation, frozen=True):
    """The model's server gave no reply; the same request is sent again after `seconds`.

    `asked_s` is how long the server asked to wait, where it did.
    """

    reason: str
    attempt: int
    seconds: float
    asked_s: float | None = None


class ApiFailed(Observation, frozen=True):
    """The model cannot be used as things are. The run holds still until it is resumed."""

    reason: str


class EndpointProbed(Observation, frozen=True):
    """What the model's server was found to be able to do."""

    base_url: str
    model: str
    capabilities: Capabilities


class ContextRebuilt(Observation, frozen=True):
    """The agent's conversation began anew from the plan and the kernel.

    `prompt_tokens` is what the last prompt of the old one had.
    """

    reason: str
    prompt_tokens: int = 0


class ToolCalled(Observation, frozen=True):
    """`call` of a subagent has its name in front, so that no two calls of a turn are one."""

    call: str
    tool: str
    arguments: dict[str, Any]
    source: str = ""


class ToolAnswered(Observation, frozen=True):
    call: str
    tool: str
    status: Literal["success", "error"]
    output: str = ""
    error_information: str = ""
    source: str = ""


class TurnEnded(Observation, frozen=True):
    """All tool calls of the last reply were answered."""


class TurnInterrupted(Observation, frozen=True):
    """A turn was cut off. What it had edited is undone: the item starts again."""

    projected = True
    reason: str


class VisitFailed(Observation, frozen=True):
    """The agent used up its turns in a phase without doing the phase's work."""

    phase: Phase
    reason: str


GateKind = Literal["plan", "edit", "keep", "script"]


class Scope(Struct, frozen=True, gc=False):
    """What a request for leave is, and so what a rule made of its answer covers.

    `agent` is the kind of subagent that asks; "" is the run's own agent. `interpreter` is what
    a script would be run by; "" for all that is no script, and where it is not known.
    """

    gate: GateKind
    phase: Phase
    agent: str = ""
    interpreter: str = ""


class GateOpened(Event, frozen=True):
    """`subject` names what waits where the attempt does not: a script's digest.

    `detail` is its text, for the person; it came from the agent. `agent` and `interpreter` as
    in `Scope`.
    """

    gate: int
    kind: GateKind
    attempt: int
    subject: str = ""
    detail: str = ""
    agent: str = ""
    interpreter: str = ""


class GateAnswered(Event, frozen=True):
    projected = by_a_person = True
    gate: int
    answer: Literal["approve", "reject"]
    comment: str = ""


class RuleLearned(Event, frozen=True):
    """A person who approved the request `gate` lets all of its `scope` pass from here on.

    `source` is as in `ModeChanged`.
    """

    by_a_person = True
    rule: int
    scope: Scope
    gate: int
    source: str = "user"


class RuleApplied(Event, frozen=True):
    """A request was approved by a rule and never put to a person: asked and answered in one.

    One event, so that no crash leaves a request open that a rule has answered. The fields
    beside `rule` and `scope` are those of `GateOpened`.
    """

    rule: int
    scope: Scope
    gate: int
    attempt: int
    subject: str = ""
    detail: str = ""


class RuleRevoked(Event, frozen=True):
    """The rule answers nothing any more. `reason` is "" when it was simply taken back."""

    by_a_person = from_a_terminal = True
    rule: int
    source: str = "user"
    reason: str = ""


class Decided(Event, frozen=True):
    """A round is settled. This line is the transaction: refs and files follow from it."""

    projected = True
    round: int
    attempt: int
    item: str
    verdict: Verdict
    reason: str
    commit: str
    blob: str
    ratio: Interval | None = None


class DiagnosisReported(Event, frozen=True):
    projected = True
    cause: str
    avoid: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    source: Literal["subagent", "fallback"] = "subagent"


class ModeChanged(Event, frozen=True):
    by_a_person = from_a_terminal = True
    mode: Mode
    source: str = "user"


class Paused(Event, frozen=True):
    by_a_person = True


class Unpaused(Event, frozen=True):
    by_a_person = True


class StepGranted(Event, frozen=True):
    """One transition may be taken although the run is paused or stepping."""

    by_a_person = True


class GateChanged(Event, frozen=True):
    """One gate was set beside the mode. A gate that is open already stays open."""

    by_a_person = True
    gate: Gate
    on: bool


class ItemAdded(Event, frozen=True):
    """A person's item: pinned, so that no plan of the agent and no diagnosis drops it.

    It stands before the pending item `before`, or last.
    """

    projected = by_a_person = True
    item: PlannedItem
    before: str = ""


class ItemEdited(Event, frozen=True):
    projected = by_a_person = True
    item: PlannedItem


class ItemsReordered(Event, frozen=True):
    """All pending items, in the order in which they will be worked on."""

    projected = by_a_person = True
    order: tuple[str, ...]


class ItemPinned(Event, frozen=True):
    """Pinned: it is the next one, and only a person drops it. Unpinned: it keeps its place."""

    projected = by_a_person = True
    item: str
    pinned: bool = True


class PlanChange(Struct, frozen=True):
    """A hand edit of PLAN.md as a change of items. `order` is of all that will be pending.

    The added items have the ids that come next.
    """

    added: tuple[PlannedItem, ...] = ()
    edited: tuple[PlannedItem, ...] = ()
    dropped: tuple[str, ...] = ()
    order: tuple[str, ...] = ()


class PlanEditAdopted(Event, frozen=True):
    """A person adopted the hand edit kept as `kept`: one event, so all of it or none."""

    projected = by_a_person = True
    kept: str
    change: PlanChange


class ReplanForced(Event, frozen=True):
    by_a_person = True
    reason: str = ""


class DiagnosisForced(Event, frozen=True):
    by_a_person = True
    reason: str = ""


class KeepUndone(Event, frozen=True):
    """A person took the KEEP of `attempt` back: the best kernel is `best` again.

    The attempt and its verdict stay in history.
    """

    projected = by_a_person = True
    attempt: int
    item: str
    best: int
    comment: str = ""


class QuestionAsked(Event, frozen=True):
    """The agent asks a person. Not `attended`: no person is there, so the default is taken."""

    question: int
    text: str
    phase: Phase
    choices: tuple[str, ...] = ()
    default: str | None = None
    timeout_s: float | None = None
    attended: bool = True


class QuestionAnswered(Event, frozen=True):
    """`denied`: no answer and no default; the agent decides by itself."""

    by_a_person = True
    question: int
    answer: str
    source: Literal["user", "default", "timeout", "denied"]


BlockedKind = Literal["missing_information", "missing_tool", "environment", "impossible", "other"]


class BlockedReported(Event, frozen=True):
    """The agent says that it cannot go on; `leads_to` is what the policy made of it."""

    kind: BlockedKind
    text: str
    phase: Phase
    leads_to: Literal["diagnosis", "question", "stop", "failed visit"]


class CallRefused(Observation, frozen=True):
    """A model call was not made: with what is in flight it could have broken a budget."""

    reason: str


class Forked(Event, frozen=True):
    """From here on this is a run of its own: all before is the parent's, up to its `seq`.

    `hash` is the digest of the parent's line `seq`, as its next line would name it.
    """

    by_a_person = at_rest = True
    run_id: str
    parent: str
    parent_path: str
    round: int
    seq: int
    hash: str
    version: str


class HintGiven(Event, frozen=True):
    by_a_person = True
    text: str


class SubagentHinted(Event, frozen=True):
    """A person's message to one subagent, for its next request."""

    by_a_person = True
    subagent: str
    text: str


class SubagentStopped(Event, frozen=True):
    """A person stopped one subagent at work; its `SubagentEnded` follows."""

    by_a_person = True
    subagent: str
    reason: str = ""


class FinishRequested(Event, frozen=True):
    reason: str


class StopRequested(Event, frozen=True):
    by_a_person = True
    reason: str


class StopConditionsMet(Event, frozen=True):
    """All stop conditions that held when the run turned to DONE; `primary` is the first.

    `goals_met` is a field of its own, so that a goal reached in the last round is not lost behind
    the rounds that ran out.
    """

    reasons: tuple[str, ...]
    primary: str
    goals_met: bool = False


class PolicyChanged(Event, frozen=True):
    """From here on the run obeys this policy; what was counted so far still counts."""

    projected = by_a_person = from_a_terminal = True
    policy: Policy
    source: str = "user"


class PlanEdited(Event, frozen=True):
    """PLAN.md was edited outside this program; the edit was kept under the name `kept`."""

    by_a_person = at_rest = True
    kept: str
    sha256: str


class RunSalvaged(Event, frozen=True):
    """The run is a copy of a damaged one, up to here; its `source` is as it was.

    `lost` are the attempts without a kernel's text, `commits` the new commits of others,
    and `best` the attempt that is the incumbent now, when the one before is lost.
    """

    run_id: str
    source: str
    damage: str
    lost: tuple[int, ...] = ()
    commits: tuple[tuple[int, str], ...] = ()
    best: int | None = None


class RunFinished(Event, frozen=True):
    """`ok` is False when the run could not do its job (a broken baseline, a lost judge)."""

    projected = True
    reason: str
    ok: bool


def event_classes() -> tuple[type[Event], ...]:
    """Every class of events."""
    return (
        *(kind for kind in Event.__subclasses__() if kind is not Observation),
        *Observation.__subclasses__(),
    )


if TYPE_CHECKING:
    AnyEvent = Event
else:
    AnyEvent = Union[event_classes()]  # noqa: UP007  decoded by the field `type`


class Record(Struct, frozen=True, gc=False):
    """An event with its place in the journal. `at` is seconds since the epoch, UTC."""

    seq: int
    at: float
    event: AnyEvent


def to_builtins(event: AnyEvent) -> dict[str, Any]:
    """The event as plain JSON values."""
    plain = msgspec.to_builtins(event)
    assert isinstance(plain, dict)
    return plain

"""The events of a run. The journal is a sequence of events and the only source of truth.

Events are small frozen values. An event states a fact in the past tense and is never edited. One
with the name of a file that could leave the run's folder cannot be made (`sanitize.check_name`).
A new field needs a default, so that older journals can still be read. A new event needs a
class here, a row of the table in `akg_tui.core.fold`, and its text for display.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Union

import msgspec
from msgspec import Struct

from akg_tui.core.kernel.knobs import Value
from akg_tui.core.measurement import Estimate, Interval, Measurement
from akg_tui.core.model_info import Capabilities
from akg_tui.core.phases import Gate, Mode, Phase, Verdict
from akg_tui.core.plan.lesson import Lesson, RememberedKernel
from akg_tui.core.sanitize import check_name
from akg_tui.core.task import Policy, Task

COMMAND_LINE = "command line"  # `source` of a change to a run at rest, before its next session


class Purpose(StrEnum):
    """The purpose of a measurement: which two kernels it compares."""

    BASELINE = "baseline"  # the seed against the reference
    CANDIDATE = "candidate"  # an attempt against the incumbent
    FINAL = "final"  # the best kernel against the seed, measured anew
    COMPILE = "compile"  # the reference under torch.compile against the reference
    MAX_AUTOTUNE = "max-autotune"  # torch.compile in this mode against the reference
    EAGER = "eager"  # the best kernel against the reference, measured anew
    SETTING = "setting"  # the best kernel with other values of its knobs against itself


COMPILED = (Purpose.COMPILE, Purpose.MAX_AUTOTUNE)
"""The purposes that measure torch.compile, whose figure decides nothing."""


class Event(
    Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    tag=True,
    gc=False,
    forbid_unknown_fields=True,
):
    """Base of all events; on disk the field `type` names the class.

    Events have no cycles: the garbage collector need not walk a long journal (`gc=False`).
    The class variables are tags of an event's class, so that no other module lists classes.
    """

    projected: ClassVar[bool] = False
    """The event changes a projection (refs, work tree, PLAN.md)."""
    by_a_person: ClassVar[bool] = False
    """A person's action or its effect. If the run rested, the time before the event is not worked
    time: any other event in a pause ends work that was under way when the pause began."""
    from_a_terminal: ClassVar[bool] = False
    """`source` can be `COMMAND_LINE`; then the time before the event is not worked time."""
    at_rest: ClassVar[bool] = False
    """The time before the event is never worked time."""


class Observation(Event, frozen=True):
    """Base of the facts from outside core, which `decide` cannot refuse."""


class RunCreated(Event, frozen=True):
    """The run was created. `kernel_blob` is the Git object with the seed kernel's exact bytes."""

    run_id: str
    task: Task
    mode: Mode
    agent: str
    version: str
    reference_sha256: str
    kernel_sha256: str
    kernel_blob: str

    def __post_init__(self) -> None:
        check_name("run_id", self.run_id)


class SessionOpened(Observation, frozen=True):
    """A process took over the run. The time since the previous event is not worked time."""

    at_rest = True
    pid: int
    version: str
    resumed: bool


class SessionBroke(Observation, frozen=True):
    """The process at work could not go on; the run can be resumed."""

    reason: str


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


class CompileLeftOut(Event, frozen=True):
    """A person left the measurement of torch.compile out, also one under way."""

    by_a_person = True


class SessionBegan(Event, frozen=True):
    """A person began a new session: the agent's conversation is new, its tokens count from zero."""

    by_a_person = True


class BaselineAccepted(Event, frozen=True):
    """The seed is correct: it became attempt 0 and the first incumbent."""

    projected = True
    commit: str
    blob: str


class PlannedItem(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    id: str
    text: str
    rationale: str = ""


class PlanSubmitted(Event, frozen=True):
    projected = True
    items: tuple[PlannedItem, ...]
    summary: str = ""


class PlanRevised(Event, frozen=True):
    """The agent changed single items, for one `reason`, and left the others as they are.

    `order` has all items pending after the change, or is empty. `ready`: the plan then has enough
    items, so that a phase PLAN has done its work.
    """

    projected = True
    reason: str
    dropped: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    ready: bool = True


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


class KernelTried(Event, frozen=True):
    """The agent had a version measured against the incumbent; it decides nothing.

    `made_from` names its source or, in a sweep, its setting; `told` is the outcome in one line.
    `sweep` is the number of the sweep that made it, 0 for a trial alone.
    """

    trial: int
    item: str
    blob: str
    made_from: str
    told: str
    measurement: Measurement
    sweep: int = 0


class IdleMeasured(Observation, frozen=True):
    """While a reply of the model was waited for, a measurement was made; it decides nothing.

    `purpose`, `blob` and `incumbent` are those of the measurement, and `setting` has the values of
    the knobs of `blob` that were set (SETTING). A measurement that was interrupted has no event.
    """

    purpose: Purpose
    blob: str
    incumbent: str | None
    measurement: Measurement
    setting: dict[str, Value] = {}


class ModelReplied(Observation, frozen=True):
    """One reply of the model arrived; its tool calls follow, then `TurnEnded`.

    The tokens of the prompt are `input_tokens` (neither read from a cache nor written to
    one), `cache_read_tokens` and `cache_write_tokens`. Of the written tokens,
    `cache_write_short_tokens` are cached for five minutes, the rest for an hour. `estimated`:
    the server sent no usage, and the counts are estimated from lengths. `hints_told` is the
    number of waiting hints that the request carried; None: all of them. `source` is the subagent
    that got the reply; "" is the run's own agent. `own_hints_told` counts the carried
    messages to this subagent alone.
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
    cache_miss: str = ""  # of earlier journals
    hints_told: int | None = None
    own_hints_told: int = 0
    source: str = ""

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


class ReplyLost(Observation, frozen=True):
    """A reply was cut off: its known tokens are paid for, and its content is not used."""

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
    """An agent with its own conversation began. Its replies and calls carry the id `subagent`.

    `call` is the tool call that the subagent answers; "" when the subagent is the visit to a phase,
    as in DIAGNOSE. `prompt` is the beginning of its prompt, `prompt_sha256` the digest of the whole
    prompt; `trace` is the folder in the run with the whole conversation.
    """

    subagent: str
    agent: str
    phase: Phase
    call: str = ""
    prompt: str = ""
    prompt_sha256: str = ""
    trace: str = ""

    def __post_init__(self) -> None:
        check_name("subagent", self.subagent)
        if self.trace:
            check_name("trace", self.trace, folders=True)


SubagentStatus = Literal["done", "limit", "failed", "cancelled", "interrupted"]


class SubagentEnded(Observation, frozen=True):
    """A subagent ended: it answered (done), used up its model calls (limit), could not continue
    (failed), was stopped by a person (cancelled), or was cut off with its turn (interrupted).

    `calls` counts the model's replies; the tokens are those of whole prompts and replies.
    """

    subagent: str
    agent: str
    status: SubagentStatus
    reason: str = ""
    calls: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0


class ApiWaiting(Observation, frozen=True):
    """The model's server gave no reply; `asked_s` is the wait that it requested, if it did."""

    reason: str
    attempt: int
    seconds: float
    asked_s: float | None = None


class ApiFailed(Observation, frozen=True):
    """The model cannot be used at present. The run waits for `Unpaused` or a new session."""

    reason: str


class EndpointProbed(Observation, frozen=True):
    """A probe of the model's server found its capabilities."""

    base_url: str
    model: str
    capabilities: Capabilities


class TimingQueued(Observation, frozen=True):
    """The judge began to wait for the right to time (`waits`), or ended that: it is no work."""

    waits: bool
    before_s: float = 0.0  # seconds of waits before the event that no other event told


class MachineSlept(Observation, frozen=True):
    """The machine was suspended for `seconds` since the previous event: they are no work."""

    seconds: float


class MachineDescribed(Observation, frozen=True):
    """The machine, named by its hardware, was measured for the prompts; `facts` are by name."""

    machine: str
    facts: dict[str, str]


class MemoryRecalled(Observation, frozen=True):
    """The results of earlier runs were read from the memory, before the agent's first visit.

    `pages` are the user's, by id and title; `skipped` are unreadable files, with the reason.
    """

    lessons: tuple[Lesson, ...] = ()
    kernels: tuple[RememberedKernel, ...] = ()
    pages: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


class ContextRebuilt(Observation, frozen=True):
    """The agent's conversation began anew from the plan and the kernel.

    `prompt_tokens` is the size of the last prompt of the old conversation.
    """

    reason: str
    prompt_tokens: int = 0


class ToolCalled(Observation, frozen=True):
    """The agent called a tool. A subagent's `call` begins with its id: `call` is unique."""

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
    """A turn was cut off. Its edit is undone, and the item starts again."""

    projected = True
    reason: str


class VisitFailed(Observation, frozen=True):
    """The agent used up its turns in a phase without doing the phase's work."""

    phase: Phase
    reason: str


GateKind = Literal["plan", "edit", "keep", "script"]


class Scope(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The scope of a request for approval, and of a rule made from the answer.

    `agent` is the kind of the requesting subagent; "" is the run's own agent. `interpreter`
    runs the script; "" for an unknown interpreter and for requests without a script.
    """

    gate: GateKind
    phase: Phase
    agent: str = ""
    interpreter: str = ""


class GateOpened(Event, frozen=True):
    """A request waits for a person's approval. `subject` is the digest of a script, else "".

    `detail` is the script's text from the agent, shown to the person. `agent` and `interpreter`
    are as in `Scope`.
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
    """A person approved the request `gate` and all later requests of its `scope`.

    `source` is as in `ModeChanged`.
    """

    by_a_person = True
    rule: int
    scope: Scope
    gate: int
    source: str = "user"


class RuleApplied(Event, frozen=True):
    """A rule approved a request, which was not sent to a person.

    Request and approval are one event, so that no crash leaves the request open. The fields
    except `rule` and `scope` are those of `GateOpened`.
    """

    rule: int
    scope: Scope
    gate: int
    attempt: int
    subject: str = ""
    detail: str = ""


class RuleRevoked(Event, frozen=True):
    """The rule is no longer in force. `reason` is "" when a person revoked the rule."""

    by_a_person = from_a_terminal = True
    rule: int
    source: str = "user"
    reason: str = ""


class Decided(Event, frozen=True):
    """A round was settled; INCONCLUSIVE settles only the round, not its item.

    The event is the transaction: refs and files are updated from it.
    """

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
    """A diagnosis. `exhausted`: no direction is left, so that the agent may finish."""

    projected = True
    cause: str
    avoid: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    source: Literal["subagent", "fallback"] = "subagent"
    exhausted: bool = False


class ModeChanged(Event, frozen=True):
    by_a_person = from_a_terminal = True
    mode: Mode
    source: str = "user"


class Paused(Event, frozen=True):
    by_a_person = True


class Unpaused(Event, frozen=True):
    by_a_person = True


class StepGranted(Event, frozen=True):
    """A person permitted one transition of a run that is paused or in step mode."""

    by_a_person = True


class GateChanged(Event, frozen=True):
    """One gate was switched on or off, independent of the mode. An open request stays open."""

    by_a_person = True
    gate: Gate
    on: bool


class ItemAdded(Event, frozen=True):
    """A person added an item: pinned, so that no plan of the agent and no diagnosis drops it.

    The item is placed before the pending item `before`, or last.
    """

    projected = by_a_person = True
    item: PlannedItem
    before: str = ""


class ItemEdited(Event, frozen=True):
    projected = by_a_person = True
    item: PlannedItem


class ItemsReordered(Event, frozen=True):
    """A person reordered the pending items; `order` has all of them, the next to work on first."""

    projected = by_a_person = True
    order: tuple[str, ...]


class MeasurementDemanded(Event, frozen=True):
    """A person wants the kernel of `attempt` measured again: its item is pinned and comes next."""

    projected = by_a_person = True
    item: str
    attempt: int


class ItemPinned(Event, frozen=True):
    """An item was pinned: it comes next and only a person drops it; or unpinned, in its place."""

    projected = by_a_person = True
    item: str
    pinned: bool = True


class PlanChange(Struct, frozen=True, forbid_unknown_fields=True):
    """A hand edit of PLAN.md as a change of items.

    `order` has all items pending after the change, or is empty. The added items have the next ids.
    `fixed` is the item under work if the edit rewords it: its text cannot change.
    """

    added: tuple[PlannedItem, ...] = ()
    edited: tuple[PlannedItem, ...] = ()
    dropped: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


class PlanEditAdopted(Event, frozen=True):
    """A person adopted the hand edit stored as `kept`; one event, so that no crash splits it."""

    projected = by_a_person = True
    kept: str
    change: PlanChange

    def __post_init__(self) -> None:
        check_name("kept", self.kept)


class ReplanForced(Event, frozen=True):
    by_a_person = True
    reason: str = ""


class DiagnosisForced(Event, frozen=True):
    by_a_person = True
    reason: str = ""


class KeepUndone(Event, frozen=True):
    """A person undid the KEEP of `attempt`: attempt `best` has the best kernel again.

    The attempt and its verdict remain in history.
    """

    projected = by_a_person = True
    attempt: int
    item: str
    best: int
    comment: str = ""


class UndoQueued(Event, frozen=True):
    """A person wants the KEEP of `attempt` undone as soon as the work that builds on it is settled.

    If that work ends in a KEEP, its KEEP is undone as well.
    """

    by_a_person = True
    attempt: int
    comment: str = ""


class UndoWithdrawn(Event, frozen=True):
    """A person took the queued undo of the KEEP of `attempt` back."""

    by_a_person = True
    attempt: int


class QuestionAsked(Event, frozen=True):
    """The agent asked a question. Without `attended` the question gets its default or is denied."""

    question: int
    text: str
    phase: Phase
    choices: tuple[str, ...] = ()
    default: str | None = None
    timeout_s: float | None = None
    attended: bool = True


class QuestionHeld(Event, frozen=True):
    """A person stopped the clock of a question: it waits until it is answered."""

    by_a_person = True
    question: int


class QuestionAnswered(Event, frozen=True):
    """A question was answered. `denied`: no answer and no default; the agent decides by itself."""

    by_a_person = True
    question: int
    answer: str
    source: Literal["user", "default", "timeout", "denied"]


BlockedKind = Literal["missing_information", "missing_tool", "environment", "impossible", "other"]


class BlockedReported(Event, frozen=True):
    """The agent reported that it cannot continue; `leads_to` is the consequence by the policy.

    A report about one item names it as `item` and leads to its suspension.
    """

    kind: BlockedKind
    text: str
    phase: Phase
    leads_to: Literal["diagnosis", "question", "stop", "failed visit", "suspension"]
    item: str = ""


class CallRefused(Observation, frozen=True):
    """A model call was not made: together with the calls in flight it could exceed a budget."""

    reason: str


class Forked(Event, frozen=True):
    """The run was forked: all earlier events are the parent's, up to the parent's event `seq`.

    `hash` is the digest of the parent's line `seq`, in the form that its next line would contain.
    `lost` are attempts of which the parent had no kernel's text any more.
    """

    by_a_person = at_rest = True
    run_id: str
    parent: str
    parent_path: str
    round: int
    seq: int
    hash: str
    version: str
    lost: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_name("run_id", self.run_id)


class ShortlistedKernel(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A kernel of a shortlist: its attempt there, its item's text, its Git object, its estimate."""

    attempt: int
    text: str
    blob: str
    estimate: Estimate


class ShortlistTaken(Event, frozen=True):
    """The run settles the shortlist of the estimate run `parent`: it has an item for each kernel.

    `hash` is the digest of the parent's journal up to its event `parent_seq`, as in `Forked`.
    """

    projected = by_a_person = at_rest = True
    parent: str
    parent_seq: int
    hash: str
    kernels: tuple[ShortlistedKernel, ...]


class HintGiven(Event, frozen=True):
    by_a_person = True
    text: str


class SubagentHinted(Event, frozen=True):
    """A person sent a message to one subagent; its next request carries it."""

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
    """The stop conditions that held at the transition to DONE; `primary` is the first of them.

    `goals_met` is a separate field, so that a goal reached in the last round is recorded even if
    the exhausted rounds are the primary reason.
    """

    reasons: tuple[str, ...]
    primary: str
    goals_met: bool = False
    blocked: str = ""
    """The line of the log on plans that were refused again and again, where that is a reason."""


class PolicyChanged(Event, frozen=True):
    """The policy was replaced; rounds, tokens and time counted before still count."""

    projected = by_a_person = from_a_terminal = True
    policy: Policy
    source: str = "user"


class PlanEdited(Event, frozen=True):
    """PLAN.md was edited outside this program; the edit was stored under the name `kept`."""

    by_a_person = at_rest = True
    kept: str
    sha256: str

    def __post_init__(self) -> None:
        check_name("kept", self.kept)


class RunSalvaged(Event, frozen=True):
    """Of earlier versions: the run was copied from the damaged run `source`, which was not changed.

    `lost` are the attempts without a kernel's text, `commits` the changed commits of the others
    (by attempt), and `best` the attempt that replaces a lost incumbent.
    """

    run_id: str
    source: str
    damage: str
    lost: tuple[int, ...] = ()
    commits: tuple[tuple[int, str], ...] = ()
    best: int | None = None

    def __post_init__(self) -> None:
        check_name("run_id", self.run_id)


class RunFinished(Event, frozen=True):
    """The run ended. `ok` is False when the run failed (a broken baseline, a lost judge)."""

    projected = True
    reason: str
    ok: bool


class RunReopened(Event, frozen=True):
    """A person let a run go on that was over: in `phase`, under `policy`.

    Rounds, tokens and time counted before still count; the final measurement does not any more.
    `source` is as in `PolicyChanged`.
    """

    projected = by_a_person = from_a_terminal = at_rest = True
    phase: Phase
    policy: Policy
    source: str = "user"


def event_classes() -> tuple[type[Event], ...]:
    """Return all concrete event classes."""
    return (
        *(kind for kind in Event.__subclasses__() if kind is not Observation),
        *Observation.__subclasses__(),
    )


if TYPE_CHECKING:
    AnyEvent = Event
else:
    AnyEvent = Union[event_classes()]  # noqa: UP007  decoded by the field `type`


class Record(Struct, frozen=True, gc=False):
    """An event with its number `seq` in the journal; `at` is seconds since the epoch, UTC."""

    seq: int
    at: float
    event: AnyEvent


def to_builtins(event: AnyEvent) -> dict[str, Any]:
    """Return the event as JSON values."""
    plain = msgspec.to_builtins(event)
    assert isinstance(plain, dict)
    return plain

"""What somebody asks for: a person, the agent, or the engine with a result in its hands.

`decide` (in `akg_tui.core.decide`) turns a command into events or into a `Rejected`, a refusal in
one sentence. Only a person's commands have a JSON form, so another process can send nothing else.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from akg_tui.core.events import (
    AnyEvent,
    ApiFailed,
    ApiWaiting,
    BlockedKind,
    CallRefused,
    ContextRebuilt,
    EndpointProbed,
    EvalInterrupted,
    ModelReplied,
    PlanChange,
    PlannedItem,
    Purpose,
    ReplyLost,
    SessionOpened,
    SubagentEnded,
    SubagentStarted,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    TurnInterrupted,
    VisitFailed,
)
from akg_tui.core.measurement import Measurement
from akg_tui.core.phases import Gate, Mode
from akg_tui.core.task import Policy


class Observe(Struct, frozen=True):
    """A fact from outside that nobody can refuse: it happened."""

    event: (
        SessionOpened
        | EvalInterrupted
        | ModelReplied
        | ReplyLost
        | ApiWaiting
        | ApiFailed
        | EndpointProbed
        | ContextRebuilt
        | SubagentStarted
        | SubagentEnded
        | ToolCalled
        | ToolAnswered
        | TurnEnded
        | TurnInterrupted
        | VisitFailed
        | CallRefused
    )


# From the engine, each the result of an effect.


class StartEval(Struct, frozen=True):
    purpose: Purpose
    attempt: int
    blob: str


class FinishEval(Struct, frozen=True):
    measurement: Measurement


class AcceptBaseline(Struct, frozen=True):
    commit: str


class Settle(Struct, frozen=True):
    """The attempt is in history as `commit`; the verdict follows from the measurement."""

    commit: str


# From the agent, through its tools.


class SubmitPlan(Struct, frozen=True):
    """`items` without ids: the state gives them out."""

    items: tuple[PlannedItem, ...]
    summary: str = ""


class Edit(Struct, frozen=True):
    blob: str
    sha256: str
    added: int
    removed: int
    note: str = ""


class ReportDiagnosis(Struct, frozen=True):
    cause: str
    avoid: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()


class RequestFinish(Struct, frozen=True):
    reason: str


class AskUser(Struct, frozen=True):
    text: str
    choices: tuple[str, ...] = ()
    default: str | None = None
    timeout_s: float | None = None


class ReportBlocked(Struct, frozen=True):
    kind: BlockedKind
    text: str


class RequestScript(Struct, frozen=True):
    """Leave to run the script with this digest. Where no gate is set only a rule can give it.

    `interpreter` is what runs it, `source` the subagent that wants to, if one does.
    """

    sha256: str
    script: str = ""
    interpreter: str = ""
    source: str = ""


# From a person.


class SetMode(Struct, frozen=True):
    """`source` tells who, as in `ChangePolicy`."""

    mode: Mode
    source: str = "user"


class ChangePolicy(Struct, frozen=True):
    """`source` tells who: the command line, or a person at the workbench."""

    policy: Policy
    source: str = "user"


class Pause(Struct, frozen=True):
    pass


class Unpause(Struct, frozen=True):
    pass


class Step(Struct, frozen=True):
    pass


class SetGate(Struct, frozen=True):
    gate: Gate
    on: bool


class AnswerGate(Struct, frozen=True):
    """The answer to the open gate, by its number: an answer to an older one is refused.

    `always`: all of its scope (`core.approval_rules`) is approved from here on, by a rule.
    """

    gate: int
    approve: bool
    comment: str = ""
    always: bool = False
    source: str = "user"


class RevokeRule(Struct, frozen=True):
    """Take a rule back: what it covers is asked again."""

    rule: int
    source: str = "user"


class AnswerQuestion(Struct, frozen=True):
    question: int
    answer: str


class AddItem(Struct, frozen=True):
    """One more item, pinned; before the pending item `before`, or last."""

    text: str
    rationale: str = ""
    before: str = ""


class EditItem(Struct, frozen=True):
    """Other words for a pending item. A rationale that is None stays as it is."""

    item: str
    text: str
    rationale: str | None = None


class DropItem(Struct, frozen=True):
    item: str
    reason: str = ""


class ReorderItems(Struct, frozen=True):
    """All pending items, each once, in the order in which they shall be worked on."""

    order: tuple[str, ...]


class PinItem(Struct, frozen=True):
    item: str
    pinned: bool = True


class AdoptPlanEdit(Struct, frozen=True):
    """Take a hand edit of PLAN.md over, as `akg_tui.core.plan.edit` read it."""

    kept: str
    change: PlanChange


class ForceReplan(Struct, frozen=True):
    reason: str = ""


class ForceDiagnosis(Struct, frozen=True):
    reason: str = ""


class UndoKeep(Struct, frozen=True):
    comment: str = ""


class Hint(Struct, frozen=True):
    text: str


class HintSubagent(Struct, frozen=True):
    """A message to one subagent at work; it goes with its next request."""

    subagent: str
    text: str


class StopSubagent(Struct, frozen=True):
    subagent: str
    reason: str = ""


class Stop(Struct, frozen=True):
    reason: str = "stopped by the user"


Command = (
    Observe
    | StartEval
    | FinishEval
    | AcceptBaseline
    | Settle
    | SubmitPlan
    | Edit
    | ReportDiagnosis
    | RequestFinish
    | AskUser
    | ReportBlocked
    | RequestScript
    | SetMode
    | SetGate
    | ChangePolicy
    | Pause
    | Unpause
    | Step
    | AnswerGate
    | RevokeRule
    | AnswerQuestion
    | AddItem
    | EditItem
    | DropItem
    | ReorderItems
    | PinItem
    | AdoptPlanEdit
    | ForceReplan
    | ForceDiagnosis
    | UndoKeep
    | Hint
    | HintSubagent
    | StopSubagent
    | Stop
)


class Rejected(Struct, frozen=True):
    """A command that changes nothing, and why."""

    why: str


Events = tuple[AnyEvent, ...]


_ORDERS: tuple[type[Any], ...] = (
    SetMode,
    SetGate,
    ChangePolicy,
    Pause,
    Unpause,
    Step,
    AnswerGate,
    RevokeRule,
    AnswerQuestion,
    AddItem,
    EditItem,
    DropItem,
    ReorderItems,
    PinItem,
    AdoptPlanEdit,
    ForceReplan,
    ForceDiagnosis,
    UndoKeep,
    Hint,
    HintSubagent,
    StopSubagent,
    Stop,
)
ORDERS: dict[str, type[Any]] = {kind.__name__: kind for kind in _ORDERS}
"""The commands of a person, by name."""


class BadCommand(ValueError):
    """No command of a person; the message says what is wrong with it."""


def command_from_json(plain: object) -> Command:
    """The command that ``{"order": NAME, "with": {FIELD: VALUE}}`` stands for.

    Who sends it is a person at a screen, whatever it says. Raises `BadOrder`.
    """
    if not isinstance(plain, dict) or not isinstance(name := plain.get("order"), str):
        raise BadCommand('expected {"order": NAME, "with": {…}}')
    kind = ORDERS.get(name)
    if kind is None:
        raise BadCommand(f"{name!r} is not a person's command; there are: {', '.join(ORDERS)}")
    fields = plain.get("with", {})
    if not isinstance(fields, dict):
        raise BadCommand(f"{name}: its fields must be an object")
    if unknown := set(fields) - set(kind.__struct_fields__):
        raise BadCommand(f"{name} has no field {', '.join(sorted(map(str, unknown)))}")
    if "source" in kind.__struct_fields__:
        fields = {**fields, "source": "user"}
    try:
        command: Command = msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise BadCommand(f"{name}: {error}") from error
    return command


def command_to_json(command: Command) -> dict[str, Any]:
    """The plain values of a person's command. Raises `BadOrder` for any other."""
    name = type(command).__name__
    if name not in ORDERS:
        raise BadCommand(f"{name} is not a person's command")
    return {"order": name, "with": msgspec.to_builtins(command)}

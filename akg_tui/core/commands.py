"""Commands: requests of a person or the agent, and the engine's results of effects.

`decide` (in `akg_tui.core.decide`) turns a command into events or into a `Rejected`, a refusal in
one sentence. Only a person's commands have a JSON form, so another process can send no others.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from akg_tui.core.events import AnyEvent, BlockedKind, Observation, PlanChange, PlannedItem, Purpose
from akg_tui.core.measurement import Measurement
from akg_tui.core.phases import Gate, Mode
from akg_tui.core.sanitize import SaidError
from akg_tui.core.task import Policy


class Command(Struct, frozen=True):
    """Base of all commands."""


class PersonCommand(Command, frozen=True, forbid_unknown_fields=True):
    """Base of a person's commands, the only ones that another process can send."""


class Observe(Command, frozen=True):
    """A fact from outside core. `decide` never refuses an observation."""

    event: Observation


# Commands of the engine, each with the result of an effect.


class StartEval(Command, frozen=True):
    purpose: Purpose
    attempt: int
    blob: str


class FinishEval(Command, frozen=True):
    measurement: Measurement


class AcceptBaseline(Command, frozen=True):
    commit: str


class Settle(Command, frozen=True):
    """Settle the round whose attempt is committed as `commit`; `decide` derives the verdict."""

    commit: str


# Commands of the agent, sent by its tools.


class SubmitPlan(Command, frozen=True):
    """Submit a plan. `items` have no ids: `decide` assigns them."""

    items: tuple[PlannedItem, ...]
    summary: str = ""


class RevisePlan(Command, frozen=True):
    """Drop, reopen and reorder single items; `order` has all items pending then, or is empty."""

    reason: str
    drop: tuple[str, ...] = ()
    reopen: tuple[str, ...] = ()
    order: tuple[str, ...] = ()


class Edit(Command, frozen=True):
    """Edit the kernel. `item` is another item than the active one, whose work the edit does."""

    blob: str
    sha256: str
    added: int
    removed: int
    note: str = ""
    item: str = ""


class RecordTrial(Command, frozen=True):
    """Record a measured trial of the active item; `made_from` names the source of its text.

    `sweep` is the number of the sweep that made it, 0 for a trial alone.
    """

    blob: str
    made_from: str
    measurement: Measurement
    sweep: int = 0


class ReportDiagnosis(Command, frozen=True):
    cause: str
    avoid: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    exhausted: bool = False


class RequestFinish(Command, frozen=True):
    reason: str


class AskUser(Command, frozen=True):
    """Ask the person. `watched`: a screen shows the run, so somebody may be there to answer."""

    text: str
    choices: tuple[str, ...] = ()
    default: str | None = None
    timeout_s: float | None = None
    watched: bool = False


class ReportBlocked(Command, frozen=True):
    """Report being blocked: at the active item alone, or with the whole run."""

    kind: BlockedKind
    text: str
    about: Literal["run", "item"] = "run"


class RequestScript(Command, frozen=True):
    """Request permission to run the script with this digest. Without a gate only a rule permits it.

    `interpreter` runs the script; `source` is the requesting subagent, "" for the run's own agent.
    """

    sha256: str
    script: str = ""
    interpreter: str = ""
    source: str = ""


# Commands of a person.


class SetMode(PersonCommand, frozen=True):
    """Set the supervision mode. `source` is as in `ChangePolicy`."""

    mode: Mode
    source: str = "user"


class SetGate(PersonCommand, frozen=True):
    gate: Gate
    on: bool


class ChangePolicy(PersonCommand, frozen=True):
    """Replace the policy. `source` is `COMMAND_LINE`, or "user" for a person at the workbench."""

    policy: Policy
    source: str = "user"


class GoOn(PersonCommand, frozen=True):
    """Let a run go on that is over, under this policy. `source` is as in `ChangePolicy`."""

    policy: Policy
    source: str = "user"


class Pause(PersonCommand, frozen=True):
    pass


class Unpause(PersonCommand, frozen=True):
    pass


class Step(PersonCommand, frozen=True):
    pass


class AnswerGate(PersonCommand, frozen=True):
    """Answer the open gate with the number `gate`; an answer to an older gate is refused.

    With `always` a rule approves all later requests of this scope (`core.approval_rules`).
    """

    gate: int
    approve: bool
    comment: str = ""
    always: bool = False


class RevokeRule(PersonCommand, frozen=True):
    """Revoke a rule: the requests in its scope go to a person again."""

    rule: int


class AnswerQuestion(PersonCommand, frozen=True):
    """Answer the open question: with one of its choices, or in other words."""

    question: int
    answer: str


class HoldQuestion(PersonCommand, frozen=True):
    """Stop the clock of the open question: it waits until it is answered."""

    question: int


class AddItem(PersonCommand, frozen=True):
    """Add an item, pinned, before the pending item `before`, or as the last item."""

    text: str
    rationale: str = ""
    before: str = ""


class EditItem(PersonCommand, frozen=True):
    """Replace the text of a pending item, and its rationale unless `rationale` is None."""

    item: str
    text: str
    rationale: str | None = None


class DropItem(PersonCommand, frozen=True):
    item: str
    reason: str = ""


class ReorderItems(PersonCommand, frozen=True):
    """Reorder the pending items; `order` names each of them once, the next to work on first."""

    order: tuple[str, ...]


class PinItem(PersonCommand, frozen=True):
    item: str
    pinned: bool = True


class Remeasure(PersonCommand, frozen=True):
    """Measure a kernel again that was not proved faster; `what` is its item or its attempt."""

    what: str


class AdoptPlanEdit(PersonCommand, frozen=True):
    """Apply the hand edit `kept` of PLAN.md; `change` is from `akg_tui.core.plan.edit`."""

    kept: str
    change: PlanChange


class ForceReplan(PersonCommand, frozen=True):
    reason: str = ""


class ForceDiagnosis(PersonCommand, frozen=True):
    reason: str = ""


class UndoKeep(PersonCommand, frozen=True):
    """Undo the last KEEP; with `queue`, later if work that builds on it is under way."""

    comment: str = ""
    queue: bool = False


class WithdrawUndo(PersonCommand, frozen=True):
    """Take a queued undo back."""


class LeaveOutCompile(PersonCommand, frozen=True):
    """Leave out what is still to be measured of torch.compile, also what is measured now."""


class NewSession(PersonCommand, frozen=True):
    """Begin a new conversation with the agent, and count its tokens from zero."""


class Hint(PersonCommand, frozen=True):
    text: str


class HintSubagent(PersonCommand, frozen=True):
    """Send a message to one subagent at work; its next request carries the message."""

    subagent: str
    text: str


class StopSubagent(PersonCommand, frozen=True):
    subagent: str
    reason: str = ""


class Stop(PersonCommand, frozen=True):
    reason: str = "stopped by the user"


class Rejected(Struct, frozen=True):
    """A refused command, which changes nothing; `why` is the reason."""

    why: str


class Refusal(SaidError):
    """A refusal of a command, raised in core; `core.decide.decide` returns it as `Rejected`."""


Events = tuple[AnyEvent, ...]
Made = AnyEvent | Events
"""The result of one kind of command: one event, or several in their order."""


PERSON_COMMANDS = {kind.__name__: kind for kind in PersonCommand.__subclasses__()}
"""The classes of a person's commands, by name."""


class BadCommand(ValueError):
    """A value that is not a valid command of a person; the message names the fault."""


class _Order(Struct):
    order: str
    fields: dict[str, Any] = msgspec.field(name="with", default_factory=dict)


def command_from_json(plain: object) -> PersonCommand:
    """Return the command that ``{"order": NAME, "with": {FIELD: VALUE}}`` describes.

    `source` is always set to "user"; a given value is ignored. Raises `BadCommand`.
    """
    try:
        told = msgspec.convert(plain, _Order)
        kind = PERSON_COMMANDS.get(told.order)
        if kind is None:
            known = ", ".join(PERSON_COMMANDS)
            raise BadCommand(f"{told.order!r} is not a person's command; there are: {known}")
        given = {"source": "user"} if "source" in kind.__struct_fields__ else {}
        return msgspec.convert(told.fields | given, kind)
    except msgspec.ValidationError as error:
        raise BadCommand(str(error)) from error


def command_to_json(command: Command) -> dict[str, Any]:
    """Return the JSON form of a person's command. Raises `BadCommand` for other commands."""
    name = type(command).__name__
    if name not in PERSON_COMMANDS:
        raise BadCommand(f"{name} is not a person's command")
    return {"order": name, "with": msgspec.to_builtins(command)}

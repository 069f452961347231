"""Commands: requests of a person or the agent, and the engine's results of effects.

`decide` (in `akg_tui.core.decide`) turns a command into events or into a `Rejected`, a refusal in
one sentence. Only a person's commands have a JSON form, so another process can send nothing else.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from akg_tui.core.events import AnyEvent, BlockedKind, Observation, PlanChange, PlannedItem, Purpose
from akg_tui.core.measurement import Measurement
from akg_tui.core.phases import Gate, Mode
from akg_tui.core.task import Policy


class Command(Struct, frozen=True):
    """Base of all commands."""


class PersonCommand(Command, frozen=True):
    """Base of a person's commands, the only ones that another process can send."""


class Observe(Command, frozen=True):
    """A fact from outside core: it happened, so it is never refused."""

    event: Observation


# From the engine, each the result of an effect.


class StartEval(Command, frozen=True):
    purpose: Purpose
    attempt: int
    blob: str


class FinishEval(Command, frozen=True):
    measurement: Measurement


class AcceptBaseline(Command, frozen=True):
    commit: str


class Settle(Command, frozen=True):
    """The attempt is in history as `commit`; the verdict follows from the measurement."""

    commit: str


# From the agent, through its tools.


class SubmitPlan(Command, frozen=True):
    """`items` without ids: the state gives them out."""

    items: tuple[PlannedItem, ...]
    summary: str = ""


class Edit(Command, frozen=True):
    blob: str
    sha256: str
    added: int
    removed: int
    note: str = ""


class ReportDiagnosis(Command, frozen=True):
    cause: str
    avoid: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()


class RequestFinish(Command, frozen=True):
    reason: str


class AskUser(Command, frozen=True):
    text: str
    choices: tuple[str, ...] = ()
    default: str | None = None
    timeout_s: float | None = None


class ReportBlocked(Command, frozen=True):
    kind: BlockedKind
    text: str


class RequestScript(Command, frozen=True):
    """Leave to run the script with this digest. Where no gate is set only a rule can give it.

    `interpreter` is what runs it, `source` the subagent that wants to, if one does.
    """

    sha256: str
    script: str = ""
    interpreter: str = ""
    source: str = ""


# From a person.


class SetMode(PersonCommand, frozen=True):
    """`source`: as in `ChangePolicy`."""

    mode: Mode
    source: str = "user"


class SetGate(PersonCommand, frozen=True):
    gate: Gate
    on: bool


class ChangePolicy(PersonCommand, frozen=True):
    """`source`: `COMMAND_LINE`, or "user" for a person at the workbench."""

    policy: Policy
    source: str = "user"


class Pause(PersonCommand, frozen=True):
    pass


class Unpause(PersonCommand, frozen=True):
    pass


class Step(PersonCommand, frozen=True):
    pass


class AnswerGate(PersonCommand, frozen=True):
    """The answer to the open gate, by its number: an answer to an older one is refused.

    `always`: all of its scope (`core.approval_rules`) is approved from here on, by a rule.
    """

    gate: int
    approve: bool
    comment: str = ""
    always: bool = False
    source: str = "user"


class RevokeRule(PersonCommand, frozen=True):
    """Take a rule back: what it covers is asked again."""

    rule: int
    source: str = "user"


class AnswerQuestion(PersonCommand, frozen=True):
    question: int
    answer: str


class AddItem(PersonCommand, frozen=True):
    """One more item, pinned; before the pending item `before`, or last."""

    text: str
    rationale: str = ""
    before: str = ""


class EditItem(PersonCommand, frozen=True):
    """Other words for a pending item. A rationale that is None stays as it is."""

    item: str
    text: str
    rationale: str | None = None


class DropItem(PersonCommand, frozen=True):
    item: str
    reason: str = ""


class ReorderItems(PersonCommand, frozen=True):
    """All pending items, each once, in the order in which they shall be worked on."""

    order: tuple[str, ...]


class PinItem(PersonCommand, frozen=True):
    item: str
    pinned: bool = True


class AdoptPlanEdit(PersonCommand, frozen=True):
    """Apply a hand edit of PLAN.md to the plan, as `akg_tui.core.plan.edit` read it."""

    kept: str
    change: PlanChange


class ForceReplan(PersonCommand, frozen=True):
    reason: str = ""


class ForceDiagnosis(PersonCommand, frozen=True):
    reason: str = ""


class UndoKeep(PersonCommand, frozen=True):
    comment: str = ""


class Hint(PersonCommand, frozen=True):
    text: str


class HintSubagent(PersonCommand, frozen=True):
    """A message to one subagent at work; it goes with its next request."""

    subagent: str
    text: str


class StopSubagent(PersonCommand, frozen=True):
    subagent: str
    reason: str = ""


class Stop(PersonCommand, frozen=True):
    reason: str = "stopped by the user"


class Rejected(Struct, frozen=True):
    """A command that changes nothing, and why."""

    why: str


class Refusal(Exception):
    """Raised where core refuses a command; `akg_tui.core.decide.decide` answers `Rejected`."""


Events = tuple[AnyEvent, ...]
Made = AnyEvent | Events
"""What one kind of command becomes: an event, or some in their order."""


PERSON_COMMANDS = {kind.__name__: kind for kind in PersonCommand.__subclasses__()}
"""The commands of a person, by name."""


class BadCommand(ValueError):
    """No command of a person; the message says what is wrong with it."""


def command_from_json(plain: object) -> PersonCommand:
    """The command that ``{"order": NAME, "with": {FIELD: VALUE}}`` stands for.

    Its `source` is always "user", whatever it says. Raises `BadCommand`.
    """
    if not isinstance(plain, dict) or not isinstance(name := plain.get("order"), str):
        raise BadCommand('expected {"order": NAME, "with": {…}}')
    kind = PERSON_COMMANDS.get(name)
    if kind is None:
        raise BadCommand(
            f"{name!r} is not a person's command; there are: {', '.join(PERSON_COMMANDS)}"
        )
    fields = plain.get("with", {})
    if not isinstance(fields, dict):
        raise BadCommand(f"{name}: its fields must be an object")
    if unknown := set(fields) - set(kind.__struct_fields__):
        raise BadCommand(f"{name} has no field {', '.join(sorted(map(str, unknown)))}")
    if "source" in kind.__struct_fields__:
        fields = {**fields, "source": "user"}
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise BadCommand(f"{name}: {error}") from error


def command_to_json(command: Command) -> dict[str, Any]:
    """The plain values of a person's command. Raises `BadCommand` for any other."""
    name = type(command).__name__
    if name not in PERSON_COMMANDS:
        raise BadCommand(f"{name} is not a person's command")
    return {"order": name, "with": msgspec.to_builtins(command)}

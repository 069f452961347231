"""What somebody asks for: a person, the agent, or the engine with a result in its hands.

`decide` (in `akg_tui.core.decide`) turns a command into events or refuses it with a
sentence that says what is allowed now.
"""

from __future__ import annotations

from msgspec import Struct

from akg_tui.core.events import (
    ApiFailed,
    ApiWaiting,
    ContextRebuilt,
    EndpointProbed,
    EvalInterrupted,
    ModelReplied,
    PlannedItem,
    Purpose,
    ReplyLost,
    SessionOpened,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    TurnInterrupted,
    VisitFailed,
)
from akg_tui.core.machine import Mode, Phase
from akg_tui.core.measurement import Measurement
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
        | ToolCalled
        | ToolAnswered
        | TurnEnded
        | TurnInterrupted
        | VisitFailed
    )


# From the engine, each the result of an effect.


class Advance(Struct, frozen=True):
    to: Phase


class Activate(Struct, frozen=True):
    item: str


class Abandon(Struct, frozen=True):
    item: str
    reason: str


class StartEval(Struct, frozen=True):
    purpose: Purpose
    attempt: int
    blob: str


class FinishEval(Struct, frozen=True):
    measurement: Measurement


class AcceptBaseline(Struct, frozen=True):
    commit: str


class AskKeep(Struct, frozen=True):
    pass


class Settle(Struct, frozen=True):
    """The attempt is in history as `commit`; the verdict follows from the measurement."""

    commit: str


class Finish(Struct, frozen=True):
    reason: str
    ok: bool


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
    fallback: bool = False


class RequestFinish(Struct, frozen=True):
    reason: str


# From a person.


class SetMode(Struct, frozen=True):
    mode: Mode


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


class AnswerKeep(Struct, frozen=True):
    """The answer to the open gate, by its number: an answer to an older one is refused."""

    gate: int
    approve: bool
    comment: str = ""


class Hint(Struct, frozen=True):
    text: str


class Stop(Struct, frozen=True):
    reason: str = "stopped by the user"


Command = (
    Observe
    | Advance
    | Activate
    | Abandon
    | StartEval
    | FinishEval
    | AcceptBaseline
    | AskKeep
    | Settle
    | Finish
    | SubmitPlan
    | Edit
    | ReportDiagnosis
    | RequestFinish
    | SetMode
    | ChangePolicy
    | Pause
    | Unpause
    | Step
    | AnswerKeep
    | Hint
    | Stop
)

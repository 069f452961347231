"""The tools by which the agent turns to a person: ask_user, report_blocked, leave for a script.

Nothing here waits. A question that waits for a person ends the turn; core holds the phase
(overlay WAIT_USER), and the visit that follows is told the answer. So a question outlives
the process that asked it.
"""

from __future__ import annotations

from msgspec import Struct

from akg_tui.agent.chat import ToolResult, ToolSpec
from akg_tui.agent.tools.port import RunPort
from akg_tui.core import commands as cmd
from akg_tui.core.events import BlockedKind
from akg_tui.core.machine import Gate
from akg_tui.core.told import answered


class AskUser(Struct, frozen=True, forbid_unknown_fields=True):
    question: str
    choices: list[str] = []
    default: str | None = None
    timeout: float | None = None


class ReportBlocked(Struct, frozen=True, forbid_unknown_fields=True):
    kind: BlockedKind
    reason: str


ASK_USER = ToolSpec(
    "ask_user",
    "Ask the person who watches. With nobody there your default holds at once, or you are told "
    "to decide by yourself; else your turn ends here and you are told the answer when you go on.",
    {
        "type": "object",
        "properties": {
            "question": {"type": "string"},
            "choices": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
            "default": {"type": "string", "description": "Taken when nobody answers."},
            "timeout": {"type": "number", "description": "Seconds to wait for an answer."},
        },
        "required": ["question"],
        "additionalProperties": False,
    },
)

REPORT_BLOCKED = ToolSpec(
    "report_blocked",
    "Say that you cannot go on here, and what is missing. A diagnosis, a person or the end of "
    "the run follows, as the policy says.",
    {
        "type": "object",
        "properties": {
            "kind": {
                "type": "string",
                "enum": [
                    "missing_information",
                    "missing_tool",
                    "environment",
                    "impossible",
                    "other",
                ],
            },
            "reason": {"type": "string"},
        },
        "required": ["kind", "reason"],
        "additionalProperties": False,
    },
)


def ask_user(run: RunPort, arguments: AskUser) -> ToolResult:
    """Journal the question; the answer at once where nobody is there to give one."""
    asked = cmd.AskUser(
        arguments.question, tuple(arguments.choices), arguments.default, arguments.timeout
    )
    if refused := run.send(asked):
        return ToolResult.error(refused.why)
    question = run.state.questions[-1]
    if question.answer is None:
        return ToolResult.success(
            f"question {question.number} waits for the person; end your turn, you will be told"
        )
    return ToolResult.success(answered(question))


def report_blocked(run: RunPort, arguments: ReportBlocked) -> ToolResult:
    """Journal it; what follows is the policy's to say."""
    if refused := run.send(cmd.ReportBlocked(arguments.kind, arguments.reason)):
        return ToolResult.error(refused.why)
    return ToolResult.success("recorded; your visit ends here")


def script_refusal(run: RunPort, sha256: str, script: str) -> ToolResult | None:
    """Why the script with this digest may not run now; None when it may.

    Where the gate `script` is set and nobody has answered for this script, a person is
    asked and the visit ends; approved, the same call made again passes.
    """
    if Gate.SCRIPT not in run.state.gates:
        return None
    answer = dict(run.state.scripts).get(sha256)
    if answer is not None:
        return None if answer else ToolResult.error("a person refused this script")
    if refused := run.send(cmd.RequestScript(sha256, script)):
        return ToolResult.error(refused.why)
    return ToolResult.error(
        "this script waits for a person's leave; end your turn and call it again when told"
    )

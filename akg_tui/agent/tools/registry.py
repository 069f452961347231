"""The tools as a model is told about them: one frozen, sorted list, the same in every phase.

Which of them may be used now is not told by leaving some out (that would break the
prompt cache) but by the executor's answer.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from akg_tui.agent.chat import ToolSpec
from akg_tui.agent.tools.asking import ASK_USER, REPORT_BLOCKED, AskUser, ReportBlocked
from akg_tui.hashline import EDIT_SCHEMA


class ReadKernel(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class EditKernel(Struct, frozen=True, forbid_unknown_fields=True):
    ops: list[dict[str, Any]]
    rev: int | None = None
    note: str = ""
    allow_dup: bool = False
    allow_broken: bool = False


class PlanEntry(Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    rationale: str = ""


class SubmitPlan(Struct, frozen=True, forbid_unknown_fields=True):
    items: list[PlanEntry]
    summary: str = ""


class Finish(Struct, frozen=True, forbid_unknown_fields=True):
    reason: str


class ReportDiagnosis(Struct, frozen=True, forbid_unknown_fields=True):
    cause: str
    avoid: list[str] = []
    directions: list[str] = []


ARGUMENTS: dict[str, type[Struct]] = {
    "ask_user": AskUser,
    "edit_kernel": EditKernel,
    "finish": Finish,
    "read_kernel": ReadKernel,
    "report_blocked": ReportBlocked,
    "report_diagnosis": ReportDiagnosis,
    "submit_plan": SubmitPlan,
}


def _object(properties: dict[str, Any], required: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_TEXTS = {"type": "array", "items": {"type": "string"}}

TOOLS: tuple[ToolSpec, ...] = (
    ASK_USER,
    ToolSpec(
        "edit_kernel",
        "Change the kernel by line tags. All ops apply or none; a stale tag changes nothing. "
        "The harness evaluates the result by itself when your turn ends.",
        _object(
            {
                "ops": EDIT_SCHEMA,
                "rev": {
                    "type": "integer",
                    "description": (
                        "The revision whose tags ops uses: 7 where the view says r7. Left out, "
                        "the tags must mean the same in every revision shown to you."
                    ),
                },
                "note": {"type": "string"},
                "allow_dup": {
                    "type": "boolean",
                    "description": "New lines may repeat the line beside them.",
                },
                "allow_broken": {
                    "type": "boolean",
                    "description": "The kernel may stop parsing, to be mended by a later edit.",
                },
            },
            ("ops",),
        ),
    ),
    ToolSpec(
        "finish",
        "End the run because no direction is left. Say why.",
        _object({"reason": {"type": "string"}}, ("reason",)),
    ),
    ToolSpec(
        "read_kernel",
        "The kernel as it stands, every line with its number and tag: `12sr|text`.",
        _object({}, ()),
    ),
    REPORT_BLOCKED,
    ToolSpec(
        "report_diagnosis",
        "Report why the last attempts failed, what to avoid, and which directions to try.",
        _object(
            {"cause": {"type": "string"}, "avoid": _TEXTS, "directions": _TEXTS},
            ("cause", "directions"),
        ),
    ),
    ToolSpec(
        "submit_plan",
        "Submit the plan: items to try in this order, one direction each, and for each in a "
        "sentence why it should be faster. What was settled before is refused.",
        _object(
            {
                "items": {
                    "type": "array",
                    "items": _object(
                        {"text": {"type": "string"}, "rationale": {"type": "string"}},
                        ("text", "rationale"),
                    ),
                },
                "summary": {"type": "string"},
            },
            ("items",),
        ),
    ),
)

"""The export guard: only a person's request declares a run's result final.

Pure rules over the result and status of a report (`akg_tui.report.write`). The guard applies to
reports made from a screen or an API, not to the command line, where a person typed the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

Channel = Literal["ui", "cli"]

RESULT_SKIPPED = "auto-run guard: skipped task_plan.result update without explicit export request"
STATUS_KEPT = "auto-run guard: kept task_plan.status=in_progress until explicit export request"

_DELIVERABLES = ("报告", "论文", "结果")


class Guarded(Struct, frozen=True):
    """A plan's result and status after the guard; `notes` are the progress messages."""

    result: Any
    status: str
    notes: tuple[str, ...] = ()


def is_result_request(message: str, *, allow_result_write: bool = False) -> bool:
    """Return whether a message requests the result, by the flag or by English or Chinese words."""
    words = message.lower()
    return (
        allow_result_write
        or "manual export request for" in words
        or ("final deliverable" in words and "request" in words)
        or ("导出" in message and any(what in message for what in _DELIVERABLES))
    )


def may_export(message: str, *, channel: Channel, allow_result_write: bool = False) -> bool:
    """Return whether the result may be written; always True for the command line."""
    return channel == "cli" or is_result_request(message, allow_result_write=allow_result_write)


def has_deliverable(result: object) -> bool:
    """Return whether `result` has an output path, an output type, a summary or sections."""
    if not isinstance(result, Mapping):
        return False
    return any(
        bool(result.get(key)) for key in ("output_path", "output_type", "summary", "sections")
    )


def guard(*, before: object, after: object, status: str, pending: bool, may_write: bool) -> Guarded:
    """Return the allowed result and status after a round; `before` and `after` are its results.

    Without `may_write` the result `before` is kept, and the status "completed" needs a
    deliverable in it and no pending work; otherwise the status becomes "in_progress".
    """
    if may_write:
        return Guarded(after, status)
    notes: list[str] = []
    if after != before:
        notes.append(RESULT_SKIPPED)
    if status == "completed" and (pending or not has_deliverable(before)):
        status = "in_progress"
        notes.append(STATUS_KEPT)
    return Guarded(before, status, tuple(notes))

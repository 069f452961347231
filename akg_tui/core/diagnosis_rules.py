"""What a diagnosis must have to be of use: a cause of substance, and somewhere to go from it.

Pure. A report that does not pass is answered with what is wrong; after some of those the
plain facts take its place (`akg_tui.core.effects.FallBack`).
"""

from __future__ import annotations

from collections.abc import Sequence

from akg_tui.core.commands import ReportDiagnosis

MIN_CAUSE, MAX_CAUSE = 20, 1_000
MIN_LETTERS = 8  # different ones: "aaaa…" and "unknown" are no cause
MAX_ENTRIES = 20
MIN_DIRECTION, MAX_ENTRY = 5, 300


def report_fault(report: ReportDiagnosis) -> str | None:
    """Why this report is no diagnosis, in a sentence; None when it is one."""
    cause = _words(report.cause)
    if not MIN_CAUSE <= len(cause) <= MAX_CAUSE:
        return f"the cause must have {MIN_CAUSE} to {MAX_CAUSE} characters, not {len(cause)}"
    if len({letter for letter in cause if letter.isalnum()}) < MIN_LETTERS:
        return "the cause says nothing: name what the failed attempts have in common"
    if not report.directions:
        return "a diagnosis needs at least one direction to try"
    if fault := _entries_fault("direction", report.directions, MIN_DIRECTION):
        return fault
    if fault := _entries_fault("avoid", report.avoid, 1):
        return fault
    avoided = {_words(text) for text in report.avoid}
    for number, text in enumerate(report.directions, 1):
        if _words(text) in avoided:
            return f"direction {number} is what the report says to avoid: {text}"
        if _words(text) == cause:
            return f"direction {number} only says the cause again"
    return None


def _words(text: str) -> str:
    return " ".join(text.lower().split())


def _entries_fault(what: str, texts: Sequence[str], least: int) -> str | None:
    if len(texts) > MAX_ENTRIES:
        return f"at most {MAX_ENTRIES} entries of {what}, not {len(texts)}"
    seen: set[str] = set()
    for number, text in enumerate(texts, 1):
        words = _words(text)
        if not least <= len(words) <= MAX_ENTRY:
            return f"{what} {number} must have {least} to {MAX_ENTRY} characters, not {len(words)}"
        if words in seen:
            return f"{what} {number} stands there twice: {text}"
        seen.add(words)
    return None

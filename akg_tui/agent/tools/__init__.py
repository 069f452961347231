"""The tools of the agent: what they are called, what they take, and what runs them.

The error for a bad definition stands here, so that the start of a run can catch it without loading
pydantic and the YAML reader, which only a task with tool files needs.
"""

from __future__ import annotations

from pathlib import Path

from akg_tui.core.sanitize import one_line


class BadTools(ValueError):
    """A definition that cannot be used, told as `FILE:LINE: field: what is wrong`."""

    def __init__(self, path: Path, line: int | None, field: str, message: str) -> None:
        place = str(path) if line is None else f"{path}:{line}"
        super().__init__(one_line(": ".join(p for p in (place, field, message) if p), 1000))

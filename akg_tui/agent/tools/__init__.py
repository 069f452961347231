"""The tools of the agent: their declarations, the code that runs them, and their rules.

The error for a bad definition is defined here, so that the start of a run can catch it without
loading pydantic and the YAML reader, which only a task with tool files needs.
"""

from __future__ import annotations

from pathlib import Path

from akg_tui.core.sanitize import one_line


class BadTools(ValueError):
    """A tool file has an unusable definition; the message is `FILE:LINE: field: fault`."""

    def __init__(self, path: Path, line: int | None, field: str, message: str) -> None:
        place = str(path) if line is None else f"{path}:{line}"
        super().__init__(one_line(": ".join(p for p in (place, field, message) if p), 1000))

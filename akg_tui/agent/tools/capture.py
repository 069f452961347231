"""What a tool's own code logged while it ran: WARNING and above, of this call alone.

Goes by context, not by process: tools that run at the same time, and the screen, each keep
their own. The stderr of a tool's processes is added by whoever ran them.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterator

MAX_LOG = 256 << 10
MAX_SUMMARY = 800


class Captured:
    """The lines captured so far; bounded."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        """Keep a text, as long as there is room."""
        room = MAX_LOG - self._size
        if text and room > 0:
            self._lines.append(text[:room])
            self._size += len(self._lines[-1])

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    @property
    def summary(self) -> str:
        """The text, or when it is long its beginning and its end."""
        text = self.text.strip()
        if len(text) <= MAX_SUMMARY:
            return text
        half = (MAX_SUMMARY - 5) // 2
        return f"{text[:half]}\n[…]\n{text[-half:]}"


_current: contextvars.ContextVar[Captured | None] = contextvars.ContextVar("capture", default=None)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        captured = _current.get()
        if captured is not None:
            captured.add(self.format(record))


_handler = _Handler(logging.WARNING)
_handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))


@contextlib.contextmanager
def capture() -> Iterator[Captured]:
    """Collect what is logged inside the block, by this task and what it awaits."""
    captured = Captured()
    root = logging.getLogger()
    if _handler not in root.handlers:
        root.addHandler(_handler)
    token = _current.set(captured)
    try:
        yield captured
    finally:
        _current.reset(token)


def note(text: str) -> None:
    """Add the stderr of a process to the call that runs now, if one does."""
    captured = _current.get()
    if captured is not None:
        captured.add(text)

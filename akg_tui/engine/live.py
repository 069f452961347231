"""What is happening right now, for a screen: bounded, lossy, never part of a decision.

Writers overwrite, readers pull on their own clock. Nothing here is journaled; what
matters arrives as an event.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from akg_tui.core.measurement import Progress

MAX_STREAM_CHARS = 20_000


@dataclass
class Live:
    """The newest progress of an evaluation and the text that the agent is writing.

    `version` grows with every change, so a reader can tell whether to redraw. `notice` is
    what a person should still be told when the run is over.
    """

    activity: str = ""
    notice: str = ""
    progress: Progress | None = None
    version: int = 0
    _stream: deque[str] = field(default_factory=deque)
    _stream_chars: int = 0

    def show(self, activity: str) -> None:
        """Say what is being done now; the progress and stream of what went before end."""
        self.activity = activity
        self.progress = None
        self._stream.clear()
        self._stream_chars = 0
        self.version += 1

    def report(self, progress: Progress) -> None:
        self.progress = progress
        self.version += 1

    def write(self, delta: str) -> None:
        """Append streamed text; the oldest is dropped beyond `MAX_STREAM_CHARS`."""
        self._stream.append(delta[-MAX_STREAM_CHARS:])
        self._stream_chars += len(self._stream[-1])
        while self._stream_chars > MAX_STREAM_CHARS and len(self._stream) > 1:
            self._stream_chars -= len(self._stream.popleft())
        self.version += 1

    @property
    def stream(self) -> str:
        return "".join(self._stream)

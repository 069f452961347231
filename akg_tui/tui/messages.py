"""Messages to the person: the list of past notices, and the text of an exception.

Keeps the newest notices in memory. Writes nothing to disk and shows nothing itself.
"""

from __future__ import annotations

import time
from collections import deque

from akg_tui.view.language import retold

MOST = 200
AGAIN_S = 6.0  # the footer shows a notice this long; a repetition within it is dropped


class Notices:
    """The newest `MOST` notices with their times in seconds since the epoch, oldest first."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, str]] = deque(maxlen=MOST)

    def keep(self, text: str, now: float) -> None:
        text = retold(text)
        last, told = self._kept[-1] if self._kept else (0.0, "")
        if text and not (text == told and now - last < AGAIN_S):
            self._kept.append((now, text))

    def text(self) -> str:
        """Return one line for each notice, with the time of day."""
        return "\n".join(
            f"{time.strftime('%H:%M:%S', time.localtime(at))}  {text}" for at, text in self._kept
        )


def exception_text(error: BaseException) -> str:
    """Return the message of an exception, with its class if the message has at most 20 letters."""
    text = retold(error)
    return text if len(str(error)) > 20 else f"{type(error).__name__}: {text}".rstrip(": ")

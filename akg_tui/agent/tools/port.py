"""What tools may know of a run and ask of it. They change it through commands alone."""

from __future__ import annotations

from typing import Protocol

from akg_tui.core import commands as cmd
from akg_tui.core.refusal import Rejected
from akg_tui.core.state import RunState


class RunPort(Protocol):
    """A run as the agent's tools see it."""

    @property
    def state(self) -> RunState: ...

    @property
    def tag_key(self) -> bytes: ...

    def send(self, command: cmd.Command) -> Rejected | None: ...

    def kernel(self, blob: str) -> str: ...

    def keep_text(self, text: str) -> str:
        """Store kernel text durably; the blob id is the answer."""
        ...

"""What every tool call leaves on disk: `trace/<node>/` in the run's folder.

A node holds `request.json`, `result.json` (exactly status, output, error_information),
`output.txt` and `captured_errors.log`. For reading and for chaining calls; no decision
rests on it, so it is written plainly and a failure to write is only told.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from akg_tui.agent.chat import ToolResult

TRACE = "trace"
MAX_KEPT = 16 << 20


class Node:
    """One call's place. `name` is its path inside the run."""

    def __init__(self, run: Path, name: str) -> None:
        self.name = name
        self.path = run / name
        self.fault = ""

    def child(self, step: str) -> Node:
        """The place of a call made by this call."""
        return Node(self.path.parents[self.name.count("/")], f"{self.name}/{step}")

    def keep(self, name: str, data: bytes) -> None:
        """Write one file of the node; what went wrong is in `fault`."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_bytes(data[:MAX_KEPT])
        except OSError as error:
            self.fault = f"{self.name}/{name}: {error.strerror}"

    def begin(self, tool: str, arguments: dict[str, Any]) -> None:
        """Keep what was asked for, before anything is done."""
        request = {"tool": tool, "arguments": arguments}
        self.keep("request.json", msgspec.json.encode(request))

    def finish(self, result: ToolResult, captured: str) -> None:
        """Keep what came of it."""
        self.keep("result.json", msgspec.json.encode(result))
        if result.output:
            self.keep("output.txt", result.output.encode(errors="replace"))
        if captured:
            self.keep("captured_errors.log", captured.encode(errors="replace"))


def node_for(run: Path, seq: int, tool: str) -> Node:
    """The place of the call that the journal has as event `seq`."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", tool)[:40] or "unnamed"
    return Node(run, f"{TRACE}/{seq:06d}-{plain}")

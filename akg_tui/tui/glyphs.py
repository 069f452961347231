"""The signs that stand beside a word and a colour, so that no meaning hangs on colour alone.

Each is one column wide in every terminal: none is of ambiguous East Asian width.
"""

from __future__ import annotations

from akg_tui.core.machine import ItemState, Mode, Verdict

DONE = "✓"
LIVE = "▸"
WAITS = "⋯"
IDLE = "◦"
PIN = "‣"
PROMISED = "⋄"
TOOL = "›"
FOLDED = "›"
OPEN = "▾"
ADDED = "+"
REMOVED = "-"

VERDICT: dict[Verdict, tuple[str, str]] = {
    Verdict.KEEP: ("✓", "verdict.keep"),
    Verdict.DISCARD: ("▪", "verdict.discard"),
    Verdict.FAIL: ("✗", "verdict.fail"),
}

# Glyph, word, short word, role.
ITEM: dict[ItemState, tuple[str, str, str, str]] = {
    ItemState.PENDING: ("◦", "PENDING", "", "item.pending"),
    ItemState.ACTIVE: ("▸", "ACTIVE", "ACTIVE", "item.active"),
    ItemState.KEPT: ("✓", "KEPT", "KEPT", "verdict.keep"),
    ItemState.DISCARDED: ("▪", "DISCARDED", "DISC", "verdict.discard"),
    ItemState.FAILED: ("✗", "FAILED", "FAIL", "verdict.fail"),
    ItemState.SUSPENDED: ("⊟", "SUSPENDED", "SUSP", "item.suspended"),
    ItemState.DROPPED: ("⨯", "DROPPED", "DROP", "item.dropped"),
}

MODE: dict[Mode, str] = {
    Mode.AUTO: "mode.auto",
    Mode.REVIEW: "mode.review",
    Mode.STEP: "mode.step",
}


def bar(done: int, total: int, room: int) -> tuple[str, str]:
    """The full and the empty part of a progress bar `room` columns long."""
    full = room * min(done, total) // total if total else 0
    return "⣿" * full, "⣀" * (room - full)

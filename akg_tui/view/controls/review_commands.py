"""The commands that follow from the user's verdict in a review.

Pure. Only a measured candidate can be kept: a candidate with hunks left out was never measured,
so it goes back to the agent as a plan item.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from akg_tui.core import commands as cmd
from akg_tui.core.plan.submission import MAX_ITEM_TEXT, MAX_RATIONALE
from akg_tui.core.state import RunState
from akg_tui.core.task import SWEEP
from akg_tui.view.diff import Hunk, Row

Verdict = Literal["keep", "reject", "back"]

MAX_SHOWN_LINES = 12


def commands_of(
    state: RunState, verdict: Verdict, comment: str, left_out: Sequence[Hunk], rows: Sequence[Row]
) -> list[cmd.Command]:
    """Return the commands to send, in order, for a verdict on the candidate of the open gate.

    Parameters
    ----------
    left_out : sequence of Hunk
        The hunks that the person rejects; if there are any, the verdict must not be `keep`.
    rows : sequence of Row
        The comparison that contains the hunks.
    """
    gate = state.gate
    assert gate is not None
    if verdict == "keep":
        assert not left_out
        kept: list[cmd.Command] = [cmd.AnswerGate(gate.gate, approve=True, comment=comment)]
        if not comment or state.agent == SWEEP:
            return kept
        return [*kept, cmd.Hint(f"On attempt {gate.attempt}: {comment}")]
    if gate.kind == "edit":  # the item stays active, and the comment opens its next visit
        wish = " ".join(filter(None, (comment, wanted(left_out, rows))))
        return [cmd.AnswerGate(gate.gate, approve=False, comment=wish)]
    sent: list[cmd.Command] = [cmd.AnswerGate(gate.gate, approve=False, comment=comment)]
    if state.agent == SWEEP:  # it reads no words, and cannot make a part of a change
        assert verdict == "reject"
        return sent
    if verdict == "back" and state.active:
        sent.append(_again(state, gate.attempt, comment, left_out))
    if told := " ".join(filter(None, (comment, wanted(left_out, rows)))):
        sent.append(cmd.Hint(f"On attempt {gate.attempt}, which was rejected in review: {told}"))
    return sent


def _again(state: RunState, attempt: int, comment: str, left_out: Sequence[Hunk]) -> cmd.AddItem:
    item = state.item(state.active or "")
    numbers = ", ".join(str(hunk.number) for hunk in left_out)
    what = f" without hunk {numbers}" if left_out else ""
    text = f"attempt {attempt} again{what}: {item.text}"
    before = state.pending[0].id if state.pending else ""
    return cmd.AddItem(text[:MAX_ITEM_TEXT], comment[:MAX_RATIONALE], before)


def wanted(left_out: Sequence[Hunk], rows: Sequence[Row]) -> str:
    """Return the rejected hunks as text for the agent; empty for none."""
    if not left_out:
        return ""
    parts = ["Make the same change again without these lines:"]
    for hunk in left_out:
        lines = [f"{row.kind.value}{row.text}" for row in rows[hunk.start : hunk.stop]]
        if len(lines) > MAX_SHOWN_LINES:
            more = len(lines) - MAX_SHOWN_LINES
            lines = [*lines[:MAX_SHOWN_LINES], f"({more} more lines of this hunk)"]
        at = f"line {hunk.new}" if hunk.new else f"line {hunk.old} of the best kernel"
        parts.append(f"hunk {hunk.number}, at {at}:\n" + "\n".join(lines))
    return "\n".join(parts)

"""Two rounds side by side: the title and measurement of each side, the ratio of one over the other.

Pure: builds lines from states.
"""

from __future__ import annotations

from akg_tui.core.measurement import Outcome, digits
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import Attempt, RunState
from akg_tui.core.summary import ratios_of
from akg_tui.view import formatting
from akg_tui.view.glyphs import VERDICT
from akg_tui.view.language import retold, tr
from akg_tui.view.spans import Line, line


def name_of(attempt: Attempt) -> str:
    """Return what an attempt is called in a comparison."""
    return tr("round {number}", number=attempt.round) if attempt.number else tr("the seed")


def side_of(state: RunState, attempt: Attempt) -> tuple[Line, Line, Line, Line]:
    """Return an attempt as one side of a comparison: title, ratios, measurement, times."""
    glyph, role = VERDICT[attempt.verdict]
    title = line((f"{name_of(attempt)} ", "strong"))
    if attempt.number:
        title = line(
            *title,
            (f"{glyph} {attempt.verdict} ", role),
            (f"{attempt.item} ", "accent"),
            (one_line(state.item(attempt.item).text), "text"),
        )
    measured = attempt.measurement
    ratios = ratios_of(state, attempt)
    over = line((formatting.overall(ratios) if ratios else "", "figure"))
    if measured.outcome is not Outcome.CORRECT:
        against = line((retold(measured.message), "log.error"))
    elif attempt.number and measured.ratio:
        kernel_of = tr("over {kernel}", kernel=_name(_owner(state, attempt)))
        against = line((f"{kernel_of}: ", "muted"), formatting.sure(measured.ratio))
    elif measured.estimate is not None:
        against = line((formatting.estimated(measured.estimate), "muted"))
    else:
        against = line((tr("against eager"), "muted"))
    if attempt.advanced and attempt.number in state.undone:
        against = (*against, (f"  {tr('undone')}", "note"))
    return title, over, against, line((formatting.call_times(measured), "muted"))


def _owner(state: RunState, attempt: Attempt) -> Attempt:
    """Return the attempt whose kernel `attempt` was measured against; the seed where unknown."""
    before = state.attempts[: attempt.number]
    return next((a for a in reversed(before) if a.blob == attempt.incumbent), state.attempts[0])


def _name(attempt: Attempt) -> str:
    return tr("{item}'s kernel", item=attempt.item) if attempt.number else tr("the seed")


def between(state: RunState, left: Attempt, right: Attempt) -> Line:
    """Return the ratio of `right` over `left`; () unless one was measured against the other."""
    over = None
    if right.number and _owner(state, right) is left:
        over = right.measurement.ratio
    elif left.number and _owner(state, left) is right and left.measurement.ratio:
        over = left.measurement.ratio.inverse
    if over is None:
        return ()
    bounds = f"[{digits(over.low)}, {digits(over.high)}]"
    sure = tr("{percent} % sure", percent=f"{over.confidence * 100:.3g}")
    told = tr("{kernel} over {other}", kernel=name_of(right), other=name_of(left))
    return line(
        (f"{told}: ", "strong"),
        (f"{formatting.times(over.ratio)} {bounds}", "figure"),
        (f", {sure}, {tr('measured against each other')}", "muted"),
    )

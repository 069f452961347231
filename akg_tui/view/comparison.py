"""Two kernels side by side: the title and measurement of each side, the ratio of one over the
other, and the rows of the pairs.

Pure: builds lines from states and texts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import Interval, Outcome, digits
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import Attempt, RunState
from akg_tui.core.summary import ratios_of
from akg_tui.view import formatting
from akg_tui.view.glyphs import VERDICT
from akg_tui.view.language import retold, tr
from akg_tui.view.spans import Line, line


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its title, its measurement and its kernel. `key` names the text."""

    key: str
    title: Line
    about: tuple[Line, ...]
    kernel: KernelFiles


def name_of(attempt: Attempt) -> str:
    """Return what an attempt is called in a comparison."""
    return tr("round {number}", number=attempt.round) if attempt.number else tr("the seed")


def side_of(state: RunState, attempt: Attempt, kernel: Callable[[str], KernelFiles]) -> Side:
    """Return an attempt of a run as one side of a comparison."""
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
    about = over, against, line((formatting.call_times(measured), "muted"))
    return Side(attempt.blob, title, about, kernel(attempt.blob))


def _owner(state: RunState, attempt: Attempt) -> Attempt:
    """Return the attempt whose kernel `attempt` was measured against; the seed where unknown."""
    before = state.attempts[: attempt.number]
    return next((a for a in reversed(before) if a.blob == attempt.incumbent), state.attempts[0])


def _name(attempt: Attempt) -> str:
    return tr("{item}'s kernel", item=attempt.item) if attempt.number else tr("the seed")


def _chain(state: RunState, attempt: Attempt) -> dict[int, Interval]:
    """Return the ratio of a kernel over each kernel that it builds on, by attempt, itself first."""
    over = {attempt.number: Interval(1.0, 1.0, 1.0, 1.0)}
    while attempt.number and attempt.measurement.ratio:
        base = _owner(state, attempt)
        over[base.number] = attempt.measurement.ratio.chained(over[attempt.number])
        attempt = base
    return over


def between(state: RunState, left: Attempt, right: Attempt) -> Line:
    """Return the ratio of `right` over `left`, and what it rests on; () where it is not known.

    The ratio of a round is over the best kernel of its time. The ratios of two rounds are
    multiplied down to the newest kernel on which both build.
    """
    old, new = _chain(state, left), _chain(state, right)
    common = next((number for number in new if number in old), None)
    behind = None if common is None else old[common].inverse
    if common is None or behind is None or left.number == right.number:
        return ()
    over = new[common].chained(behind)
    direct = [*new].index(common) + [*old].index(common) == 1
    bounds = f"[{digits(over.low)}, {digits(over.high)}]"
    sure = tr("{percent} % sure", percent=f"{over.confidence * 100:.3g}")
    why = tr("measured against each other")
    if not direct:
        why = tr("by their ratios over {kernel}", kernel=_name(state.attempts[common]))
    return line(
        (f"{tr('{kernel} over {other}', kernel=name_of(right), other=name_of(left))}: ", "strong"),
        (f"{'' if direct else '~'}{formatting.times(over.ratio)} {bounds}", "figure"),
        (f", {sure}, {why}", "muted"),
    )

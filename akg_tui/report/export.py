"""When a report is the result and when it is a draft: the export guard, on a run.

A loop that a person watches on a screen never declares its own work final
(`akg_tui.core.export_guard`); a command that a person typed is taken at its word.
"""

from __future__ import annotations

from collections.abc import Iterable

from akg_tui.core import export_guard
from akg_tui.core.export_guard import Channel
from akg_tui.report.document import About, Figures, Result, Source


def is_asked_for(channel: Channel, hints: Iterable[str], *, by_command: bool) -> bool:
    """Whether the result may be written.

    By a person's command to report, by where the run is followed, or by what a person
    wrote to the agent, wherever that was.
    """
    return any(
        export_guard.may_export(words, channel=channel, allow_result_write=by_command)
        for words in ("", *hints)
    )


def exported(
    about: About, figures: Figures, best: Source, *, may_export: bool, earlier: Result | None
) -> tuple[str, Result | None, tuple[str, ...]]:
    """The report's status, its result, and what the guard has to say.

    A run that is not over is in progress, whoever asks.
    """
    claimed = "completed" if about.ended and about.ended_ok else "in_progress"
    guarded = export_guard.guard(
        before=_plain(earlier),
        after=_plain(_result(figures, best)),
        status=claimed,
        pending=about.open_items > 0 or not about.ended,
        may_write=may_export,
    )
    result = guarded.result
    return guarded.status, Result(**result) if result else None, guarded.notes


def _plain(result: Result | None) -> dict[str, str] | None:
    if result is None:
        return None
    return {name: getattr(result, name) for name in result.__struct_fields__}


def _result(figures: Figures, best: Source) -> Result | None:
    """The kernel that was kept; None when the seed still stands."""
    if not best.attempt:
        return None
    gained = figures.speedup_over_seed
    summary = f"{gained} x the seed, measured afresh" if gained else "kept, not measured afresh"
    return Result("kernel", "history.git: best", best.commit, summary)

"""The pane of the evaluation while a person looks at the past of the run."""

from __future__ import annotations

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.measurement import Interval, Progress
from akg_tui.core.phases import Phase
from akg_tui.view.spans import plain

from .script import FakeHandle, faster
from .stage import Stage, on_stage


def seq_of(handle: FakeHandle, kind: type, attempt: int) -> int:
    """The event of this kind that is about an attempt."""
    return next(
        r.seq
        for r in handle.records
        if isinstance(r.event, kind) and getattr(r.event, "attempt", None) == attempt
    )


async def evaluated(stage: Stage) -> None:
    """Attempt 4 is being timed, and three estimates of it were seen."""
    handle = stage.handle
    blob = handle.state.work_blob
    assert handle.send(cmd.StartEval(ev.Purpose.CANDIDATE, 4, blob)) is None
    for n in range(3):
        interval = Interval(1.0, 0.8 + n / 20, 1.2 - n / 20, 0.95)
        handle.live.report(Progress("time", n, 8, ratio=interval))
        await stage.pull()


def pane(stage: Stage) -> list[str]:
    return [plain(row) for row in stage.deck.evaluation.lines()]


def funnel(rows: list[str]) -> list[str]:
    return [row for row in rows if "├" in row]


async def test_the_estimates_of_now_survive_a_journey_and_are_shown_with_no_other_attempt() -> None:
    handle = FakeHandle()
    handle.to_phase(Phase.EVAL, settled=3)
    async with on_stage(handle) as stage:
        await stage.press("8", "z")
        await evaluated(stage)
        live = pane(stage)
        assert len(funnel(live)) == 3
        await stage.press("T")
        for kind, attempt in ((ev.EvalStarted, 2), (ev.EvalFinished, 2), (ev.EvalStarted, 4)):
            stage.app.travel_to(seq_of(handle, kind, attempt))
            await stage.pull()
            shown = pane(stage)
            assert f"attempt {attempt}" in shown[0]
            assert funnel(shown) == [], "no estimate of attempt 4 was known then"
            assert not any("5/8" in row or "2/8" in row for row in shown)
        await stage.press("L")
        assert funnel(pane(stage)) == funnel(live)


async def test_a_measurement_of_the_past_has_its_own_estimates_where_they_are_known() -> None:
    handle = FakeHandle()
    handle.to_phase(Phase.EVAL, settled=3)
    async with on_stage(handle) as stage:
        await stage.press("8", "z")
        await evaluated(stage)
        assert handle.send(cmd.FinishEval(faster(0.91, ms=3.5))) is None
        handle.work(lambda state: state.settled == 4)
        await stage.pull()
        assert "attempt 4 was measured" in pane(stage)[0]
        assert len(funnel(pane(stage))) >= 3
        await stage.press("T", "shift+left")
        assert "attempt 3 was measured" in pane(stage)[0]
        assert funnel(pane(stage)) == []
        await stage.press("shift+right")
        assert len(funnel(pane(stage))) >= 3

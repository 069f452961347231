"""A whole run on a busy machine: what is not proved is measured again, without the agent."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from akg_tui.agent.models.sweep import Sweep
from akg_tui.cli import main
from akg_tui.core import events as ev
from akg_tui.core.kernel.kernel_files import Kernel
from akg_tui.core.measurement import Measurement, Progress
from akg_tui.core.phases import Verdict
from akg_tui.engine.engine import Engine
from akg_tui.report.gather import gather
from akg_tui.report.html import render_page
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import create
from tests.engine.test_engine import check_whole

AGAIN = Verdict.INCONCLUSIVE


class BusyFakeJudge(FakeJudge):
    """Needs `needed` log ratios to decide a gain, and measures one an evaluation."""

    needed = 2

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        super().__init__(on_progress)
        self.priors: list[tuple[float, ...]] = []

    async def evaluate(
        self,
        kernel: Kernel,
        incumbent: Kernel | None,
        *,
        precise: float | None = None,
        within_s: float | None = None,
        whole: bool = False,
        prior: tuple[float, ...] = (),
    ) -> Measurement:
        found = await super().evaluate(
            kernel, incumbent, precise=precise, within_s=within_s, prior=prior
        )
        if incumbent is None or found.ratio is None or precise is not None:
            return found
        self.priors.append(prior)
        ratios = (*prior, math.log(found.ratio.ratio))
        undecided = found.ratio.ratio > 1 and len(ratios) < self.needed
        wide = replace(found.ratio, low=0.9) if undecided else found.ratio
        return replace(found, ratio=wide, log_ratios=ratios, undecided=undecided)


class NeverSureFakeJudge(BusyFakeJudge):
    needed = 100


def busy(run: RunFolder, kind: type[BusyFakeJudge] = BusyFakeJudge) -> Engine:
    return Engine(run, Sweep(0), kind, clock=run._clock)


def judge_of(engine: Engine) -> BusyFakeJudge:
    judge = engine._judge
    assert isinstance(judge, BusyFakeJudge)
    return judge


def verdicts(run: RunFolder) -> list[tuple[str, Verdict]]:
    return [(a.item, a.verdict) for a in run.state.attempts if a.number]


async def test_an_undecided_gain_is_measured_again_and_kept_without_a_visit_of_the_agent(
    tmp_path: Path,
) -> None:
    run = create(tmp_path / "task", rounds=8)
    engine = busy(run)
    await engine.run()
    first = next(a for a in run.state.attempts if a.verdict is AGAIN)
    again = next(a for a in run.state.attempts if a.again_of == first.number)
    assert (again.verdict, again.blob, again.item) == (Verdict.KEEP, first.blob, first.item)
    assert again.round > first.round
    assert again.measurement.log_ratios[:1] == first.measurement.log_ratios
    assert first.measurement.log_ratios in judge_of(engine).priors
    began = next(
        r.seq
        for r in run.records
        if isinstance(r.event, ev.ItemActivated) and r.event.round == again.round
    )
    ended = next(
        r.seq
        for r in run.records
        if isinstance(r.event, ev.Decided) and r.event.attempt == again.number
    )
    between = [type(r.event) for r in run.records[began : ended - 1]]
    assert not {ev.ModelReplied, ev.KernelEdited, ev.ToolCalled} & {*between}
    check_whole(run)
    await engine.close()
    report = gather(RunAtRest(run.path), may_export=True)
    counted = report.about.verdicts["INCONCLUSIVE"]
    assert counted == sum(d.inconclusive for d in report.directions) > 0
    (told,) = [r for r in report.rounds if r.again_of == first.number]
    assert report.rounds[told.again_of - 1].verdict == "INCONCLUSIVE"
    page = render_page(report)
    assert f"{counted} inconclusive" in page
    assert 'class="verdict inconclusive"' in page
    assert "var(--chart-inconclusive)" in page


async def test_more_rounds_of_a_run_that_is_over_count_from_those_that_the_limit_counts(
    tmp_path: Path,
) -> None:
    engine = busy(create(tmp_path / "task", rounds=2), NeverSureFakeJudge)
    await engine.run()
    await engine.close()
    assert (engine.state.rounds, engine.state.settled) == (2, 6)
    assert main(["ctl", "limit", engine.path, "rounds=+1"]) == 0
    assert read_state(Path(engine.path)).task.policy.max_rounds == 3

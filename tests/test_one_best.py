"""One best everywhere: every surface of a run tells the same figures of its best kernel."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from akg_tui.cli import main
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core.events import Purpose
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import Interval, Measurement, Outcome
from akg_tui.core.phases import Verdict
from akg_tui.core.plan.plan_document import render_plan
from akg_tui.core.state import RunState
from akg_tui.core.summary import best_of
from akg_tui.core.verdict import is_proved
from akg_tui.engine.live import Live
from akg_tui.engine.run_scanner import ListedRun
from akg_tui.headless.watched_run import closing_lines
from akg_tui.report.gather import gather
from akg_tui.report.html import render_page
from akg_tui.report.markdown import render_markdown
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import summarize_run, summary_of
from akg_tui.store.task_folder import load_task
from akg_tui.view.attempt_rows import AttemptRows
from akg_tui.view.comparison import side_of
from akg_tui.view.plan_rows import plan_view
from akg_tui.view.run_chart import AttemptSeries
from akg_tui.view.run_rows import row_of, run_details
from akg_tui.view.spans import plain
from akg_tui.view.status import header, sparkline, status
from tests.in_memory import tmp_path  # noqa: F401
from tests.store.scripted import create_run, make_task, measurement, perform, recover, send

SEED_OVER_EAGER = 0.1
COMPILE_OVER_EAGER = 1.25
AUTOTUNED_OVER_EAGER = 1.4  # the faster mode of the two counts
FINAL = 2.94
FINAL_OVER_EAGER = 0.31


def chosen(ratio: float) -> Measurement:
    interval = Interval(ratio, ratio * 0.98, ratio * 1.02, 0.99)
    return Measurement(outcome=Outcome.CORRECT, ratio=interval, candidate_ms=1.0, baseline_ms=ratio)


@dataclass
class Told:
    """A run at one moment, as something that the closing lines can be made of."""

    state: RunState
    path: str
    live: Live = field(default_factory=Live)


def step(run: RunFolder, effect: fx.Effect) -> None:
    """Do one step of a run whose final figure is far from the product of its kept ratios."""
    chosen_for = {
        Purpose.BASELINE: chosen(SEED_OVER_EAGER),
        Purpose.COMPILE: chosen(COMPILE_OVER_EAGER),
        Purpose.MAX_AUTOTUNE: chosen(AUTOTUNED_OVER_EAGER),
        Purpose.FINAL: chosen(FINAL),
        Purpose.EAGER: chosen(FINAL_OVER_EAGER),
    }
    if not isinstance(effect, fx.Measure):
        return perform(run, effect)
    send(run, cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
    found = chosen_for.get(effect.purpose) or measurement(effect.attempt)
    send(run, cmd.FinishEval(found))
    return None


def expected(state: RunState) -> tuple[list[float], str] | None:
    """The ratios over seed, eager and compile that are known, and what they are called."""
    if state.best is None:
        return None
    kept = [a for a in state.attempts if a.number and a.verdict is Verdict.KEEP]
    over_seed = 1.0
    for attempt in kept:
        assert attempt.measurement.ratio is not None
        over_seed *= attempt.measurement.ratio.ratio
    over_seed = FINAL if state.final else over_seed
    over = [over_seed, FINAL_OVER_EAGER if state.final_eager else over_seed * SEED_OVER_EAGER]
    if state.compiled:
        over.append(over[1] / compiled_over_eager(state))
    return over, "measured afresh" if state.final else "so far" if kept else ""


def compiled_over_eager(state: RunState) -> float:
    return AUTOTUNED_OVER_EAGER if state.autotuned else COMPILE_OVER_EAGER


def texts(state: RunState, kernel: str) -> dict[str, str]:
    """Every surface that tells all ratios of the best, from the state alone."""
    best = state.best
    told = expected(state)
    assert best is not None
    assert told is not None
    attempt = state.attempts[best.attempt]
    rows = {
        "header": plain(header(state, state.last_at, 200)),
        "side of a comparison": "\n".join(
            plain(row)
            for row in side_of(state, attempt, lambda _: KernelFiles({"kernel.py": kernel})).about
        ),
    }
    table = AttemptRows(state, 160)
    row = next(n for n in range(1, len(table)) if table.attempt(n) == attempt)
    over_eager = told[0][1]
    sign = "~" if told[1] == "so far" else ""
    assert f" {sign}{over_eager:.2f}× " in plain(table[row])
    if attempt.item:
        view = plan_view(state, 120, 60, {attempt.item})
        rows["plan"] = "\n".join(plain(row) for row in view.rows)
    if state.finished:
        rows["status"] = plain(status(state, "", None, state.last_at, 200))
    return rows


def of_the_folder(run: RunFolder) -> dict[str, str]:
    """Every surface that tells all ratios of the best, read from the run's folder."""
    summary = summarize_run(run.path)
    listed = ListedRun(run.path, run.path.name, 0, run.state.last_at, summary)
    report = gather(RunAtRest(run.path), may_export=True)
    return {
        "run list": summary.line().replace("x ", "× "),
        "run details": "\n".join(plain(r) for r in run_details(listed, run.state.last_at, 200)),
        "closing lines": "\n".join(
            closing_lines(Told(run.state, str(run.path)))  # type: ignore[arg-type]
        ).replace("x ", "× "),
        "report.md": render_markdown(report),
    }


def test_all_surfaces_tell_the_same_best_at_every_moment_of_a_run(
    tmp_path: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = load_task(make_task_with_baselines(tmp_path / "task"))
    run = create_run(folder, rounds=5)
    recover(run)
    moments: set[str] = set()
    while (effect := fx.next_effect(run.state, run.state.last_at)) is not None:
        step(run, effect)
        state = run.state
        told = expected(state)
        if told is None:
            continue
        over, called = told
        moments.add(called)
        names = ("seed", "eager", "compile")
        named = [f"{r:.2f}× {name}" for r, name in zip(over, names, strict=False)]
        ratios = " · ".join(named if called else named[1:])
        shown = texts(state, "")
        if isinstance(effect, fx.Commit | fx.CommitSeed | fx.Measure) or state.finished:
            shown |= of_the_folder(run)
        assert {name: text for name, text in shown.items() if ratios not in text} == {}
        if called == "measured afresh":
            stale = f"{1.5**2:.2f}"
            assert {name: text for name, text in shown.items() if f"{stale}×" in text} == {}
        for name in ("header", "run list", "run details"):
            assert ("so far" in shown.get(name, called)) == (called == "so far"), name
        told = re.escape(f"{over[0]:.3f}")
        assert re.search(
            rf"^best_over_seed: {told}( \(provisional: .*\))?$", render_plan(state), re.M
        )
        line = plain(sparkline(state, 100))
        assert f"→ {over[0]:.2f}×" in line or state.next_attempt == 1
        series = AttemptSeries()
        series.read(state)
        plot = series.plot(state, None)
        assert plot.steps[-1][1] == pytest.approx(over[0])
        assert [each.value for each in plot.references] == pytest.approx(
            [1 / SEED_OVER_EAGER, compiled_over_eager(state) / SEED_OVER_EAGER][: len(over) - 1]
        )
    assert moments == {"", "so far", "measured afresh"}
    run.close()
    check_outputs(run.path, capsys)


def make_task_with_baselines(folder: Path) -> Path:
    made = make_task(folder)
    toml = made.path / "task.toml"
    toml.write_text(
        toml.read_text().replace(
            "\n\n", '\nbaselines = ["eager", "compile", "max-autotune"]\n\n', 1
        )
    )
    return made.path


def check_outputs(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands tell it too, as JSON and as a report."""
    over = [FINAL, FINAL_OVER_EAGER, FINAL_OVER_EAGER / AUTOTUNED_OVER_EAGER]
    assert main(["show", str(run), "--json"]) == 0
    assert main(["runs", str(run), "--json"]) == 0
    show, runs = map(json.loads, capsys.readouterr().out.splitlines())
    report = gather(RunAtRest(run), may_export=True)
    assert show["best"] == runs["best"]
    assert show["best"]["fresh"]
    assert report.figures.best is not None
    for found in (
        [show["best"][name]["ratio"] for name in ("over_seed", "over_eager", "over_compile")],
        [over.ratio for _, over in report.figures.best.named],
    ):
        assert found == pytest.approx(over)
    assert runs["over_seed"] == runs["climb"][-1] == pytest.approx(FINAL)
    page = render_page(report)
    for ratio in over:
        assert f"<b>{ratio:.2f}×</b>" in page
    listed = ListedRun(run, run.name, 0, 0.0, summarize_run(run))
    row = plain(row_of(listed, 0.0, 120))
    assert f"{over[0]:.2f}×" in row
    assert f"{over[1]:.2f}×" in row
    best = summarize_run(run).best
    assert best is not None
    assert replace(best, fresh=False).provisional


def test_a_ratio_that_is_not_proved_is_marked_on_every_surface_and_the_proved_one_leads(
    tmp_path: Path,  # noqa: F811
) -> None:
    run = create_run(load_task(make_task_with_baselines(tmp_path / "task")), rounds=1)
    recover(run)
    doubted = Interval(1.7, 0.82, 3.54, 0.97)
    while (effect := fx.next_effect(run.state, run.state.last_at)) is not None:
        step(run, effect)
    state = run.state
    assert state.best is not None
    assert state.final_eager is not None
    state = replace(state, final_eager=replace(state.final_eager, ratio=doubted))
    summary = summary_of(str(run.path), state, None)
    listed = ListedRun(run.path, run.path.name, 0, state.last_at, summary)
    at_rest = RunAtRest(run.path)
    at_rest.state = state
    report = gather(at_rest, may_export=True)
    page = render_page(report)
    attempt = state.attempts[state.best.attempt]
    table = AttemptRows(state, 160)
    side = side_of(state, attempt, lambda _: KernelFiles({"kernel.py": ""}))
    shown = {
        "header": plain(header(state, state.last_at, 200)),
        "status": plain(status(state, "", None, state.last_at, 200)),
        "attempt": plain(table[len(table) - 1]),
        "side of a comparison": "\n".join(plain(row) for row in side.about),
        "narrow header": plain(header(state, state.last_at, 80)),
        "run row": plain(row_of(listed, 0.0, 120)),
        "run list": summary.line(),
        "run details": "\n".join(plain(r) for r in run_details(listed, state.last_at, 200)),
        "closing lines": "\n".join(closing_lines(Told(state, str(run.path)))),  # type: ignore[arg-type]
        "report.md": render_markdown(report),
        "report.html": page,
    }
    unmarked = re.compile(r"1\.70[x×] ?(?!\?)")
    assert {name: text for name, text in shown.items() if unmarked.search(text)} == {}
    for name in ("run list", "closing lines", "report.md", "side of a comparison"):
        assert re.search(r"2\.94[x×] seed · 1\.70[x×]\? eager \(0\.82–3\.54\)", shown[name]), name
    assert "<h1>" in page
    assert ": 2.94× the seed</title>" in page  # the proved ratio, not that over eager
    best = best_of(replace(state, final_eager=replace(state.final_eager, ratio=chosen(1.7).ratio)))
    assert best is not None
    assert best.headline[0] == "eager"
    run.close()


def test_only_an_interval_on_one_side_of_one_proves_a_ratio() -> None:
    assert is_proved(Interval(1.7, 1.01, 3.54, 0.99))
    assert is_proved(Interval(0.5, 0.45, 0.55, 0.99))
    assert is_proved(Interval(1.0, 1.0, 1.0, 1.0))  # the seed over itself is exact
    assert not is_proved(Interval(1.7, 0.82, 3.54, 0.99))
    assert not is_proved(Interval(0.97, 0.93, 0.999, 0.99))  # only probably slower

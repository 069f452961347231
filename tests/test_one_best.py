"""One best everywhere: every surface of a run tells the same figures of its best kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core.events import Purpose
from akg_tui.core.measurement import Interval, Measurement, Outcome
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
from akg_tui.store.run_list import summary_of
from akg_tui.store.task_folder import load_task
from akg_tui.view.attempt_rows import AttemptRows, side_of
from akg_tui.view.run_rows import row_of, run_details
from akg_tui.view.spans import plain
from akg_tui.view.status import header, status
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


def make_task_with_baselines(folder: Path) -> Path:
    made = make_task(folder)
    toml = made.path / "task.toml"
    toml.write_text(
        toml.read_text().replace(
            "\n\n", '\nbaselines = ["eager", "compile", "max-autotune"]\n\n', 1
        )
    )
    return made.path


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
    side = side_of(state, attempt)[1:]
    shown = {
        "header": plain(header(state, state.last_at, 200)),
        "status": plain(status(state, "", None, state.last_at, 200)),
        "attempt": plain(table[len(table) - 1]),
        "side of a comparison": "\n".join(map(plain, side)),
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

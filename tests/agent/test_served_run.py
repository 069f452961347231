"""Whole runs with a served model: the real SDK over a real socket, the lab at the other end."""

from __future__ import annotations

from pathlib import Path

from akg_tui.core import events as ev
from akg_tui.core.phases import Verdict
from benchmarks.lab.player import Player
from benchmarks.lab.runs import check_sound, create, directions, engine, of, play, wrong
from benchmarks.lab.server import Lab


async def test_a_competent_model_plans_edits_and_keeps(tmp_path: Path) -> None:
    async with Lab(Player(directions())) as lab:
        run = create(tmp_path / "task", lab.url, rounds=5, probes=True)
        work = engine(run, lab.url)
        await play(work)
    assert run.state.ok
    assert run.state.finished == "max rounds reached (5)"
    assert run.state.count(Verdict.KEEP) == 2
    best = run.state.best
    assert best is not None
    assert 'SPEED = "C"' in work.kernel(best.blob).text
    assert lab.refused == lab.memory.faults == []
    (probed,) = of(run, ev.EndpointProbed)
    assert probed.capabilities.usage
    check_sound(run)


async def test_failures_are_diagnosed_in_a_conversation_of_their_own(tmp_path: Path) -> None:
    async with Lab(Player(wrong())) as lab:
        run = create(tmp_path / "task", lab.url, rounds=5)
        work = engine(run, lab.url)
        await play(work)
    (report,) = of(run, ev.DiagnosisReported)
    assert report.source == "subagent"
    assert lab.refused == lab.memory.faults == []
    check_sound(run)

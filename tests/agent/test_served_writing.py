"""Whole runs in which a served model writes the kernel; only the judge is a fake."""

from __future__ import annotations

from pathlib import Path

from akg_tui.core import events as ev
from akg_tui.core.phases import Verdict
from akg_tui.problems.seeds import UNWRITTEN
from akg_tui.report.markdown import render_markdown
from akg_tui.report.write import read_report
from akg_tui.store.run_folder import RunFolder
from benchmarks.lab.player import Player
from benchmarks.lab.runs import check_sound, create, directions, engine, of, play
from benchmarks.lab.server import Lab
from tests.engine.runs import KERNEL

WRONG = KERNEL.replace('"A"', '"WRONG"', 1)


def entered(run: RunFolder) -> list[str]:
    return [event.phase.value for event in of(run, ev.PhaseEntered)]


async def test_a_model_that_needs_four_tries_from_nothing_gets_there(tmp_path: Path) -> None:
    tries = (WRONG + f"# {number}\n" for number in range(3))
    async with Lab(Player(iter(()), iter([*tries, KERNEL]))) as lab:
        run = create(tmp_path / "task", lab.url, kernel=UNWRITTEN, workflow="write")
        work = engine(run, lab.url)
        await play(work)
    assert (run.state.finished, run.state.ok) == ("the kernel is correct", True)
    assert run.state.tries == 4
    assert work.kernel(run.state.seed_blob).text == KERNEL
    assert entered(run) == ["BASELINE", *["WRITE", "BASELINE"] * 4, "DONE"]
    assert lab.refused == lab.memory.faults == []
    check_sound(run)
    report = render_markdown(read_report(run.path, channel="cli"))
    assert report.startswith("# speed: correct\n")
    assert "- 4 rounds: 4 WRITE, 0 KEEP" in report


async def test_a_model_that_never_gets_there_stops_with_the_reason(tmp_path: Path) -> None:
    tries = (WRONG + f"# {number}\n" for number in range(99))
    async with Lab(Player(iter(()), tries)) as lab:
        run = create(tmp_path / "task", lab.url, rounds=6, kernel=UNWRITTEN, workflow="write")
        await play(engine(run, lab.url))
    assert not run.state.ok
    assert run.state.finished == "max rounds reached (6); the kernel is not correct: wrong values"
    assert len(lab.requests) == 6
    check_sound(run)


async def test_a_model_that_gives_up_stops_with_its_words(tmp_path: Path) -> None:
    async with Lab(Player(iter(()))) as lab:
        run = create(tmp_path / "task", lab.url, kernel=UNWRITTEN, workflow="write_then_tune")
        await play(engine(run, lab.url))
    assert not run.state.ok
    assert run.state.finished.startswith("the agent made no progress in 3 visits")
    assert run.state.finished.endswith("; the kernel is not correct: wrong values")
    blocked = of(run, ev.BlockedReported)
    assert {event.text for event in blocked} == {"I know no further way to write this kernel"}


async def test_a_wrong_kernel_is_mended_and_then_tuned(tmp_path: Path) -> None:
    async with Lab(Player(directions(), iter([WRONG + "# again\n", KERNEL]))) as lab:
        run = create(tmp_path / "task", lab.url, rounds=5, kernel=WRONG, workflow="write_then_tune")
        work = engine(run, lab.url)
        await play(work)
    state = run.state
    assert (state.ok, state.finished) == (True, "max rounds reached (5)")
    assert (state.tries, state.count(Verdict.KEEP)) == (2, 2)
    assert [attempt.round for attempt in state.attempts] == [2, 3, 4, 5]
    assert state.final is not None
    assert state.final.ratio is not None
    assert state.final.ratio.ratio == 4.0  # over the kernel that was written, not the wrong one
    rules = lab.requests[0].body["system"][0]["text"]
    assert "- WRITE, while no kernel is correct" in rules
    assert "- PLAN: submit_plan" in rules
    assert lab.refused == lab.memory.faults == []
    check_sound(run)

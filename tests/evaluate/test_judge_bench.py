"""Benchmarks of the judge: trials that survive a stop, rates that are proved, planted gains."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from akg_tui.cli import main
from akg_tui.core.measurement import Interval, Measurement, Outcome
from benchmarks.judge import records
from benchmarks.judge.kernels import KERNELS
from benchmarks.judge.records import Trial, clopper_pearson
from benchmarks.judge.trials import (
    task_of,
)
from tests.judging import Evaluated


def trial(kept: bool, kernel: str = "mixed", *, correct: bool = True, judge: str = "") -> Trial:
    measured = Measurement(
        outcome=Outcome.CORRECT if correct else Outcome.ERROR,
        ratio=Interval(1.02, 1.0, 1.04, 0.99) if correct else None,
        deviation=0.05,
        elapsed_s=1.5,
        clusters=8,
    )
    return Trial(
        bench="aa",
        kernel=kernel,
        load=False,
        gain=0.0,
        kept=kept,
        reason="",
        measurement=measured,
        judge=judge or records.judge_digest(),
    )


def test_trials_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "aa.jsonl"
    assert records.read(path) == []
    written = [trial(True), trial(False, "memory")]
    for one in written:
        records.append(path, one)
    assert records.read(path) == written


def test_a_line_torn_by_a_stop_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / "aa.jsonl"
    records.append(path, trial(True))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    assert records.read(path) == [trial(True)]
    records.append(path, trial(False))
    assert records.read(path) == [trial(True), trial(False)]


def test_trials_of_another_judge_are_refused_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "aa.jsonl"
    records.append(path, trial(False))
    records.append(path, trial(False, judge="0123456789ab"))
    assert main(["bench", "aa", "--kernel", "mixed", "--resume", str(path)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"akg-tui: {path}:2: judge: a trial of judge 0123456789ab")
    assert len(records.read(path)) == 2


def test_trials_of_a_file_are_not_done_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "aa.jsonl"
    for _ in range(3):
        records.append(path, trial(False))
    command = ["bench", "aa", "--trials", "3", "--kernel", "mixed", "--resume", str(path)]
    assert main(command) == 0
    assert "0 of 3 kept" in capsys.readouterr().out
    records.append(path, trial(True))
    assert main([*command[:3], "4", *command[4:], "--json"]) == 1
    assert '"kept":1' in capsys.readouterr().out


def test_an_evaluation_with_an_error_counts_as_failed_and_not_as_no_keep() -> None:
    (cell,) = records.summarize([trial(False), trial(False, correct=False)])
    assert (cell.trials, cell.failed, cell.kept) == (1, 1, 0)


def found(*, kept: bool, deviation: float, elapsed_s: float, gain: float = 0.03) -> Trial:
    one = trial(kept)
    measured = msgspec.structs.replace(one.measurement, deviation=deviation, elapsed_s=elapsed_s)
    return msgspec.structs.replace(one, bench="power", gain=gain, measurement=measured)


def test_a_gain_is_promised_in_time_where_processes_are_alike() -> None:
    (cell,) = records.summarize(
        [
            found(kept=True, deviation=0.035, elapsed_s=30.0),
            found(kept=True, deviation=0.02, elapsed_s=30.1),
            found(kept=False, deviation=0.02, elapsed_s=3.0),
            found(kept=True, deviation=0.036, elapsed_s=3.0),
            found(kept=False, deviation=0.2, elapsed_s=40.0),
        ]
    )
    assert (cell.alike, cell.alike_kept, cell.alike_in_time) == (3, 2, 1)
    assert (cell.promised_s, cell.seconds_worst) == (30.0, 40.0)


@pytest.mark.parametrize(
    ("one", "alike", "code"),
    [
        (found(kept=True, deviation=0.02, elapsed_s=4.0, gain=0.1), 1, 0),
        (found(kept=True, deviation=0.02, elapsed_s=6.0, gain=0.1), 1, 1),
        (found(kept=False, deviation=0.02, elapsed_s=4.0), 1, 1),
        (found(kept=False, deviation=0.04, elapsed_s=4.0), 0, 0),
        (found(kept=True, deviation=0.02, elapsed_s=60.0, gain=0.02), 1, 0),
    ],
)
def test_the_exit_code_tells_whether_a_promise_was_kept(
    one: Trial, alike: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "power.jsonl"
    records.append(path, one)
    command = ["bench", "power", "--trials", "1", "--kernel", "mixed", "--gain", str(one.gain)]
    assert main([*command, "--resume", str(path)]) == code
    kept = int(one.kept and alike)
    assert f"at most 3.5%: {kept} of {alike} kept" in capsys.readouterr().out


def repeated(low: float, high: float) -> Trial:
    again = Interval((low + high) / 2, low, high, 0.99)
    return msgspec.structs.replace(trial(True), bench="repeat", again=again)


@pytest.mark.parametrize(("disagreeing", "code"), [(0, 0), (1, 0), (2, 1)])
def test_figures_of_one_kernel_may_exclude_each_other_once_in_twenty(
    disagreeing: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "repeat.jsonl"
    for number in range(20):
        # The first figure is [1.0, 1.04].
        records.append(path, repeated(*((1.05, 1.2) if number < disagreeing else (0.9, 1.0))))
    records.append(path, msgspec.structs.replace(trial(False), bench="repeat"))
    command = ["bench", "repeat", "--trials", "21", "--kernel", "mixed", "--resume", str(path)]
    assert main(command) == code
    told = capsys.readouterr().out
    assert "20 of 21 kept, 0 inconclusive" in told
    assert f"measured twice: 20, disagree: {disagreeing}" in told


def tail(least: int, trials: int, rate: float) -> float:
    """Return the chance of `least` hits or more, by the binomial's own sum."""
    return math.fsum(
        math.comb(trials, hits) * rate**hits * (1 - rate) ** (trials - hits)
        for hits in range(least, trials + 1)
    )


@pytest.mark.parametrize(("hits", "trials"), [(0, 500), (1, 500), (5, 60), (95, 100), (60, 60)])
def test_the_bounds_are_the_rates_that_make_such_a_result_one_in_twenty(
    hits: int, trials: int
) -> None:
    low, high = clopper_pearson(hits, trials)
    assert low <= hits / trials <= high
    assert low == 0 if hits == 0 else tail(hits, trials, low) == pytest.approx(0.05)
    fewer = 1 - tail(hits + 1, trials, high)
    assert high == 1 if hits == trials else fewer == pytest.approx(0.05)


def test_the_judge_finds_a_planted_kernel_correct(evaluated: Evaluated) -> None:
    planted = KERNELS["compute"]
    found = evaluated(task_of(planted), planted.reference, planted.kernel(7), timed=False)
    assert found.outcome is Outcome.CORRECT, found

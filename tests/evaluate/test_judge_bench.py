"""Benchmarks of the judge: trials that survive a stop, rates that are proved, planted gains."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path

import msgspec
import pytest
import torch

from akg_tui.cli import main
from akg_tui.core.measurement import Interval, Measurement, Outcome
from akg_tui.evaluate import Judge, integrity
from benchmarks.judge import records
from benchmarks.judge.command import _keeps_promise
from benchmarks.judge.kernels import KERNELS
from benchmarks.judge.neighbour import neighbours
from benchmarks.judge.records import BadRecords, Trial, clopper_pearson
from benchmarks.judge.trials import (
    CALIBRATIONS,
    CALIBRATIONS_LEAST,
    cost_of_doubling,
    is_certain,
    task_of,
)


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
        judge=judge or integrity.judge_digest(),
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


def test_the_command_refuses_another_file_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "aa.jsonl"
    path.write_text("not a trial\n" * 3)
    with pytest.raises(BadRecords, match=r"aa\.jsonl:1: not a trial"):
        records.read(path)
    assert main(["bench", "aa", "--kernel", "mixed", "--resume", str(path)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"akg-tui: {path}:1: not a trial")
    assert told.err.count("\n") == 1


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


@pytest.mark.parametrize(("gain", "seconds"), [(0.029, None), (0.03, 30.0), (0.1, 5.0), (0.5, 5.0)])
def test_larger_gains_are_promised_sooner(gain: float, seconds: float | None) -> None:
    assert records.promised_s(gain) == seconds


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


@pytest.mark.parametrize("name", list(KERNELS))
def test_a_planted_kernel_is_correct_and_computes_its_extra_rows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AKG_CACHE_DIR", str(tmp_path))
    planted = KERNELS[name]
    reference: dict[str, object] = {}
    exec(compile(planted.reference, "reference.py", "exec"), reference)
    (x,) = reference["get_inputs"]()  # type: ignore[operator]
    expected = reference["Model"]()(x)  # type: ignore[operator]
    for extra in (0, 7, planted.rows):
        kernel: dict[str, object] = {}
        exec(compile(planted.kernel(extra), "kernel.py", "exec"), kernel)
        torch.testing.assert_close(kernel["ModelNew"]()(x), expected)  # type: ignore[operator]
    # The same with a row that counts its calls: the extra work is seen to be done.
    counting = planted.kernel(7).replace(
        "static void __attribute__((noinline)) one(const float* x, float* y) {",
        'extern "C" { long done = 0; }\n'
        "static void __attribute__((noinline)) one(const float* x, float* y) { ++done;",
    )
    counted: dict[str, object] = {}
    exec(compile(counting, "kernel.py", "exec"), counted)
    counted["ModelNew"]()(x)  # type: ignore[operator]
    done = ctypes.c_long.in_dll(counted["library"], "done")  # type: ignore[arg-type]
    assert done.value == planted.rows + 7


@pytest.mark.parametrize(("load", "count"), [(1, None), (2, 4)])
def test_neighbours_end_with_their_block(load: int, count: int | None) -> None:
    with neighbours(load) as made:
        assert count is None or len(made) == count
        assert all(process.poll() is None for process in made)
    assert all(process.returncode == 0 for process in made)


def loaded(gain: float, *, kept: int, undecided: int, missed: int) -> records.Summary:
    """Return the summary of trials beside neighbours that come and go."""
    one = msgspec.structs.replace(trial(True), bench="power", load=4, gain=gain)
    waits = msgspec.structs.replace(one.measurement, undecided=True)
    open_ = msgspec.structs.replace(one, kept=False, measurement=waits)
    lost = msgspec.structs.replace(one, kept=False)
    (cell,) = records.summarize([one] * kept + [open_] * undecided + [lost] * missed)
    return cell


def test_beside_irregular_neighbours_a_large_gain_must_be_kept_and_a_small_one_not_refused() -> (
    None
):
    assert _keeps_promise(loaded(0.2, kept=95, undecided=5, missed=0))
    assert not _keeps_promise(loaded(0.2, kept=94, undecided=6, missed=0))
    assert _keeps_promise(loaded(0.05, kept=10, undecided=88, missed=2))
    assert not _keeps_promise(loaded(0.05, kept=97, undecided=0, missed=3))


async def test_the_judge_finds_a_planted_kernel_correct(tmp_path: Path) -> None:
    planted = KERNELS["compute"]
    async with Judge(task_of(planted), planted.reference, tmp_path, prefetch=False) as judge:
        found = await judge.probe(planted.kernel(7), timed=False)
    assert found.outcome is Outcome.CORRECT, found


def around(ratio: float, half: float) -> Interval:
    return Interval(ratio, ratio - half, ratio + half, 0.99)


def test_one_outlier_does_not_change_the_cost_of_a_row() -> None:
    measured = [around(1.5, 0.05), around(1.01, 0.05), around(1.52, 0.05)]
    assert cost_of_doubling(measured) == pytest.approx(0.5)


def test_the_cost_of_a_row_is_measured_until_it_is_certain() -> None:
    sharp, wide = around(2.0, 0.02), around(1.3, 0.07)
    assert not is_certain([])
    assert not is_certain([sharp] * (CALIBRATIONS_LEAST - 1))
    assert is_certain([sharp] * CALIBRATIONS_LEAST)
    # 0.07 of 0.3 is 23 %; five together leave 10.4, six 9.5.
    assert not is_certain([wide] * 5)
    assert is_certain([wide] * 6)
    assert not is_certain([around(1.0, 0.01)] * CALIBRATIONS)

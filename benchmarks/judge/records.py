"""Trials on disk, one JSON object a line, and the bounds of rates that they prove.

A trial is written as soon as it ends, so a benchmark that was stopped goes on where it
stopped. A line that was torn by the stop is left out, and its trial done again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct
from scipy.special import betaincinv

import akg_tui
from akg_tui.core.measurement import Interval, Measurement

DECIDES = ("core/verdict.py", "dsl/**/*.py", "evaluate/**/*.py")
"""The files that time kernels and compare their results."""


def judge_digest() -> str:
    """Return a short digest of the files that time kernels and compare their results."""
    root = Path(akg_tui.__file__).parent
    paths = sorted(path for pattern in DECIDES for path in root.glob(pattern))
    files = [(str(path.relative_to(root)), path.read_bytes()) for path in paths]
    return hashlib.sha256(repr(files).encode()).hexdigest()[:12]


class Trial(Struct, frozen=True, kw_only=True):
    """One evaluation by the judge of a kernel whose true gain is known."""

    bench: str
    kernel: str
    load: int | bool
    """0: nothing was made to disturb; see `neighbour.neighbours`."""

    gain: float
    kept: bool
    reason: str
    measurement: Measurement
    judge: str = ""
    """Which judge it was (`judge_digest`): trials of two say nothing of either."""

    extra: int = 0
    """How many rows of the slower kernel were done twice."""

    again: Interval | None = None
    """The ratio that `bench repeat` measured again of a kept kernel, as at the end of a run."""

    @property
    def ratio(self) -> Interval | None:
        """What the judge measured."""
        return self.measurement.ratio

    @property
    def disagrees(self) -> bool:
        """Whether the two intervals of a kernel that was measured twice do not overlap."""
        one, other = self.ratio, self.again
        return bool(one and other and (one.low > other.high or other.low > one.high))


class BadRecords(Exception):
    """A file that was to be resumed holds something else."""


def read(path: Path) -> list[Trial]:
    """Return the trials in a file; none when it is not there.

    Raises
    ------
    BadRecords
        A line other than the last is not a trial.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    found: list[Trial] = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            found.append(msgspec.json.decode(line, type=Trial))
        except msgspec.MsgspecError as error:
            if number == len(lines):
                break
            raise BadRecords(f"{path}:{number}: not a trial: {error}") from error
    return found


def of_judge(path: Path, judge: str) -> list[Trial]:
    """Return the trials in a file, all of which must be by this judge.

    Raises
    ------
    BadRecords
        A line other than the last is not a trial, or is one of another judge.
    """
    found = read(path)
    for number, trial in enumerate(found, 1):
        if trial.judge != judge:
            raise BadRecords(
                f"{path}:{number}: judge: a trial of judge {trial.judge or 'unknown'}, and this is "
                f"{judge}; keep its trials in another file"
            )
    return found


def append(path: Path, trial: Trial) -> None:
    """Append a trial, after removing a line torn by a stop."""
    with path.open("a+b") as file:
        end = file.tell()
        if end:
            file.seek(0)
            data = file.read()
            whole = data.rfind(b"\n") + 1
            if whole != end:
                file.truncate(whole)
        file.write(msgspec.json.encode(trial) + b"\n")


def clopper_pearson(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return one-sided lower and upper bounds of a rate, each at `confidence`.

    Clopper and Pearson, Biometrika 26 (1934): quantiles of the beta distribution.
    """
    if not 0 <= hits <= trials or trials < 1:
        raise ValueError(f"{hits} of {trials} is no rate")
    alpha = 1 - confidence
    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, alpha))
    high = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1 - alpha))
    return low, high


ALIKE = 0.035
"""Up to this deviation between pairs of processes the judge promises to find a gain in time."""

PROMISES = ((0.1, 5.0), (0.03, 30.0))
LOADED_PROMISES = ((0.2, 30.0),)
"""A gain of at least so much, and the seconds within which it is found; beside neighbours that come
and go, a smaller one is found or not decided."""


def promised_s(gain: float, load: int = 0) -> float | None:
    """Return within how many seconds a true gain is to be found; None where nothing is promised."""
    promises = PROMISES if load < 2 else LOADED_PROMISES
    return next((seconds for least, seconds in promises if gain >= least), None)


class Summary(Struct, frozen=True, kw_only=True):
    """Figures of a cell of the benchmark: the trials of one kernel under one load.

    `kept_in_time` are those kept within `promised_s`, `undecided` the INCONCLUSIVE ones.
    `alike` are the trials whose processes differed by no more than `ALIKE`, `alike_in_time` those
    of them that were kept within `promised_s`, however the others ended. `again` are those that
    were measured twice, and `disagree` those of them whose intervals do not overlap.
    """

    bench: str
    kernel: str
    load: int
    gain: float
    trials: int
    kept: int
    kept_in_time: int
    undecided: int
    failed: int
    rate_low: float
    rate_high: float
    ratio_median: float
    ratio_lowest: float
    ratio_highest: float
    detectable_median: float
    alike: int
    alike_kept: int
    alike_in_time: int
    promised_s: float | None
    seconds_median: float
    seconds_p95: float
    seconds_worst: float
    clusters_median: float
    disturbed: int
    again: int = 0
    disagree: int = 0


def summarize(trials: Iterable[Trial]) -> list[Summary]:
    """Return one summary for each kernel, load and gain, in the order they first appear."""
    cells: dict[tuple[str, str, int, float], list[Trial]] = {}
    for trial in trials:
        cell = trial.bench, trial.kernel, int(trial.load), trial.gain
        cells.setdefault(cell, []).append(trial)
    return [_summary(cell) for cell in cells.values()]


def _summary(cell: list[Trial]) -> Summary:
    first = cell[0]
    judged = [trial for trial in cell if trial.ratio is not None]
    ratios = sorted(t.ratio.ratio for t in judged if t.ratio) or [float("nan")]
    seconds = sorted(t.measurement.elapsed_s for t in judged) or [float("nan")]
    clusters = sorted(t.measurement.clusters for t in judged) or [0]
    seen = sorted(t.measurement.detectable or 0.0 for t in judged) or [float("nan")]
    kept = sum(trial.kept for trial in judged)
    alike = [t for t in judged if (t.measurement.deviation or 0.0) <= ALIKE]
    within = promised_s(first.gain, first.load)

    def in_time(trial: Trial) -> bool:
        return trial.kept and (within is None or trial.measurement.elapsed_s <= within)

    low, high = clopper_pearson(kept, len(judged)) if judged else (0.0, 1.0)
    return Summary(
        bench=first.bench,
        kernel=first.kernel,
        load=int(first.load),
        gain=first.gain,
        trials=len(judged),
        kept=kept,
        kept_in_time=sum(map(in_time, judged)),
        undecided=sum(t.measurement.undecided and not t.kept for t in judged),
        failed=len(cell) - len(judged),
        rate_low=low,
        rate_high=high,
        ratio_median=ratios[len(ratios) // 2],
        ratio_lowest=ratios[0],
        ratio_highest=ratios[-1],
        detectable_median=seen[len(seen) // 2],
        alike=len(alike),
        alike_kept=sum(t.kept for t in alike),
        alike_in_time=sum(map(in_time, alike)),
        promised_s=within,
        seconds_median=seconds[len(seconds) // 2],
        seconds_p95=seconds[math.ceil(0.95 * len(seconds)) - 1],
        seconds_worst=seconds[-1],
        clusters_median=float(clusters[len(clusters) // 2]),
        disturbed=sum(bool(t.measurement.noise) for t in judged),
        again=sum(t.again is not None for t in judged),
        disagree=sum(t.disagrees for t in judged),
    )

"""Faults of detached engines at steps on the disk, and kills of engines and of their watchers.

`python -m benchmarks crashlab --points N --detached KILLS`. Each run is started, killed and resumed
as a user does it: the engines are processes of `akg-tui resume --detach`, the watchers `akg-tui ctl
events --follow`, each of which reads on where the one before was killed. A point is a fault at a
step of one engine, in the run or in the registry of detached runs; a kill, of the engine, of the
watcher or of both, comes at a random moment. A run must end as an undisturbed one, keep what was in
its journal, and the watchers together must have seen each event once. The judge measures nothing
and takes a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from akg_tui.cli import main as akg_tui
from akg_tui.core.kernel.kernel_files import Kernel
from akg_tui.core.measurement import Measurement
from akg_tui.engine import detached, run_report, run_service
from akg_tui.memory import memory_config
from akg_tui.store.errors import RunLocked, StoreError
from akg_tui.store.journal import read
from akg_tui.store.lock import RunLock, holder
from akg_tui.store.run_list import read_state
from benchmarks.crashlab import disk_faults
from benchmarks.crashlab.disk_faults import How
from benchmarks.crashlab.lab import Case, Progress, chosen
from benchmarks.crashlab.scenes import outcome
from benchmarks.crashlab.steps import faults_of, of_step
from benchmarks.crashlab.victims import Fault, counted, measured
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import create

COMMAND = (sys.executable, "-m", "benchmarks.crashlab.detached_kills")
FAULT = "AKG_CRASHLAB_FAULT"  # the arguments of `disk_faults.arm` for an engine
ROUNDS = 4
MEASURES_S = 0.1
WORKS_S = 2.5  # about what a whole run takes, of which the moment of a kill is drawn
KILLS = 3  # in one run, at most
PATIENCE_S = 60.0


class SlowFakeJudge(FakeJudge):
    async def evaluate(self, kernel: Kernel, incumbent: Kernel | None, **more: Any) -> Measurement:
        await asyncio.sleep(MEASURES_S)
        return await super().evaluate(kernel, incumbent, **more)


class Watching:
    """Watchers of a run, one after the other; `seen` are the numbers of the events they told."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._cursor = 0
        self.seen: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        words = ("ctl", "events", str(self._run), "--json", "--follow", "--cursor")
        self._process = subprocess.Popen(
            [*COMMAND, *words, str(self._cursor)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def end(self, *, killed: bool) -> None:
        """Take what the watcher told; a line that it was killed in does not count."""
        assert self._process is not None
        if killed:
            self._process.kill()
        out, _ = self._process.communicate(timeout=PATIENCE_S)
        whole = out.split(b"\n")[:-1]
        self.seen += [json.loads(line)["seq"] for line in whole]
        self._cursor = self.seen[-1] if self.seen else 0


def _until_at_rest(run: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(RunLocked):
            RunLock.acquire(run).release()
            return
        if time.monotonic() > end:
            raise TimeoutError(f"{run}: the engine never ended")
        time.sleep(0.01)


def _end(pid: int, how: signal.Signals) -> None:
    if not pid:  # the run was over, so its engine has ended
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, how)


class DetachedLab:
    """Runs of detached engines in `place`, the undisturbed one first."""

    def __init__(self, place: Path, dice: random.Random) -> None:
        self._place = place
        self._dice = dice
        self._watched = disk_faults.environment(place)["LD_PRELOAD"]
        self._made = 0
        self.told: Counter[str] = Counter()
        self.faults: list[str] = []
        run, trace = self._new_run(), place / "trace"
        self._engine(run, trace=str(trace))
        self.expected = outcome(run.parents[2])
        self._steps = disk_faults.read_trace(trace.read_bytes())

    def cases(self) -> list[Case]:
        """Return every point that there is."""
        return [
            Case("", how, index + 1, error, of_step(self._steps, index))
            for index, step in enumerate(self._steps)
            for how, error in faults_of(step)
        ]

    def _new_run(self) -> Path:
        self._made += 1
        folder = self._place / str(self._made)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        made = create(folder / "task", rounds=ROUNDS)
        made.close()
        return made.path

    def _engine(self, run: Path, **fault: object) -> str:
        """Let an engine work on a run until it ends; return its last words if it never began."""
        if fault:
            os.environ[FAULT] = json.dumps({"root": str(run.parents[2]), **fault})
            os.environ["LD_PRELOAD"] = self._watched
        try:
            detached.start(run)
        except detached.NotStarted as error:
            return str(error)
        finally:
            os.environ.pop(FAULT, None)
            os.environ.pop("LD_PRELOAD", None)
        _until_at_rest(run)
        return ""

    def point(self, case: Case) -> list[Fault]:
        """Let an engine work into a fault, and another one go on to the end."""
        run = self._new_run()
        why = self._engine(run, how=int(case.how), at=case.step, error=case.error)
        self.told["ended before they took commands"] += bool(why)
        self.told["ended by the fault"] += not read_state(run).finished
        kept = (run / "events.jsonl").read_bytes()
        kept = kept[: kept.rfind(b"\n") + 1]
        if "Traceback" in why or not why.isprintable():
            return [("other", why)]
        return self._finished(run, kept)

    def kills(self, count: int) -> tuple[list[tuple[str, float]], list[Fault]]:
        """Kill `count` times in one run; return which kills, and what was wrong."""
        kinds = [
            (self._dice.choice(("engine", "viewer", "both")), self._dice.uniform(0, WORKS_S))
            for _ in range(count)
        ]
        run = self._new_run()
        watching, kept = Watching(run), b""
        for what, delay in kinds:
            engine = detached.start(run)
            watching.begin()
            time.sleep(delay)
            self.told[f"kills: {what}"] += 1
            if what != "viewer":
                self.told["engines killed at work"] += holder(run) == engine.pid
                _end(engine.pid, signal.SIGKILL)
            watching.end(killed=what != "engine")
            if what == "viewer":
                _end(engine.pid, signal.SIGTERM)
            _until_at_rest(run)
            kept = (run / "events.jsonl").read_bytes()
            kept = kept[: kept.rfind(b"\n") + 1]
        found = self._finished(run, kept)
        watching.begin()
        watching.end(killed=False)
        if watching.seen != list(range(1, len(read(run / "events.jsonl")) + 1)):
            found.append(("lost or doubled by watchers", str(watching.seen)))
        return kinds, found

    def _finished(self, run: Path, kept: bytes) -> list[Fault]:
        """Resume a run to its end, undisturbed, and compare it with one that was never disturbed.

        `kept` are the lines that were in its journal.
        """
        if not read_state(run).finished and (why := self._engine(run)):
            return [("other", f"not resumed: {why}")]
        ended = outcome(run.parents[2])
        found = counted([attempt[1] for attempt in ended["attempts"]])
        if not (run / "events.jsonl").read_bytes().startswith(kept):
            found.append(("lost", "what was in the journal was changed"))
        if ended["best"] not in measured(run):
            found.append(("unevaluated_bests", ended["best"]))
        for name in ("attempts", "items", "best", "ended"):
            if ended[name] != self.expected[name]:
                found.append(("diverged", f"{name}: {ended[name]}"))
        return found

    def judge(self, what: object, found: list[Fault]) -> None:
        """Count what was wrong with one case."""
        for kind, why in found:
            self.told[kind] += 1
            self.faults.append(f"{what}: {kind}: {why}")


def detached_lab(points: int, kills: int, seed: int) -> bool:
    """Do so many points and kills; print the figures; whether every run ended well."""
    detached.COMMAND = COMMAND
    os.environ[memory_config.VARIABLE] = memory_config.OFF  # no run learns from the one before
    began, dice = time.monotonic(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="akg-crashlab-") as place:
        lab = DetachedLab(Path(place), dice)
        with contextlib.suppress(KeyboardInterrupt):  # then the figures are of what was done
            _work(lab, points, kills, dice)
    zero = dict.fromkeys(
        (
            "lost",
            "doubled",
            "unevaluated_bests",
            "diverged",
            "lost or doubled by watchers",
            "other",
        ),
        0,
    )
    figures = {
        "benchmark": "crashlab detached",
        "seed": seed,
        "points_there_are": len(lab.cases()),
        **zero,
        **lab.told,
        "took_s": round(time.monotonic() - began),
        "faults": lab.faults[:20],
    }
    print(json.dumps(figures), flush=True)
    return not lab.faults


async def _no_report(run: Path) -> str:
    """Make no report: that would take longer than the run."""
    return ""


def _work(lab: DetachedLab, points: int, kills: int, dice: random.Random) -> None:
    cases = chosen(lab.cases(), points, dice)
    progress = Progress(len(cases) + kills)
    for case in cases:
        progress.tell(1)
        try:
            lab.judge(case, lab.point(case))
        except (AssertionError, OSError, StoreError) as error:
            lab.judge(case, [("other", repr(error))])
        lab.told["points"] += 1
        lab.told[f"points: {How(case.how).name.lower()}"] += 1
    while kills:
        count = min(kills, dice.randint(1, KILLS))
        kills -= count
        progress.tell(count)
        try:
            lab.judge(*lab.kills(count))
        except (AssertionError, OSError, StoreError, detached.NotStarted) as error:
            lab.judge("kills", [("other", repr(error))])
        lab.told["kills"] += count


def _armed() -> None:
    """Have this engine fail as the lab asked; its children are not watched."""
    fault = json.loads(os.environ.pop(FAULT))
    os.environ.pop("LD_PRELOAD", None)
    trace = fault.get("trace")
    disk_faults.arm(
        Path(fault["root"]),
        How(fault.get("how", How.WATCH)),
        fault.get("at", 0),
        error=fault.get("error", 0),
        trace=-1 if trace is None else os.open(trace, os.O_WRONLY | os.O_CREAT, 0o600),
    )


if __name__ == "__main__":
    detached.COMMAND = COMMAND
    run_service._judge = lambda run, on_progress: SlowFakeJudge(on_progress)
    run_service.check_target = lambda task, path: None
    run_report.reporter = lambda channel: _no_report
    if FAULT in os.environ:
        _armed()
    sys.exit(akg_tui())

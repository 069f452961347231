"""Kills of detached engines, of processes that watch them, and of both, at random moments.

`python -m benchmarks crashlab --detached N`. Each run is started, killed and resumed as a user does
it: the engines are processes of `akg-tui resume --detach`, the watchers `akg-tui ctl events
--follow`, each of which reads on where the one before was killed. A run must end as an undisturbed
one, and the watchers together must have seen each event once. The judge measures nothing and takes
a while.
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
from akg_tui.engine import detached, run_service
from akg_tui.store.journal import read
from akg_tui.store.lock import holder
from akg_tui.store.run_list import read_state
from benchmarks.crashlab.scenes import outcome
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import create

COMMAND = (sys.executable, "-m", "benchmarks.crashlab.detached_kills")
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
    while holder(run) is not None:
        if time.monotonic() > end:
            raise TimeoutError(f"{run}: the engine never ended")
        time.sleep(0.01)


def _one(folder: Path, kills: list[tuple[str, float]], told: Counter[str]) -> Path:
    """Let a run come to its end under these kills; return it."""
    made = create(folder / "task", rounds=ROUNDS)
    made.close()
    run, watching = made.path, Watching(made.path)
    for what, delay in kills:
        engine = detached.start(run)
        watching.begin()
        time.sleep(delay)
        at_work = holder(run) == engine.pid
        if what != "viewer":
            told["engines killed at work"] += at_work
            with contextlib.suppress(ProcessLookupError):
                os.kill(engine.pid, signal.SIGKILL)
        watching.end(killed=what != "engine")
        if what == "viewer":
            told["viewers killed"] += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(engine.pid, signal.SIGTERM)
        _until_at_rest(run)
    if not read_state(run).finished:
        detached.start(run)
        _until_at_rest(run)
    watching.begin()
    watching.end(killed=False)
    expected = list(range(1, len(read(run / "events.jsonl")) + 1))
    told["events lost or doubled by viewers"] += watching.seen != expected
    return run


def kills_of_detached(count: int, dice: random.Random) -> bool:
    """Do so many runs, each with a few kills; print the figures; whether all ended well."""
    detached.COMMAND = COMMAND
    told: Counter[str] = Counter()
    faults: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="akg-crashlab-") as place:
        os.environ["XDG_STATE_HOME"] = place
        expected: dict[str, Any] = {}
        for number in range(count + 1):
            folder = Path(place) / str(number)
            kinds = [
                (dice.choice(("engine", "viewer", "both")), dice.uniform(0, WORKS_S))
                for _ in range(dice.randint(1, KILLS) if number else 0)
            ]
            told.update(what for what, _ in kinds)
            try:
                _one(folder, kinds, told)
                ended = outcome(folder)
            except (AssertionError, OSError, detached.NotStarted, TimeoutError) as error:
                faults.append(f"{number}: {kinds}: {error!r}")
                continue
            expected = expected or ended
            for name in ("attempts", "items", "best", "ended"):
                if ended[name] != expected[name]:
                    faults.append(f"{number}: {kinds}: {name}: {ended[name]}")
    told["took_s"] = round(time.monotonic() - began)
    figures = {"benchmark": "crashlab detached", "runs": count, **told, "faults": faults}
    print(json.dumps(figures), flush=True)
    return not (faults or told["events lost or doubled by viewers"])


if __name__ == "__main__":
    detached.COMMAND = COMMAND
    run_service._judge = lambda run, on_progress: SlowFakeJudge(on_progress)
    run_service.check_target = lambda task, path: None
    sys.exit(akg_tui())

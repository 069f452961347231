"""The crash lab: a run with a kill or a disk error at each step must end as an undisturbed run.

The engine, the store, git and the files are what users get; the judge is the tests' fake
one, so that a run takes a moment. `python -m benchmarks crashlab [--points N] [--kills N]
[--losses N] [--seed S] [--files N]` starts one process, warmed up, whose forks are the victims;
with `--detached KILLS` the victims are detached engines and their watchers (`detached_kills`).

A *point* is a step on the disk (`disk_faults`) with what happens there: a kill before it,
in the middle of it or after it, or a full disk or an I/O error, once or from there on. A *kill*
is a SIGKILL from outside at a random moment. A *loss* is a power loss after a step: all or part of
the data that was not durable is gone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.crashlab import disk_faults
from benchmarks.crashlab.disk_faults import How

POINTS, KILLS, LOSSES = 400, 500, 100
ROOT = Path(__file__).parents[2]


class Case(NamedTuple):
    """One fault for one victim: scene, kind and step. `point` is empty for a random kill."""

    scene: str
    how: How
    step: int
    error: int
    point: str


def main(words: list[str]) -> bool:
    """Start the lab in a process whose file calls are counted; whether every case ended well."""
    options = _options(words)
    if options.detached:
        from benchmarks.crashlab.detached_kills import detached_lab

        return detached_lab(options.points, options.detached, options.seed)
    # In memory where possible: the lab does not measure the time of fsync.
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="akg-crashlab-", dir=place) as folder:
        command = [sys.executable, "-m", "benchmarks.crashlab.lab", folder]
        command += [f"--{name}={value}" for name, value in vars(options).items()]
        environment = disk_faults.environment(Path(folder))
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return done.returncode == 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks crashlab")
    parser.add_argument("--points", type=int, default=POINTS, help="0 for every one there is")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--losses", type=int, default=LOSSES)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--files", type=int, choices=(1, 2), default=1, help="of the kernel")
    parser.add_argument(
        "--detached",
        type=int,
        default=0,
        metavar="KILLS",
        help="points and KILLS of detached engines instead",
    )
    return parser.parse_args(arguments)


def chosen(cases: list[Case], count: int, dice: random.Random) -> list[Case]:
    """`count` of `cases`, as many different kinds of point as there is room for; 0 for all."""
    if not 0 < count < len(cases):
        return cases
    kinds: dict[str, list[Case]] = {}
    for case in cases:
        kinds.setdefault(f"{case.scene} {case.how} {case.error} {case.point}", []).append(case)
    for of_a_kind in kinds.values():
        dice.shuffle(of_a_kind)
    order = list(kinds.values())
    dice.shuffle(order)
    picked: list[Case] = []
    while len(picked) < count:
        for of_a_kind in order:
            if of_a_kind and len(picked) < count:
                picked.append(of_a_kind.pop())
    return picked


class Progress:
    """Prints on stderr every few seconds how many of `total` cases were done."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._began = self._told = time.monotonic()

    def tell(self, begun: int) -> None:
        """Note that so many cases begin now."""
        now = time.monotonic()
        if self._done and now - self._told > 5:
            self._told = now
            took = f"{now - self._began:.0f} s"
            print(f"{self._done}/{self._total} cases, {took}", file=sys.stderr, flush=True)
        self._done += begun


def work(folder: Path, options: argparse.Namespace) -> bool:
    """In the counted process: make the scenes, do every case, print the figures."""
    from benchmarks.crashlab import scenes
    from benchmarks.crashlab.victims import Lab

    began = time.monotonic()
    if options.files > 1:
        scenes.use_several_files()
    dice = random.Random(options.seed)
    lab = Lab(folder)
    every = lab.cases()
    cases = chosen(every, options.points, dice)
    losses = lab.losses(options.losses, dice)
    progress = Progress(len(cases) + options.kills + len(losses))
    told: Counter[str] = Counter()
    faults: list[str] = []
    for case in cases:
        progress.tell(1)
        told["points"] += 1
        told[f"points: {case.how.name.lower()}"] += 1
        lab.judge(partial(lab.point, case), str(case), told, faults)
    for number in range(options.kills):
        progress.tell(1)
        told["kills"] += 1
        lab.judge(lambda: lab.kill(dice), f"random kill {number}", told, faults)
    for loss in losses:
        progress.tell(1)
        told["power_losses"] += 1
        lab.judge(partial(lab.power_loss, loss), f"power loss {loss}", told, faults)
    figures: dict[str, Any] = {
        "benchmark": "crashlab",
        "seed": options.seed,
        "files": options.files,
        "points_there_are": len(every),
        **{name: told[name] for name in ("points", "kills", "power_losses")},
        "kinds_of_point": len({(case.how, case.error, case.point) for case in cases}),
        "event_types": lab.event_types(cases)[0],
        "event_types_without": lab.event_types(cases)[1],
        "killed": told["killed"],
        "stopped_by_an_error": told["stopped"],
        "went_on_past_an_error": told["ended"],
        **{name: told[name] for name in ("lost", "doubled", "unevaluated_bests", "diverged")},
        "other_faults": told["other"],
        "took_s": round(time.monotonic() - began, 1),
        "faults": faults[:20],
    }
    print(json.dumps(figures), flush=True)
    return not faults


if __name__ == "__main__":
    scratch = Path(sys.argv[1])
    os.environ.pop("LD_PRELOAD", None)  # the victims' own children need not be watched
    sys.exit(0 if work(scratch, _options(sys.argv[2:])) else 1)

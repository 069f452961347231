"""SIGKILL at random moments of a headless run, each time followed by `resume`.

Every run must end as an unkilled one does: the same number of rounds, each settled
once, and a best kernel that was evaluated. The seed is printed.
"""

from __future__ import annotations

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

KILLS = 20
ROUNDS = 4
COMMAND = [sys.executable, "-m", "akg_tui"]


class Broken(AssertionError):
    """An invariant of a killed run does not hold."""


def _events(run: Path) -> list[dict[str, Any]]:
    lines = (run / "events.jsonl").read_text().splitlines()
    return [json.loads(line.split(" ", 1)[1])["event"] for line in lines]


def check(run: Path, summary: dict[str, Any], rounds: int) -> None:
    """Raise `Broken` unless the run ended whole."""
    if not summary["ok"] or summary["rounds"] != rounds:
        raise Broken(f"ended with {summary['reason']!r} after {summary['rounds']} rounds")
    events = _events(run)
    settled = Counter(event["round"] for event in events if event["type"] == "Decided")
    if settled != Counter(range(1, rounds + 1)):
        raise Broken(f"rounds settled: {settled}")
    measured = {
        event["attempt"]
        for event in events
        if event["type"] == "EvalFinished" and event["measurement"]["outcome"] == "correct"
    }
    if summary["best_attempt"] not in measured:
        raise Broken(f"attempt {summary['best_attempt']} is best and was never found correct")
    git = ["git", "-C", str(run / "history.git")]
    best = subprocess.run([*git, "show", "best:kernel.py"], check=True, capture_output=True).stdout
    if best != (run / "work" / "kernel.py").read_bytes():
        raise Broken("the work tree is not the best kernel")
    head = subprocess.run([*git, "rev-parse", "best"], check=True, capture_output=True).stdout
    if head.decode().strip() != summary["best_commit"]:
        raise Broken("refs/heads/best is not the journal's best commit")
    subprocess.run([*git, "fsck", "--strict"], check=True, capture_output=True)


def _summary(output: str) -> dict[str, Any]:
    summary = json.loads(output.strip().splitlines()[-1])
    assert summary["type"] == "summary"
    return dict(summary)


def _orphans(marker: str) -> list[int]:
    """Processes that still have `marker` (the run's folder) on their command line or as cwd."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            here = str((entry / "cwd").readlink())
        except OSError:
            continue
        if marker in words or here.startswith(marker):
            found.append(int(entry.name))
    return found


def killed_run(
    folder: Path, moments: list[float], rounds: int = ROUNDS, task: Path | None = None
) -> dict[str, Any]:
    """One run of the demo, or of a task, killed after `moments` seconds, resumed to its end."""
    start = [*COMMAND, "demo", "--headless", "--json", "--rounds", str(rounds)]
    if task is not None:
        start = [*COMMAND, "tune", str(task), "--headless", "--json", "--max-rounds", str(rounds)]
    command, run = start, None
    for moment in moments:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        runs = sorted(folder.rglob("runs/*/events.jsonl"))
        run = runs[-1].parent if runs else None
        if run is not None:
            command = [*COMMAND, "resume", str(run), "--headless", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Broken(f"exit code {done.returncode}: {done.stderr.strip()}")
    summary = _summary(done.stdout)
    check(Path(folder, summary["run"]), summary, rounds)
    deadline = time.monotonic() + 5
    while left := _orphans(str(folder)):
        if time.monotonic() > deadline:
            raise Broken(f"processes left behind: {left}")
        time.sleep(0.1)
    return summary


def main(_words: list[str]) -> bool:
    """Kill, resume, check; print the count of runs that ended whole."""
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        killed_run(Path(folder), [])
        unkilled_s = time.monotonic() - began
    whole, faults = 0, []
    for _ in range(KILLS):
        with tempfile.TemporaryDirectory() as folder:
            moment = dice.uniform(0.1, unkilled_s)
            try:
                killed_run(Path(folder), [moment])
                whole += 1
            except Broken as fault:
                faults.append(f"killed at {moment:.2f} s: {fault}")
    figures = {
        "benchmark": "kills",
        "seed": seed,
        "kills": KILLS,
        "rounds": ROUNDS,
        "ended_whole": whole,
        "unkilled_s": round(unkilled_s, 1),
        "faults": faults,
    }
    print(json.dumps(figures))
    return not faults

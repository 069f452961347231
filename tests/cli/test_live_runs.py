"""A run without the workbench that is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.cli.fake_judged import COMMAND
from tests.engine.runs import make_task


def test_an_interrupted_run_ends_with_130_and_says_how_to_go_on(tmp_path: Path) -> None:
    make_task(tmp_path / "task")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [*COMMAND, "tune", "task", "--mode", "review", "--headless", "--json"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that starts the tests in the background has SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    assert process.stdout is not None
    for seq, line in enumerate(process.stdout, 1):
        told = json.loads(line)
        assert told["seq"] == seq
        if told["type"] == "GateOpened":  # the run waits for a person
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    run = errors.split("akg-tui resume ")[1].strip()
    command = [*COMMAND, "show", run, "--json"]
    shown = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(shown.stdout)["rounds"] == 0

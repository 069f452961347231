"""A whole run with the real judge that is interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from benchmarks.kills import COMMAND


def test_an_interrupted_demo_ends_with_130_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "demo", "row_softmax", "--headless", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for seq, line in enumerate(process.stdout, 1):
        told = json.loads(line)
        assert told["seq"] == seq
        if told["type"] == "EvalStarted":
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    run = errors.split("akg-tui resume ")[1].strip()
    command = [*COMMAND, "show", run, "--json"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(shown.stdout)["rounds"] == 0

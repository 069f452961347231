"""Kernels that misbehave, in a real run with the real judge: FAIL, FAIL, FAIL, DISCARD."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.workbench.misbehave import KERNEL, write_task


def test_each_misbehaviour_gets_its_verdict_and_the_best_kernel_is_back(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "task")
    kernel = KERNEL.replace("range(20)", "range(2)").encode()
    (folder / "kernel.py").write_bytes(kernel)
    reference = folder / "reference.py"
    reference.write_text(reference.read_text().replace("512, 512", "128, 128"))
    terms = (folder / "task.toml").read_text().replace("budget_s = 4.0", "budget_s = 0.3")
    (folder / "task.toml").write_text(terms)
    command = [sys.executable, "-m", "akg_tui", "tune", str(folder), "--headless", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    summary = lines[-1]
    texts = {
        item["id"]: item["text"]
        for line in lines
        if line["type"] == "PlanSubmitted"
        for item in line["items"]
    }
    decided = {
        texts[line["item"]]: (line["verdict"], line["reason"])
        for line in lines
        if line["type"] == "Decided"
    }
    assert {way: verdict for way, (verdict, _) in decided.items()} == {
        'WAY="wrong"': "FAIL",
        'WAY="hang"': "FAIL",
        'WAY="exit"': "FAIL",
        'WAY="slow"': "DISCARD",
    }
    assert "wrong values" in decided['WAY="wrong"'][1]
    assert "1.5 s" in decided['WAY="hang"'][1]
    run = Path(summary["run"])
    assert (run / "work" / "kernel.py").read_bytes() == kernel
    git = ["git", "-C", str(run / "history.git"), "show", "best:kernel.py"]
    assert subprocess.run(git, capture_output=True, check=True).stdout == kernel
    assert summary["best_attempt"] == 0
    assert summary["speedup_vs_seed"] == 1.0

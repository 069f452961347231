"""A sample of the crash lab; `python -m benchmarks crashlab` is the whole."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.crashlab import disk_faults
from tests.store import scripted

ROOT = Path(__file__).parents[2]


def test_runs_killed_failed_and_cut_off_from_power_end_as_if_nothing_had_been() -> None:
    command = [sys.executable, "-m", "benchmarks", "crashlab", "--seed", "1"]
    command += ["--points", "6", "--kills", "2", "--losses", "2"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr + done.stdout
    told = json.loads(done.stdout)
    assert (told["points"], told["kills"], told["power_losses"]) == (6, 2, 2)
    assert told["points_there_are"] > 1000
    assert told["killed"] + told["stopped_by_an_error"] >= 6
    for kind in ("lost", "doubled", "unevaluated_bests", "diverged", "other_faults"):
        assert told[kind] == 0


PROGRAM = """
import os, sys
from pathlib import Path
from akg_tui.store.errors import StoreError
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from benchmarks.crashlab import disk_faults
from tests.store import scripted
run, error = Path(sys.argv[1]), int(sys.argv[2])
disk_faults.arm(run, disk_faults.How.FAIL_FROM_HERE, 1, error=error)
print(read_state(run).seq)
try:
    RunFolder.open(run)
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EIO])
def test_a_run_on_a_disk_that_takes_nothing_can_be_read_and_is_refused_in_a_line(
    code: int, tmp_path: Path
) -> None:
    run = scripted.create_run(scripted.make_task(tmp_path / "task"))
    run.close()
    before = (run.path / "events.jsonl").read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(run.path), str(code)],
        cwd=ROOT,
        env=disk_faults.environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    seq, told = done.stdout.splitlines()
    assert seq == "1"
    assert told.startswith("cannot ")
    assert os.strerror(code) in told
    assert (run.path / "events.jsonl").read_bytes() == before

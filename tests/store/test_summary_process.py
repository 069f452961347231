"""The process that reads runs for a list says what reading them here says."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from akg_tui.store.run_list import SummaryProcess, summarize_run
from benchmarks import fold


def test_a_process_tells_of_runs_what_reading_them_here_tells(tmp_path: Path) -> None:
    sound, damaged = tmp_path / "söund\nrun", tmp_path / "damaged"
    for run in (sound, damaged):
        run.mkdir()
        fold._write(run, 120)
    journal = damaged / "events.jsonl"
    journal.write_bytes(b"x" + journal.read_bytes())
    reader = SummaryProcess()
    try:
        told = reader.read([sound, damaged, tmp_path / "none"])
        assert told == {str(run): summarize_run(run) for run in (sound, damaged, tmp_path / "none")}
        assert told[str(damaged)].damaged
        process = reader._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert reader.read([sound]) == {}, "a reader that died tells nothing, and is no error"
        assert reader.read([sound]) == {}
    finally:
        reader.close()
    assert process.poll() is not None

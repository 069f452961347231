"""A disk that is full as a run is resumed: one line, nothing lost, and the run is let go."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.cli import main
from akg_tui.core import events as ev
from akg_tui.store.errors import JournalWriteError
from akg_tui.store.run_folder import RunFolder
from tests.engine.runs import create


@pytest.mark.parametrize(
    ("words", "kind"),
    [(["--mode", "review"], ev.ModeChanged), (["--max-rounds", "3"], ev.PolicyChanged)],
)
def test_a_change_that_cannot_be_written_as_a_run_is_resumed_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    kind: type,
) -> None:
    run = create(tmp_path / "task")
    run.close()
    before = (run.path / "events.jsonl").read_bytes()
    append = RunFolder.append

    def full(self: RunFolder, event: ev.AnyEvent) -> ev.Record:
        if isinstance(event, kind):
            raise JournalWriteError("cannot write events.jsonl: No space left on device")
        return append(self, event)

    monkeypatch.setattr(RunFolder, "append", full)
    assert main(["resume", str(run.path), "--headless", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "akg-tui: cannot write events.jsonl: No space left on device"
    assert (run.path / "events.jsonl").read_bytes() == before
    RunFolder.open(run.path).close()  # nobody holds it any more

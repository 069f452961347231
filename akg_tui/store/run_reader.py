"""Summaries of runs, read by a process of their own, for who must not be held up by it.

The process reads paths from its standard input and answers each with a summary, one JSON a
line. It takes no lock and writes nothing, and ends when its input does.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from akg_tui.store.run_list import RunSummary, summarize_run

_COMMAND = (sys.executable, "-m", "akg_tui.store.run_reader")


class Reader:
    """Starts the process when it is first asked. One that fails is not asked again."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._failed = False

    def read(self, runs: Sequence[Path]) -> dict[str, RunSummary]:
        """The summaries by path. Some may be missing: the caller reads those itself."""
        told: dict[str, RunSummary] = {}
        if self._failed:
            return told
        try:
            process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"".join(msgspec.json.encode(str(run)) + b"\n" for run in runs))
            process.stdin.flush()
            for _ in runs:
                summary = msgspec.json.decode(process.stdout.readline(), type=RunSummary)
                told[summary.path] = summary
        except (OSError, ValueError):  # it is gone, or was closed meanwhile
            self._failed = True
            self.close()
        return told

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self._process

    def close(self) -> None:
        """End the process, if there is one. Called from any thread."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # of what was not read any more
                    pipe.close()


def main() -> int:
    answer = msgspec.json.Encoder()
    for line in sys.stdin.buffer:
        summary = summarize_run(Path(msgspec.json.decode(line, type=str)))
        sys.stdout.buffer.write(answer.encode(summary) + b"\n")
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Plays a run in child processes that are killed, until one of them ends it.

Run as a program: `python -m tests.store.crashing points FOLDER FIRST STEP` or
`… random FOLDER SEED KILLS`. It forks, so that a child costs a millisecond and not an
interpreter's start; prints one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from akg_tui.store.history import History
from akg_tui.store.run_folder import RunFolder, read_state
from tests.store import scripted


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(point: int) -> None:
    """Make this process kill itself at its `point`-th step on the disk.

    A step is the time before, in the middle of, or after a call that changes a file.
    """
    left = [point]

    def step() -> None:
        left[0] -= 1
        if left[0] == 0:
            _die()

    def around(real: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object, **named: object) -> object:
            step()
            result = real(*arguments, **named)
            step()
            return result

        return wrapped

    real_write = os.write

    def write(descriptor: int, data: bytes) -> int:
        step()
        left[0] -= 1
        if left[0] == 0:
            real_write(descriptor, data[: len(data) // 2])
            _die()
        written = real_write(descriptor, data)
        step()
        return written

    os.write = write
    for name in ("fsync", "ftruncate", "replace", "rename", "unlink", "mkdir"):
        setattr(os, name, around(getattr(os, name)))
    for name in ("write_blob", "commit", "set_best", "set_attempt"):
        setattr(History, name, around(getattr(History, name)))


def session(path: Path) -> None:
    """What one process does with a run: open it, recover, work to the end."""
    run = RunFolder.open(path, clock=scripted.Clock())
    scripted.recover(run)
    scripted.play(run)
    run.close()


def forked(work: Callable[[], None], until: float | None = None) -> bool:
    """Do `work` in a child, killed after `until` seconds; whether it came to its end."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    os.close(writer)
    # The pipe ends with the child: a wait for that, bounded by the moment to kill.
    if until is not None and not select.select([reader], [], [], until)[0]:
        os.kill(child, signal.SIGKILL)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit("a session failed; see above")
    return os.WIFEXITED(status)


def check(path: Path) -> None:
    """What holds after every kill, before anybody mends anything: only measured kernels count."""
    state = read_state(path)
    rounds = [attempt.round for attempt in state.attempts]
    assert rounds == list(range(len(rounds))), f"a round is lost or double: {rounds}"
    with contextlib.suppress(FileNotFoundError):
        best = (path / "history.git" / "refs" / "heads" / "best").read_text().strip()
        known = {attempt.commit for attempt in state.attempts}
        assert best in known, f"best is {best}, which no settled attempt has"


def main() -> None:
    kind, folder, first, second = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:5])
    draw = random.Random(first)
    kills = point = 0
    while True:
        if kind == "points":
            # Ever later: each session gets at least past where the last one was killed.
            point = first + second * kills

            def work(point: int = point) -> None:
                die_at(point)
                session(folder)

            ended = forked(work)
        else:
            until = draw.uniform(0.0, 0.05) if kills < second else None
            ended = forked(lambda: session(folder), until)
        check(folder)
        if ended:
            break
        kills += 1
    run = RunFolder.open(folder)
    print(json.dumps({"kills": kills, "outcome": scripted.outcome(run)}))
    run.close()


if __name__ == "__main__":
    main()

"""A newcomer's first KEEP: `python -m benchmarks newcomer [kernel|reference …] [--keep DIR]`.

Types the commands of docs/kernels.md in a pseudo-terminal: `new`, `eval`, then `tune` with the
sweep in the workbench, until the first KEEP is in the journal. With `kernel` the files are those of
the page; with `reference` there is only the reference of a softmax, and `new` makes the kernel.
Prints a JSON line each, in seconds.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "kernels.md"
BOUND_S = 240.0
GIVE_UP_S = 1200.0
COMMAND = [sys.executable, "-m", "akg_tui"]
SIZE = (40, 120)
WAYS = {
    "kernel": ["--reference", "reference.py", "--kernel", "kernel.py"],
    "reference": ["--reference", "reference.py"],
}
SOFTMAX = """import torch
from torch import nn

ROWS, COLUMNS = 512, 2048


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
"""
_KEEP = re.compile(rb'"type":"Decided"[^\n]*"verdict":"KEEP","reason":"([^"]*)"')


def typed(words: list[str], folder: Path, done: Callable[[], bool]) -> tuple[float, int]:
    """Run a command in a terminal until it ends or `done`; return its seconds and exit code.

    The code is 0 where it was done before its end: the workbench is closed then.
    """
    began = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execv(COMMAND[0], [*COMMAND, *words])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    took, stopped = 0.0, False
    try:
        while time.monotonic() - began < GIVE_UP_S:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    os.read(terminal, 65536)
                except OSError:  # the command has ended
                    break
            if not took and done():
                took, stopped = time.monotonic() - began, True
                os.kill(pid, signal.SIGTERM)
        else:
            os.kill(pid, signal.SIGKILL)
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    seconds = took or time.monotonic() - began
    return seconds, 0 if stopped else os.waitstatus_to_exitcode(status)


def first_keep(task: Path) -> str:
    """Return the reason of the first KEEP in the run of a task; "" if there is none yet."""
    for journal in task.glob("runs/*/events.jsonl"):
        if found := _KEEP.search(journal.read_bytes()):
            return found[1].decode()
    return ""


def figures(way: str, folder: Path) -> dict[str, object]:
    """Return the seconds of each step to the first KEEP, in a folder without files."""
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        name = block.split(":")[0].removeprefix("# ")
        (folder / name).write_text(block)
    if way == "reference":
        (folder / "reference.py").write_text(SOFTMAX)
    task = folder / "mytask"
    steps = {"new": ["new", "mytask", *WAYS[way]], "eval": ["eval", "mytask"]}
    seconds: dict[str, float] = {}
    for name, words in steps.items():
        seconds[name], code = typed(words, folder, lambda: False)
        if code != 0:
            raise RuntimeError(f"{name} ended with {code}: {' '.join(words)}")
    words = ["tune", "mytask", "--mode", "auto"]
    seconds["first_keep"], _ = typed(words, folder, lambda: bool(first_keep(task)))
    reason = first_keep(task)
    if not reason:
        raise RuntimeError(f"tune ended without a KEEP after {seconds['first_keep']:.0f} s")
    return {
        "benchmark": "newcomer",
        "way": way,
        **{name: round(value, 1) for name, value in seconds.items()},
        "seconds": round(sum(seconds.values()), 1),
        "bound": BOUND_S,
        "keep": reason,
        "load": round(os.getloadavg()[0], 1),
    }


def main(words: list[str]) -> bool:
    """Print the figures of each way; False where one takes longer than the bound."""
    options = argparse.ArgumentParser(prog="python -m benchmarks newcomer", description=__doc__)
    options.add_argument("ways", nargs="*", metavar="WAY", help=" or ".join(WAYS))
    options.add_argument("--keep", type=Path, metavar="DIR", help="keep the tasks, in this folder")
    given = options.parse_args(words)
    held = []
    for way in given.ways or WAYS:
        folder = Path(tempfile.mkdtemp(prefix="akg-newcomer-"))
        try:
            found = figures(way, folder)
            print(json.dumps(found), flush=True)
            held.append(float(str(found["seconds"])) <= BOUND_S)
            if given.keep is not None:
                shutil.copytree(folder, given.keep / way)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return all(held)

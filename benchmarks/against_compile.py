"""Times a task's kernel against torch.compile of its reference.

The judge can't: torch.compile would compile anew in each of its processes. Here one confined
process has both, calls them in turns on the same inputs, and prints a log ratio a pair of turns.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from akg_tui.evaluate.sandbox import run_confined
from akg_tui.evaluate.statistics import trimmed_bounds
from akg_tui.store.reference_constants import with_constants
from akg_tui.store.task_folder import TaskFolder

PROCESSES = 2
PAIRS = 20
"""The pairs of one process."""

TURN_S = 0.03
"""About how long one side is called in a turn, unless one call takes longer."""

SECONDS = 8.0
"""A process measures no longer, once it has `LEAST_PAIRS`."""

LEAST_PAIRS = 6
LIMIT_S = 240.0
MEMORY_GB = 8.0
ALPHA = 0.025


def against_compile(made: TaskFolder, scratch: Path) -> dict[str, Any]:
    """Return `ratio`, `low`, `high`: the time of torch.compile over the kernel's, 95 % interval.

    `why` instead where one of both can't be run.
    """
    scratch.mkdir()
    constants = made.task.reference.constants
    (scratch / "reference.py").write_text(with_constants(made.reference, constants), "utf-8")
    (scratch / "kernel.py").write_text(made.kernel.text, "utf-8")
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {"why": "torch is not installed"}
    code = Path(__file__).resolve().parent.parent
    values: list[float] = []
    for _ in range(PROCESSES):
        command = run_confined.command(
            *(sys.executable, "-P", str(Path(__file__).resolve()), str(scratch)),
            folder=scratch,
            # Also where the packages are outside of this interpreter's own folder.
            readable=(Path(spec.origin).parent.parent, code),
            memory_gb=MEMORY_GB,
        )
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=LIMIT_S, check=False, start_new_session=True
            )
            lines = done.stdout.decode("utf-8", "replace").splitlines()
            values += [float(value) for value in json.loads(lines[-1])["log_ratios"]]
        except (ValueError, KeyError, IndexError, TypeError):
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            return {"why": "".join(last) or "the process told nothing"}
        except subprocess.TimeoutExpired:
            return {"why": f"not done in {LIMIT_S:.0f} s"}
    mean, low, high = (math.exp(value) for value in trimmed_bounds(values, ALPHA))
    return {"ratio": round(mean, 3), "low": round(low, 3), "high": round(high, 3)}


def _main(folder: Path) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    reference, kernel = _module(folder / "reference.py"), _module(folder / "kernel.py")
    with torch.no_grad():
        given = reference["get_init_inputs"]()
        compiled, model = reference["Model"](*given), kernel["ModelNew"](*given)
        model.load_state_dict(compiled.state_dict())
        compiled.compile(dynamic=False)
        inputs = reference["get_inputs"]()
        sides = (model, compiled)
        for side in sides:
            side(*inputs)
        times = [_turn(side, inputs, 1) for side in sides]
        calls = max(1, int(TURN_S / max(*times, 1e-7)))
        log_ratios: list[float] = []
        start = time.monotonic()
        while len(log_ratios) < PAIRS:
            if len(log_ratios) >= LEAST_PAIRS and time.monotonic() - start > SECONDS:
                break
            order = random.sample((0, 1), 2)
            taken = {side: _turn(sides[side], inputs, calls) for side in order}
            log_ratios.append(math.log(taken[1] / taken[0]))
    print(json.dumps({"log_ratios": log_ratios, "calls": calls}))


def _turn(side: Callable[..., object], inputs: list[object], calls: int) -> float:
    """Return the seconds of a call, after one that is not counted."""
    side(*inputs)
    start = time.perf_counter()
    for _ in range(calls):
        side(*inputs)
    return (time.perf_counter() - start) / calls


def _module(path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    with contextlib.redirect_stdout(sys.stderr):
        exec(compile(path.read_text("utf-8"), str(path), "exec"), names)
    return names


if __name__ == "__main__":
    _main(Path(sys.argv[1]))

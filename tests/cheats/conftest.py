"""One judge for all cheats of a task, with the static guard at warn: what the guard sees
must not be what saves us."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from akg_tui.core.task import Correctness, Guard, Task, Timing
from akg_tui.evaluate import Judge
from tests.cheats import tasks

AskJudge = Callable[[str], Coroutine[Any, Any, Judge]]

SOFTMAX = Task(
    op="cheated",
    correctness=Correctness(trials=2),
    guard=Guard(level="warn"),
    timing=Timing(budget_s=0.3, call_timeout_s=2.5, build_timeout_s=60.0),
)
STRICT = msgspec.structs.replace(
    SOFTMAX, correctness=Correctness(trials=2, noncontiguous=True, deterministic=True)
)
FIXED = msgspec.structs.replace(SOFTMAX, correctness=Correctness(trials=2, fixed_shape=True))
FINITE = msgspec.structs.replace(
    SOFTMAX, correctness=Correctness(trials=2, fixed_shape=True, values="finite")
)
# The reciprocal of a denormal number is infinite: that is no matter of rounding.
DRAWN = msgspec.structs.replace(SOFTMAX, correctness=Correctness(trials=2, values="drawn"))
ANYHOW = msgspec.structs.replace(SOFTMAX, correctness=Correctness(trials=2, strides="any"))
# What looks faster by several times at once is found faster at the first looks, or the next ones.
PATIENT = msgspec.structs.replace(
    SOFTMAX, timing=msgspec.structs.replace(SOFTMAX.timing, budget_s=20.0)
)
LONG = msgspec.structs.replace(
    FIXED, timing=msgspec.structs.replace(SOFTMAX.timing, budget_s=3.0, build_timeout_s=60.0)
)

TASKS = {
    "softmax": (SOFTMAX, tasks.SOFTMAX),
    "patient": (PATIENT, tasks.SOFTMAX),
    "long": (LONG, tasks.SOFTMAX.replace("64, 256", "1600, 1024")),
    "strict": (STRICT, tasks.SOFTMAX),
    "transpose": (SOFTMAX, tasks.TRANSPOSE),
    "anyhow": (ANYHOW, tasks.TRANSPOSE),
    "weighted": (SOFTMAX, tasks.WEIGHTED),
    "triangle": (FIXED, tasks.TRIANGLE),
    "normed": (SOFTMAX, tasks.NORMED),
    "untrained": (SOFTMAX, tasks.UNTRAINED),
    "biased": (SOFTMAX, tasks.BIASED),
    "large": (LONG, tasks.LARGE),
    "masked": (SOFTMAX, tasks.MASKED),
    "half mean": (SOFTMAX, tasks.HALF_MEAN),
    "mixed": (FIXED, tasks.MIXED),
    "halves": (FIXED, tasks.HALVES),
    "ragged": (FIXED, tasks.RAGGED),
    "tiled": (FIXED, tasks.TILED),
    "counted": (FIXED, tasks.COUNTED),
    "small channels": (FIXED, tasks.SMALL_CHANNELS),
    "rising": (FINITE, tasks.RISING),
    "padded": (PATIENT, tasks.PADDED),
    "summed": (FINITE, tasks.SUMMED),
    "scores": (FIXED, tasks.SCORES),
    "quantised": (DRAWN, tasks.QUANTISED),
    "counted in bins": (SOFTMAX, tasks.COUNTED_IN_BINS),
    "experts": (SOFTMAX, tasks.EXPERTS),
    "limited": (SOFTMAX, tasks.KEPT_LARGE),
    "top": (SOFTMAX, tasks.TOP),
    "top of integers": (SOFTMAX, tasks.TOP_INTEGERS),
}

# Descriptors that wait in the sockets of spare children are counted for all processes of a user, at
# most as many as a child may have open.
WITHOUT_SPARES = {
    *("anyhow", "biased", "counted", "half mean", "halves", "large", "long", "normed", "padded"),
    *("rising", "small channels", "strict", "summed", "tiled", "transpose", "triangle"),
    *("counted in bins", "experts", "limited", "quantised", "scores", "top", "top of integers"),
}
"""Tasks of few kernels, whose judges prepare nothing ahead."""

CALLED_OFTEN = {"softmax", "patient"}
"""Tasks with kernels that count their calls."""


def modules_of(name: str) -> tuple[str, ...]:
    """Return the modules that the judge of a task loads."""
    return ("tests.cheats.long_processes",) if name in CALLED_OFTEN else ()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def judge_of(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AskJudge]:
    """Return the judge of a task by name, started when it is first asked for."""
    running: dict[str, Judge] = {}

    async def ask(name: str) -> Judge:
        if name not in running:
            task, reference = TASKS[name]
            ahead = name not in WITHOUT_SPARES
            folder = tmp_path_factory.mktemp(name)
            modules = modules_of(name)
            running[name] = Judge(task, reference, folder, prefetch=ahead, modules=modules)
        return running[name]

    yield ask
    await asyncio.gather(*(judge.close() for judge in running.values()))

"""All kernels that try to look right or fast without being so, by the principle that stops them.

An *ordinary* cheat is what a capable model writes that wants a high ratio: each is refused, always.
`benchmarks/judge/expert` has those that need knowledge of this judge.
"""

from __future__ import annotations

import msgspec

from akg_tui.core.task import Correctness, Guard, Target, Task, Timing
from benchmarks.judge.ordinary import (
    changed_arguments,
    side_by_side,
    tasks,
    windows,
    work_left_to_torch,
)
from benchmarks.judge.ordinary.apart import APART, APART_TRICKS
from benchmarks.judge.ordinary.as_near import AS_NEAR
from benchmarks.judge.ordinary.beyond_doubt import BEYOND_DOUBT
from benchmarks.judge.ordinary.changed_arguments import CHANGED_ARGUMENTS
from benchmarks.judge.ordinary.cheat import Cheat, Slowpoke
from benchmarks.judge.ordinary.every_part import EVERY_PART
from benchmarks.judge.ordinary.floods import FLOODS
from benchmarks.judge.ordinary.fresh import FRESH, FRESH_TRICKS
from benchmarks.judge.ordinary.side_by_side import SIDE_BY_SIDE
from benchmarks.judge.ordinary.timed_calls import TIMED_CALLS, TIMED_TRICKS
from benchmarks.judge.ordinary.windows import WINDOWS
from benchmarks.judge.ordinary.work_left_to_torch import WORK_LEFT_TO_TORCH

ORDINARY: dict[int, tuple[Cheat | Slowpoke, ...]] = {
    1: (*APART, *FLOODS, *APART_TRICKS),
    2: (*FRESH, *FRESH_TRICKS),
    3: (*EVERY_PART, *WINDOWS, *CHANGED_ARGUMENTS),
    4: AS_NEAR,
    5: (*TIMED_CALLS, *TIMED_TRICKS),
    6: SIDE_BY_SIDE,
    7: BEYOND_DOUBT,
    8: WORK_LEFT_TO_TORCH,
}
"""The ordinary cheats by the number of the principle that stops them (`akg_tui.evaluate`)."""

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
ANY = msgspec.structs.replace(SOFTMAX, correctness=Correctness(trials=2, values="any"))
DEFAULT = msgspec.structs.replace(SOFTMAX, correctness=Correctness())
WORK = msgspec.structs.replace(
    SOFTMAX,
    guard=Guard(level="fail", kernel_must_do_the_work=True),
    target=Target(dsl="cpp"),
    timing=msgspec.structs.replace(SOFTMAX.timing, build_timeout_s=300.0),
)
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
    "any values": (ANY, tasks.SOFTMAX),
    "columns": (DEFAULT, tasks.COLUMNS),
    "linear": (DEFAULT, work_left_to_torch.LINEAR),
    "work": (WORK, work_left_to_torch.LINEAR),
    "optimizer": (SOFTMAX, changed_arguments.OPTIMIZER),
    "streamed": (PATIENT, side_by_side.STREAMED),
    **{f"window: {name}": (DEFAULT, reference) for name, (reference, _) in windows.PAIRS.items()},
}
"""What a judge is asked about the kernels of a task, and its reference, by the task's name."""

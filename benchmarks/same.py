"""A kernel against itself: how often the judge would keep what is no gain at all.

Each trial is a whole evaluation by the real judge, of a sample's own kernel against the
same text. Few trials: a check that the parts work together, not a proof of a rate.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
from pathlib import Path

from akg_tui.core.decision import decide_verdict
from akg_tui.core.machine import Verdict
from akg_tui.core.measurement import Measurement
from akg_tui.evaluate import Judge
from akg_tui.resources import sample
from akg_tui.store.task_folder import load_task

SAMPLES = ("row_softmax", "rms_norm", "hybrid_attention_mask")
TRIALS = 15


async def _trials(name: str) -> list[Measurement]:
    folder = load_task(sample(name))
    with tempfile.TemporaryDirectory() as scratch:
        async with Judge(folder.task, folder.reference, Path(scratch)) as judge:
            return [await judge.evaluate(folder.kernel, folder.kernel) for _ in range(TRIALS)]


def run() -> bool:
    """Measure, print, and say whether no trial was kept."""
    held = True
    for name in SAMPLES:
        measured = asyncio.run(_trials(name))
        min_gain = load_task(sample(name)).task.timing.min_gain
        kept = sum(decide_verdict(m, min_gain).verdict is Verdict.KEEP for m in measured)
        held = held and not kept
        logs = [m.ratio.ratio for m in measured if m.ratio]
        figures = {
            "benchmark": "same",
            "sample": name,
            "trials": TRIALS,
            "kept": kept,
            "median_ratio": round(statistics.median(logs), 4),
            "widest_ratios": [round(min(logs), 4), round(max(logs), 4)],
            "median_s": round(statistics.median(m.elapsed_s for m in measured), 2),
            "held": not kept,
        }
        print(json.dumps(figures))
    return held

"""Honest kernels on many unusual inputs, without the judge's processes: none may be refused.

Operators, lengths of sums, styles and kinds of values are drawn at random, and each result is
compared by the judge's own rules, some 200 a second. So refusals show that come once in thousands
of evaluations. The kernels run in this process, because they are the benchmark's own.
`python -m benchmarks honest_draws --seconds S --dtypes float32,bfloat16`.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from typing import Any

import torch

from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import unusual_values
from akg_tui.evaluate.child.input_generator import LongestReduction
from akg_tui.evaluate.child.protocol import FEW_NUDGES
from akg_tui.evaluate.child.unusual_values import ValueKind
from benchmarks.judge.honest_kernels import DTYPES, OPS, STYLES

LONGEST = 4000


class Drawn:
    """One operator with ordinary inputs, from one seed."""

    def __init__(self, op: str, size: int, dtype: str, seed: int) -> None:
        torch.manual_seed(seed)
        reference = _executed(OPS[op].source(size, dtype))
        self._seed = seed
        self._inputs: list[Any] = reference["get_inputs"]()
        self._model = reference["Model"]()

    def kinds(self) -> list[ValueKind]:
        """Return the kinds of values that such inputs may have."""
        return unusual_values.possible("finite", [each.dtype for each in self._inputs])

    def refused(self, kernel: Any, kind: ValueKind) -> str | None:
        """Return why the kernel is refused on these inputs, "" if it is not.

        None if the inputs are unfair, or the result is not one of floating-point numbers.
        """
        given: list[Any] = unusual_values.apply(
            kind, self._inputs, torch.Generator().manual_seed(self._seed)
        )
        with LongestReduction() as longest:
            native = self._model(*(each.clone() for each in given))
        if not native.is_floating_point() or not correctness.all_finite([native]):
            return None
        wide = [each.double() if each.is_floating_point() else each for each in given]
        nudges: list[Any] = [unusual_values.nudged]
        if correctness.has_few(native):
            nudges += [unusual_values.nudged_in_sums] * (FEW_NUDGES - 1)
        nudged = [
            [self._model(*(nudge(*pair) for pair in zip(wide, given, strict=True)))]
            for nudge in nudges
        ]
        exact = self._model(*wide)
        held = correctness.conditioned(
            [native], [exact], nudged, None, longest.terms, roundings=longest.roundings
        )
        if held is None:
            return None
        found = correctness.compare([kernel(*given)], [native], [exact], held)
        return f"{found.message} ({held[0].origin})" if found.message else ""


def _executed(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(source, "<honest>", "exec"), names)  # the benchmark's own text
    return names


def figures(dtype: str, seconds: float, seed: int) -> dict[str, Any]:
    """Draw inputs of a dtype for some seconds; return what was compared."""
    torch.set_num_threads(1)
    rng = random.Random(seed)
    kernels: dict[tuple[str, int], Any] = {}
    compared: Counter[str] = Counter()
    refused: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        op, size = rng.choice(list(OPS)), int(2 * (LONGEST / 2) ** rng.random())
        at = rng.randrange(1 << 31)
        drawn = Drawn(op, size, dtype, at)
        for kind in drawn.kinds():
            style = rng.randrange(len(STYLES))
            if (op, style) not in kernels:
                kernels[op, style] = _executed(OPS[op].written(style))["ModelNew"]()
            why = drawn.refused(kernels[op, style], kind)
            compared["unfair" if why is None else "refused" if why else "correct"] += 1
            if why:
                refused.append(f"{op}, {size}, {STYLES[style]}, {kind.label}, seed {at}: {why}")
    return {
        "benchmark": "honest_draws",
        "dtype": dtype,
        "seed": seed,
        "ops": len(OPS),
        "compared": dict(compared),
        "refused": refused,
    }


def run() -> bool:
    """Draw inputs in float32 for a minute; print the figures."""
    return main([])


def main(words: list[str]) -> bool:
    """`[--seconds S] [--dtypes A,B] [--seed N]`"""
    options = argparse.ArgumentParser(prog="python -m benchmarks honest_draws")
    options.add_argument("--seconds", type=float, default=60.0, metavar="S", help="for each dtype")
    options.add_argument("--dtypes", default=DTYPES[0], metavar="A,B")
    options.add_argument("--seed", type=int, default=1, metavar="N")
    chosen = options.parse_args(words)
    held = True
    for dtype in chosen.dtypes.split(","):
        found = figures(dtype, chosen.seconds, chosen.seed)
        print(json.dumps(found), flush=True)
        held &= not found["refused"]
    return held

"""Principle 7, beyond doubt: kernels that are equal to the incumbent and hope for luck."""

from __future__ import annotations

from benchmarks.judge.ordinary.cheat import Slowpoke
from benchmarks.judge.ordinary.tasks import PLAIN, kernel, repeated

BEYOND_DOUBT = (
    Slowpoke(
        "the same kernel again", "AKG: 51 to 68 % of identical kernels are kept",
        "an interval over processes", PLAIN + "\n# again\n",
    ),
    Slowpoke(
        "the same kernel in other words", "AKG: equal kernels are kept",
        "an interval over processes",
        kernel("return F.softmax(x, dim=x.dim() - 1)"),
    ),
    Slowpoke(
        "fast in some processes by luck", "GM: tries until the numbers are good",
        "one pair of processes is one value, and a gain is measured twice",
        kernel("""
            for _ in range(self.times):
                y = torch.softmax(x, -1)
            return y
        """, init="self.times = random.SystemRandom().choice((1, 3))"), incumbent=repeated(2),
        task="patient",
    ),
    Slowpoke(
        "fast in some calls by luck", "GM: the best of many", "medians of calls side by side",
        kernel("""
            for _ in range(random.SystemRandom().choice((1, 3))):
                y = torch.softmax(x, -1)
            return y
        """), incumbent=repeated(2), task="patient",
    ),
)  # fmt: skip

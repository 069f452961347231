"""Compares results with those of the reference: the metric, its bounds, and the messages.

Reads tensors in the judge's memory; must never run code under evaluation.
"""

from akg_tui.evaluate.correctness.compare_results import Comparison, accepts, compare
from akg_tui.evaluate.correctness.error_bounds import (
    bounds,
    conditioned,
    has_few,
    loosened,
    pooled_bounds,
    widened,
    widest,
)
from akg_tui.evaluate.correctness.error_metric import (
    CEILINGS,
    FLOORS,
    HALF,
    Bound,
    all_finite,
    differ,
)

__all__ = [
    "CEILINGS",
    "FLOORS",
    "HALF",
    "Bound",
    "Comparison",
    "accepts",
    "all_finite",
    "bounds",
    "compare",
    "conditioned",
    "differ",
    "has_few",
    "loosened",
    "pooled_bounds",
    "widened",
    "widest",
]

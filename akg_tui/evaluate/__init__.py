"""Measures kernels: builds, verifies and times them in processes that can't be trusted.

What the engine needs is `Judge`; everything else here runs in other processes, or is pure.
Importing this package must not import torch.
"""

from akg_tui.evaluate.judge_client import EvaluationCancelled, Judge

__all__ = ["EvaluationCancelled", "Judge"]

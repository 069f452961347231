"""Builds, verifies and times kernels in untrusted child processes.

The engine uses `Judge`; all other modules run in other processes, or are pure.
Importing this package must not import torch.
"""

from akg_tui.evaluate.judge_client import EvaluationCancelled, Judge

__all__ = ["EvaluationCancelled", "Judge"]

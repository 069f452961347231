"""The judge: builds, verifies and times kernels in untrusted child processes.

Theory of operation (the page with tables and a picture is docs/judge.md). The adversary is a
capable model that wants a high ratio and writes ordinary source; the guest is honest numerics. No
wrong kernel is kept, no untrue gain is kept, nothing outside the sandbox is touched. Every rule and
every constant of this package serves one of eight principles:

1. Apart: kernel code runs in a sandboxed child; inputs, expected results, comparison and clock are
   the judge's (`sandbox`, `processes`, `child`, `protocol`).
2. Fresh: inputs are secret and used once, processes are new (`reference`, `processes`).
3. Every part decides: each part of each input is changed somewhere, in the declared shape and in
   others (`verification_inputs`, `hidden_shapes`, `task_lint`).
4. As near as float arithmetic allows: the bound follows from the reference's own error and from the
   rounding of sums (`correctness`).
5. What is timed is checked: the judge stops a process at its answer and reads the results; only
   then does the process run on (`timing_samples`, `verification`).
6. Side by side: both kernels are called in turn, in new pairs of processes with equal memory
   (`timing_samples`, `noise`).
7. Beyond doubt: a gain is measured twice; what is not decided is INCONCLUSIVE (`timing`,
   `statistics`, `targets.roofline`).
8. The kernel does the work, where the task says so (`static_guard`, `child`).

The engine uses `Judge`; all other modules run in other processes, or are pure. Importing this
package must not import torch.
"""

from akg_tui.evaluate.judge_client import EvaluationCancelled, Judge

__all__ = ["EvaluationCancelled", "Judge"]

"""The judge's side of child processes: the pool, workers, process limits, and shared memory."""

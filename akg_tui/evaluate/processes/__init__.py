"""The judge's side of child processes: the pool, workers, and shared memory."""

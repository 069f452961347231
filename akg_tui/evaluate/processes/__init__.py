"""The judge's side of child processes: the pool, one worker, what is watched, and shared memory."""

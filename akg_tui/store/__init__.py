"""What outlives a process: the journal, attempt history, projections, tasks and runs on disk."""

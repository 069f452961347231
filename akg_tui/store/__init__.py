"""Data that outlives a process: journal, attempt history, projections, tasks and runs on disk."""

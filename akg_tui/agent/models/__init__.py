"""Models that can take the agent's part. Each is imported only when it is chosen."""

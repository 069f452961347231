"""Models that can act as the agent. Each is imported only when it is chosen."""

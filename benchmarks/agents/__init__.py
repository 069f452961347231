"""Which of two agents is better: `akg-tui bench agents`."""

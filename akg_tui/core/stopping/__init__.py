"""When a run stops: the automation policy, goals, limits, and how a person changes them."""

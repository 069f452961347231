"""The tools of the agent: what they are called, what they take, and what runs them."""

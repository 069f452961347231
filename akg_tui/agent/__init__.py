"""The agent: a ReAct loop over a chat model, and the tools, its only means to change a run."""

"""The agent: a ReAct loop over a chat model, and the tools through which alone it acts."""

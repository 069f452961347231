"""Memory across runs: what runs found, kept in a folder, and what of it concerns a new run.

Reads journals through `akg_tui.store` and writes only below the folder of the memory. Nothing here
is a fact of a run: what is recalled is told to the agent and measured again.
"""

"""The workbench in a terminal: first frame, keys, stalls of its loop, memory, the past."""

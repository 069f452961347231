"""akg_tui: a terminal workbench in which an agent tunes a compute kernel inside a state machine."""

__version__ = "0.1.0"

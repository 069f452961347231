"""The panes of the deck. Each shows one projection of a run and stores no state of the run."""

"""The panes of the deck. Each shows one projection of a run and holds none of its truth."""

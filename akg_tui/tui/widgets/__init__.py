"""Drawing surfaces that know lines, colours and keys, and nothing of a run."""

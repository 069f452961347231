"""The workbench: what a person sees of a run, and the keys they steer it with."""

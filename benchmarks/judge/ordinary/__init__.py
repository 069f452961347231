"""Kernels that cheat as a capable model would, by the principle that stops them; honest ones."""

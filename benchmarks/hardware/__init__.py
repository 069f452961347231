"""Proves a machine with an accelerator: `akg-tui bench hardware`."""

"""The judge on a device that is not the CPU: `tests/lab/device`."""

"""The judge on a device that is not the CPU: `benchmarks/lab/device`."""

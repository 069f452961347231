"""Builds the device, so that a machine pays for it once: `python -m benchmarks.lab.device`."""

from benchmarks.lab.device.library import built

print(built())

"""Builds the device, so that a machine pays for it once: `python -m tests.lab.device`."""

from tests.lab.device.library import built

print(built())

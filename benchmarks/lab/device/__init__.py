"""A device for tests that PyTorch does not take for the CPU: `labdev`, built from `device.cpp`.

Its memory can't be read by the host, its streams run later, and its faults are switched on by
tests.
"""

"""Benchmarks of the judge: false KEEPs, gains found, overhead, leaks."""

"""Benchmarks of the judge by the judge: its errors, its power, its overhead."""

"""Suites: many tasks under one policy, resumable, with results that can be compared."""

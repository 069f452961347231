"""The mechanical benchmark of edit formats: no model, only edits that a perfect writer sends.

Pure: files in memory, a seeded generator of chance, no clock but the caller's.
"""

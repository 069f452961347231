"""The mechanical benchmark of edit formats: no model, only edits that a perfect writer sends.

Pure: files in memory, a seeded random generator, the caller's clock. Only `command` prints.
"""

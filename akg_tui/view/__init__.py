"""The content of a screen or a report: rows, charts, diffs, words. No Textual."""

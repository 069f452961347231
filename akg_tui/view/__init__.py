"""The content of a screen, a plain stream or a report: rows, charts, diffs, words. No Textual."""

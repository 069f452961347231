"""What a screen, a plain stream or a report says: rows, charts, diffs, words. No Textual."""

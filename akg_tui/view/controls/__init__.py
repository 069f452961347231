"""What a person can do and choose, without Textual: commands, keys, approvals, layout."""

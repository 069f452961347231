"""Which key of a row was clicked: rows show keys with their labels, and a click calls them.

Pure: reads the spans of a line.
"""

from __future__ import annotations

from akg_tui.view.spans import Line, cells


def key_at(row: Line, column: int) -> tuple[str, str]:
    """Return the key at a column of a row and its label, for a click on either; "" for others."""
    start = 0
    key = ""
    for place, (text, role) in enumerate(row):
        end = start + cells(text)
        here = start <= column < end
        if role == "key":
            key = text
            if here:
                label = row[place + 1][0] if place + 1 < len(row) else ""
                return key, label.strip()
        elif here:
            return (key, text.strip()) if key and text.strip() else ("", "")
        else:
            key = ""
        start = end
    return "", ""

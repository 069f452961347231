"""Widgets that draw lines: the base classes of panes, and the small parts of screens."""

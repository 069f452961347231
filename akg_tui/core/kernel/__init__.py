"""Reads a kernel's text: its files, and the knobs that it declares. Pure."""

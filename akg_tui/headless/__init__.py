"""A run without the workbench: progress lines and JSON lines."""

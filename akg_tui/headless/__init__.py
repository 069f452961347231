"""A run without the workbench: progress lines, JSON lines, and the plain stream."""

"""The end of a run: the automation policy, goals, limits, reply phrases and the export guard."""

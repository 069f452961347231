"""The tools of the agent: their declarations, the code that runs them, and their rules.

The error for a bad definition is defined here, so that the start of a run can catch it without
loading the YAML reader, which only a task with tool files needs.
"""

from __future__ import annotations

from akg_tui.store.errors import BadFile


class BadTools(BadFile):
    """A file of tools has a definition that cannot be used."""

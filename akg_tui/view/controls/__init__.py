"""The controls of the workbench, without Textual: commands, keys, approvals, layout."""

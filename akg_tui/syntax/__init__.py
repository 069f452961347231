"""The syntax of kernel files: tree-sitter's grammars, and the roles that colour a text."""

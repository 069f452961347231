"""Short pages on what makes kernels fast, and the search in them.

Owns the pages in `pages/` and nothing else. Reads them once; writes nothing.
"""

from akg_tui.knowledge.library import BadPage, Found, Library, Page, library, read_page

__all__ = ["BadPage", "Found", "Library", "Page", "library", "read_page"]

"""Short pages on what makes kernels fast, and a search over them.

Owns only the pages in `pages/`. Reads each page once; writes nothing.
"""

from akg_tui.knowledge.library import (
    BadPage,
    Library,
    Page,
    library,
    read_page,
    read_user_page,
)

__all__ = ["BadPage", "Library", "Page", "library", "read_page", "read_user_page"]

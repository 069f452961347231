"""`knowledge`: prints the pages on what makes kernels fast, for a person at a terminal."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from akg_tui.cli.usage_error import EXIT_NOT_CORRECT, EXIT_OK, task_word


def add_knowledge(add: Callable[..., Any]) -> None:
    """Declare `knowledge`; `add` creates a command."""
    command = add("knowledge", _knowledge, "search the pages on fast kernels")
    command.add_argument("query", nargs="*", help="words, or a page's id; without any, all pages")
    command.add_argument("--dsl", type=task_word("Dsl"), metavar="DSL")
    command.add_argument(
        "--backend", default="", choices=["cpu", "cuda", "ascend"], metavar="BACKEND"
    )


def _knowledge(arguments: argparse.Namespace) -> int:
    from akg_tui.core.sanitize import one_line
    from akg_tui.knowledge import library

    shelf = library()
    query = " ".join(arguments.query)
    if page := shelf.page(query):
        print(page.whole())
        return EXIT_OK
    if query:
        pages = shelf.search(query, dsl=arguments.dsl or "", backend=arguments.backend, limit=10)
    else:
        pages = [p for p in shelf.pages if p.fits(arguments.dsl or "", arguments.backend)]
    if not pages:
        print(f"no page speaks of {one_line(query, 60)!r}; `akg-tui knowledge` lists all")
        return EXIT_NOT_CORRECT
    width = max(len(page.cited) for page in pages)
    for page in pages:
        print(f"{page.cited:<{width}}  {page.title}\n{'':<{width}}  {page.summary}")
    return EXIT_OK

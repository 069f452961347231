"""`knowledge` prints pages on fast kernels and what earlier runs found; `learn` remembers runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akg_tui.cli.usage_error import (
    EXIT_NOT_CORRECT,
    EXIT_OK,
    UsageError,
    print_json,
    task_word,
)

if TYPE_CHECKING:
    from akg_tui.knowledge import Page
    from akg_tui.memory.shelf import Shelf

MAX_LISTED = 10


def add_knowledge(add: Callable[..., Any]) -> None:
    """Declare `knowledge` and `learn`; `add` creates a command."""
    command = add("knowledge", _knowledge, "search the pages on fast kernels, and the memory")
    command.add_argument("query", nargs="*", help="words, or a page's id; without any, all pages")
    command.add_argument("--dsl", type=task_word("Dsl"), metavar="DSL")
    command.add_argument(
        "--backend", default="", choices=["cpu", "cuda", "ascend"], metavar="BACKEND"
    )
    command.add_argument(
        "--mine", action="store_true", help="what earlier runs found, and your own pages"
    )
    learn = add("learn", _learn, "remember what runs found, for later runs")
    learn.add_argument("folder", type=Path, metavar="RUN|DIR", help="a run, or a folder of runs")
    learn.add_argument("--json", action="store_true", help="print one JSON object a run")


def _knowledge(arguments: argparse.Namespace) -> int:
    from akg_tui.core.sanitize import one_line, split_clean
    from akg_tui.knowledge import Library
    from akg_tui.memory.lessons import page_of
    from akg_tui.memory.shelf import library_with, own_shelf

    dsl, query = arguments.dsl or "", " ".join(arguments.query)
    if arguments.mine:
        shelf = _own_shelf()
        memories, faults = shelf.read()
        pages, bad = shelf.pages()
        faults += bad
        shelves = Library([*pages, *map(page_of, memories)])
    else:
        shelves, faults = library_with(own_shelf())
    for fault in faults:
        print(f"akg-tui: {fault}", file=sys.stderr)
    if query and (page := shelves.page(query)):
        print("\n".join(split_clean(page.whole())))
        return EXIT_OK
    if query:
        found = shelves.search(query, dsl=dsl, backend=arguments.backend, limit=MAX_LISTED)
    else:
        found = [p for p in shelves.pages if p.fits(dsl, arguments.backend)]
    if not found:
        print(_nothing(one_line(query, 60), mine=arguments.mine))
        return EXIT_NOT_CORRECT
    _list(found)
    return EXIT_OK


def _nothing(query: str, *, mine: bool) -> str:
    if mine and not query:
        return "the memory is empty; a run is remembered at its end, or by `akg-tui learn RUN`"
    more = " --mine" if mine else ""
    return f"no page speaks of {query!r}; `akg-tui knowledge{more}` lists all"


def _list(pages: Sequence[Page]) -> None:
    from akg_tui.core.sanitize import one_line

    width = min(60, max(len(page.cited) for page in pages))
    for page in pages:
        print(f"{one_line(page.cited):<{width}}  {one_line(page.title)}")
        print(f"{'':<{width}}  {one_line(page.summary)}")


def _own_shelf() -> Shelf:
    from akg_tui.memory.memory_config import VARIABLE
    from akg_tui.memory.shelf import own_shelf

    shelf = own_shelf()
    if shelf is None:
        raise UsageError(f"the memory is switched off by {VARIABLE}=off")
    return shelf


def _learn(arguments: argparse.Namespace) -> int:
    from akg_tui.core.sanitize import one_line
    from akg_tui.memory.shelf import learn_run
    from akg_tui.store.errors import RunFolderError, StoreError
    from akg_tui.store.run_list import JOURNAL, find_runs

    folder, shelf = arguments.folder, _own_shelf()
    if (folder / JOURNAL).is_file():
        runs = [folder]
    elif folder.is_dir():
        runs = list(find_runs(folder))
    else:
        raise RunFolderError(f"{folder}: is neither a run nor a folder of runs")
    if not runs:
        raise UsageError(f"{folder}: there is no run at or below it")
    faults = 0
    for run in runs:
        try:
            done = learn_run(shelf, run)
        except StoreError as error:
            if len(runs) == 1:
                raise
            faults += 1
            print(f"akg-tui: {error}", file=sys.stderr)
            continue
        if arguments.json:
            print_json("run_learned", run=str(run), outcome=done)
        else:
            print(f"{one_line(str(run))}: {done}")
    return EXIT_NOT_CORRECT if faults else EXIT_OK

"""`knowledge` prints pages on fast kernels; `learn` what earlier runs found, and your own pages."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from akg_tui.cli.usage_error import (
    EXIT_NOT_CORRECT,
    EXIT_OK,
    UsageError,
    fail,
    print_json,
    read_text,
    word_of,
)

if TYPE_CHECKING:
    from akg_tui.knowledge import Page
    from akg_tui.memory.lessons import RunMemory
    from akg_tui.memory.shelf import Shelf

MAX_LISTED = 10


def add_knowledge(add: Callable[..., Any]) -> None:
    """Declare `knowledge`; `add` creates a command."""
    command = add("knowledge", _knowledge, "search the pages on fast kernels")
    command.add_argument("query", nargs="*", help="words, or a page's id; without any, all pages")
    command.add_argument("--dsl", type=word_of("Dsl"), metavar="DSL")
    command.add_argument(
        "--backend", default="", choices=["cpu", "cuda", "ascend"], metavar="BACKEND"
    )


def add_learn(add: Callable[..., Any]) -> None:
    """Declare `learn` and its verbs; `add` creates a command."""
    learn = add("learn", _learn, "remember what runs found, for later runs")
    learn.add_argument("folder", type=Path, metavar="RUN|DIR", help="a run, or a folder of runs")
    learn.add_argument("--json", action="store_true", help="print one JSON object a run")
    listed = add("learn list", _list_learned, "list what runs found and your own pages")
    listed.add_argument("query", nargs="*", help="words to search for; without any, all")
    listed.add_argument("--json", action="store_true", help="print one JSON object a page")
    show = add("learn show", _show, "print a page of what runs found, or of your own")
    edit = add("learn edit", _edit, "change a page in $EDITOR, or write one of your own")
    delete = add("learn delete", _delete, "show a page that would be deleted; --yes deletes it")
    for command in (show, edit, delete):
        command.add_argument("page", metavar="ID", help="run/NAME of a run, mine/NAME of your own")
    edit.add_argument("--from", dest="source", type=Path, metavar="FILE", help="the new text")
    delete.add_argument("--yes", action="store_true", help="delete it")


def _knowledge(arguments: argparse.Namespace) -> int:
    from akg_tui.core.sanitize import one_line, split_clean
    from akg_tui.memory.shelf import library_with, own_shelf

    dsl, query = arguments.dsl or "", " ".join(arguments.query)
    shelves, faults = library_with(own_shelf())
    _tell_skipped(faults)
    if query and (page := shelves.page(query)):
        print("\n".join(split_clean(page.whole())))
        return EXIT_OK
    if query:
        found = shelves.search(query, dsl=dsl, backend=arguments.backend, limit=MAX_LISTED)
    else:
        found = [p for p in shelves.pages if p.fits(dsl, arguments.backend)]
    if not found:
        print(f"no page speaks of {one_line(query, 60)!r}; `akg-tui knowledge` lists all")
        return EXIT_NOT_CORRECT
    _list(found)
    return EXIT_OK


def _tell_skipped(faults: Sequence[str]) -> None:
    for fault in faults:
        print(f"akg-tui: {fault}", file=sys.stderr)


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


def _learned(shelf: Shelf) -> tuple[list[Page], dict[str, RunMemory]]:
    """Return all pages, and the memories of runs by the id of their page."""
    from akg_tui.memory.run_page import page_of

    memories, faults = shelf.read()
    pages, bad = shelf.pages()
    _tell_skipped([*faults, *bad])
    of_runs = [(page_of(memory), memory) for memory in memories]
    own = {page.id: memory for page, memory in of_runs}
    return [*pages, *(page for page, _ in of_runs)], own


def _list_learned(arguments: argparse.Namespace) -> int:
    from akg_tui.core.sanitize import one_line
    from akg_tui.knowledge import Library

    pages, _ = _learned(_own_shelf())
    query = " ".join(arguments.query)
    if query:
        found = Library(pages).search(query, limit=MAX_LISTED)
    else:  # by operator and DSL
        found = sorted(pages, key=lambda page: (page.title, page.id))
    if arguments.json:
        for page in found:
            print_json("page", id=page.cited, title=page.title, summary=page.summary)
    elif found:
        _list(found)
    elif query:
        print(f"no page speaks of {one_line(query, 60)!r}; `akg-tui learn list` lists all")
    else:
        print("the memory is empty; a run is remembered at its end, or by `akg-tui learn RUN`")
    return EXIT_OK if found else EXIT_NOT_CORRECT


def _named(
    arguments: argparse.Namespace, shelf: Shelf, *, new: bool = False
) -> tuple[str, Path | RunMemory, str]:
    """Return the id of the page asked for, its file or its run's memory, and its text.

    `new`: the file of a page of the user need not exist; its text is then "".
    """
    from akg_tui.core.sanitize import one_line
    from akg_tui.knowledge import BadPage
    from akg_tui.knowledge.library import MARK, MINE
    from akg_tui.memory.run_page import page_of

    wanted = arguments.page.removeprefix(MARK)
    if wanted.startswith(MINE):
        try:
            path = shelf.page_path(wanted.removeprefix(MINE))
            if new or path.exists():
                return wanted, path, shelf.page_text(path)
        except BadPage as error:
            fail(error)
    for memory in shelf.read()[0]:
        page = page_of(memory)
        if page.id == wanted:
            return wanted, memory, page.body
    name = one_line(wanted, 150)
    raise UsageError(f"{name}: there is no such page; akg-tui learn list names them")


def _show(arguments: argparse.Namespace) -> int:
    from akg_tui.core.sanitize import split_clean

    _, _, text = _named(arguments, _own_shelf())
    print("\n".join(split_clean(text)).rstrip("\n"))
    return EXIT_OK


def _edit(arguments: argparse.Namespace) -> int:
    shelf = _own_shelf()
    name, what, text = _named(arguments, shelf, new=True)
    source = arguments.source or _edited(name, text, ".md" if isinstance(what, Path) else ".toml")
    new = read_text(source)
    if new == text:
        print(f"{name}: nothing was changed")
    else:
        _keep(shelf, what, new, source)
        print(f"{name}: changed")
    if arguments.source is None:  # kept after a fault, whose line it has
        source.unlink()
    return EXIT_OK


def _keep(shelf: Shelf, what: Path | RunMemory, text: str, source: Path) -> None:
    from akg_tui.knowledge import BadPage
    from akg_tui.memory.run_page import memory_of

    if not isinstance(what, Path):
        shelf.replace(what, memory_of(text, source, what))
        return
    try:
        shelf.keep_page(what, text, source)
    except BadPage as error:
        fail(error)


def _edited(name: str, text: str, ending: str) -> Path:
    """Let the user change a text in the editor; return the file that has it."""
    import shlex
    import subprocess
    import tempfile

    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        raise UsageError("no editor is named by VISUAL or EDITOR; give --from FILE")
    handle, path = tempfile.mkstemp(ending, "akg-learn-")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    status = subprocess.run([*shlex.split(command), path], check=False).returncode
    if status:
        raise UsageError(f"{name}: unchanged, as the editor ended with {status}; text: {path}")
    return Path(path)


def _delete(arguments: argparse.Namespace) -> int:
    shelf = _own_shelf()
    name, what, _ = _named(arguments, shelf)
    if not arguments.yes:
        _show(arguments)
        print(f"nothing was deleted; delete it with: akg-tui learn delete {quote(name)} --yes")
        return EXIT_OK
    if isinstance(what, Path):
        what.unlink()
    else:
        shelf.forget(what)
    print(f"{name}: deleted")
    return EXIT_OK


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

"""The folder of the memory: one file a run, named by run and content, and the user's pages.

Writers need no lock: a file is written under a name of its own and then appears whole, so several
runs can be learned at once and a killed writer leaves nothing that is read. A file whose content
does not fit its name, or that cannot be read as a memory, is skipped and told in one line.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import RunState
from akg_tui.knowledge import BadPage, Library, Page, library, read_user_page
from akg_tui.memory.lessons import BadMemory, RunMemory, decode, encode, learned
from akg_tui.memory.memory_config import memory_settings
from akg_tui.store.errors import writing
from akg_tui.store.filesystem import open_below, replace_file
from akg_tui.store.run_at_rest import RunAtRest

RUNS, PAGES = "runs", "pages"
MAX_FILES = 2_000
MAX_FILE = 1 << 20
MAX_PAGES = 200
MAX_PAGE = 32 << 10

_NAME = re.compile(r"^(?P<run>[\w.-]+)\.(?P<identity>[0-9a-f]{12})\.(?P<sha>[0-9a-f]{16})\.jsonl$")


class Shelf:
    """The memory in `folder`, which need not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def learn(self, state: RunState, kernel: Callable[[str], KernelFiles]) -> bool:
        """Keep what a run teaches so far; return False if there is nothing new.

        `kernel` returns the kernel of an object id. Raises `RunFolderError` if it cannot be
        written, and what `kernel` raises.
        """
        found = learned(state, kernel)
        return found is not None and self.keep(found)

    def keep(self, memory: RunMemory) -> bool:
        """Keep the memory of a run, and remove those of this run of a lower rank.

        Return False if one of a higher rank is there, or this one. Raises `RunFolderError`.
        """
        facts, data = memory.facts, encode(memory)
        digest = hashlib.sha256(data).hexdigest()[:16]
        path = self.folder / RUNS / f"{facts.run}.{facts.identity}.{digest}.jsonl"
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            others = {
                other: known.facts.rank
                for other in self._of(facts.identity)
                if (known := _memory(other, [])) is not None
            }
            if max(others.values(), default=facts.rank) > facts.rank:
                return False
            written = replace_file(path, data, alone=False)
            for other, rank in others.items():
                if rank < facts.rank:
                    other.unlink(missing_ok=True)
        return written

    def replace(self, memory: RunMemory, new: RunMemory) -> None:
        """Keep a changed memory in place of `memory`. Raises `RunFolderError`."""
        older = set(self._of(memory.facts.identity))
        if self.keep(new):
            with writing(self.folder / RUNS):
                for path in older:
                    path.unlink(missing_ok=True)

    def forget(self, memory: RunMemory) -> None:
        """Remove the memory of a run. Raises `RunFolderError`."""
        with writing(self.folder / RUNS):
            for path in self._of(memory.facts.identity):
                path.unlink(missing_ok=True)

    def _of(self, identity: str) -> Iterator[Path]:
        return (self.folder / RUNS).glob(f"*.{identity}.*.jsonl")

    def page_path(self, name: str) -> Path:
        """Return the file of a page of the user. Raises `BadPage` for what can be no name."""
        if not re.fullmatch(r"[\w-][\w.-]{0,127}", name):
            raise BadPage(f"{name[:60]!r} can be no page's name: use letters, digits, _ - and .")
        return self.folder / PAGES / f"{name}.md"

    def page_text(self, path: Path) -> str:
        """Return the text of a page of the user, "" if it is not there.

        Raises `BadPage` for a file that is not UTF-8 text, and `OSError`.
        """
        try:
            return _bytes(path, MAX_PAGE).decode()
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError as error:
            raise BadPage(f"{path}: not UTF-8 text at byte {error.start}") from None

    def keep_page(self, path: Path, text: str, source: Path) -> None:
        """Write a page of the user; `source` names the text in a `BadPage`.

        Raises `RunFolderError`, too.
        """
        if len(data := text.encode()) > MAX_PAGE:
            raise BadPage(f"{source}: has more than {MAX_PAGE} bytes")
        read_user_page(str(source), text)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, data, alone=False)

    def read(self) -> tuple[list[RunMemory], list[str]]:
        """Return the memory of each run, the newest run first, and a line for each file skipped."""
        faults: list[str] = []
        found: dict[str, RunMemory] = {}
        for path in _newest(self.folder / RUNS, ".jsonl", MAX_FILES, faults):
            memory = _memory(path, faults)
            if memory is None:
                continue
            known = found.get(memory.facts.identity)
            if known is None or known.facts.rank < memory.facts.rank:
                found[memory.facts.identity] = memory
        return sorted(found.values(), key=lambda each: -each.facts.at), faults

    def pages(self) -> tuple[list[Page], list[str]]:
        """Return the user's pages, and a line for each file that is none."""
        faults: list[str] = []
        pages: list[Page] = []
        for path in _newest(self.folder / PAGES, ".md", MAX_PAGES, faults):
            try:
                pages.append(read_user_page(path.stem, _bytes(path, MAX_PAGE).decode()))
            except OSError as error:
                faults.append(_fault(path, error.strerror or ""))
            except (BadPage, UnicodeDecodeError) as error:
                faults.append(_fault(path, str(error)))
        return pages, faults


def learn_run(shelf: Shelf, run: Path) -> str:
    """Learn the run in a folder, and return the outcome in words. Raises `StoreError`."""
    at_rest = RunAtRest(run)
    if learned(at_rest.state, lambda blob: KernelFiles({"": ""})) is None:
        return "nothing was measured but its seed"
    return "learned" if shelf.learn(at_rest.state, at_rest.kernel) else "known already"


def own_shelf() -> Shelf | None:
    """Return the memory that the user's settings name; None if they switch it off."""
    settings = memory_settings()
    return Shelf(settings.folder) if settings.on else None


def library_with(shelf: Shelf | None) -> tuple[Library, list[str]]:
    """Return our pages and the user's, and a line for each file that is no page."""
    ours = library()
    pages, faults = shelf.pages() if shelf else ([], [])
    return (Library([*ours.pages, *pages]) if pages else ours), faults


def _newest(folder: Path, ending: str, most: int, faults: list[str]) -> list[Path]:
    """Return the visible files of a folder with this ending, the newest first."""
    ages: dict[Path, float] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(ending) and not entry.name.startswith("."):
                    with contextlib.suppress(FileNotFoundError):  # replaced by a newer file
                        ages[Path(entry)] = entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return []
    except OSError as error:
        faults.append(_fault(folder, error.strerror or ""))
        return []
    ordered = sorted(ages, key=lambda path: (-ages[path], path.name))
    if len(ordered) > most:
        faults.append(_fault(folder, f"{len(ordered)} files; the newest {most} are read"))
    return ordered[:most]


def _memory(path: Path, faults: list[str]) -> RunMemory | None:
    named = _NAME.match(path.name)
    try:
        if named is None:
            raise BadMemory("its name is not RUN.IDENTITY.DIGEST.jsonl")
        data = _bytes(path, MAX_FILE)
        if hashlib.sha256(data).hexdigest()[:16] != named["sha"]:
            raise BadMemory("its content is not what its name says")
        memory = decode(data)
        if memory.facts.identity != named["identity"]:
            raise BadMemory("1: identity: is not the one in its name")
    except FileNotFoundError:  # replaced by a newer file meanwhile
        return None
    except OSError as error:
        faults.append(_fault(path, error.strerror or ""))
        return None
    except BadMemory as error:
        faults.append(_fault(path, str(error)))
        return None
    return memory


def _bytes(path: Path, most: int) -> bytes:
    """Return the bytes of a regular file that is no link. Raises `OSError`."""
    with os.fdopen(open_below(path.parent, path.name, os.O_RDONLY), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"has more than {most} bytes", str(path))
    return data


def _fault(path: Path, why: str) -> str:
    return one_line(f"{path}: skipped: {why}", 400)

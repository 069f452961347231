"""The tasks of a suite: found in folders, by patterns, or listed in a manifest.

Reads names and manifests only. Whether a task can be used is found out when its turn comes, so that
one broken task does not keep the others from being run.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from akg_tui.core.sanitize import check_name, one_line
from akg_tui.problems.formats import is_problem, problems_in
from akg_tui.store.errors import BadTask
from akg_tui.store.filesystem import is_file, is_folder, unseen
from akg_tui.store.task_folder import TASK_FILE, file_text
from akg_tui.store.user_files.reader import Unsound, UserFile, convert, toml_file

RECORD = "suite.json"
"""The file that makes a folder a suite's (`suite_record`)."""

MANIFEST_SUFFIX = ".toml"
_LONGEST = 100
_LEFT_OUT = ("runs", "__pycache__")


class Resources(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a task's run needs of a cluster's node, in the words of Ray.

    None for `num_cpus` or `num_gpus`: what the task's target and threads need.
    """

    num_cpus: Annotated[float, Meta(ge=0)] | None = None
    num_gpus: Annotated[float, Meta(ge=0)] | None = None
    resources: dict[str, Annotated[float, Meta(ge=0)]] = {}
    labels: dict[str, str] = {}


class Source(Struct, frozen=True, kw_only=True):
    """A task of the suite: `path` is a task folder or a problem, `name` unlike all others.

    `fault`: why it cannot be used, as far as the list tells; `FILE:LINE: what is wrong`.
    """

    name: str
    path: str
    format: str = ""
    sizes: dict[str, int | float] = {}
    needs: Resources = Resources()
    fault: str = ""

    def __post_init__(self) -> None:
        check_name("name", self.name)

    @property
    def is_task_folder(self) -> bool:
        return is_file(Path(self.path) / TASK_FILE)


class _Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[tasks]]` of a manifest. `path` is relative to the manifest."""

    path: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(pattern=r"^[\w.-]{1,100}\Z")] = ""
    format: str = ""
    sizes: dict[str, int | float] = {}
    needs: Resources = Resources()

    def __post_init__(self) -> None:
        if self.name:
            check_name("name", self.name)


class _Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """A manifest. Its rows are read one by one: a faulty one does not keep the others away."""

    tasks: Annotated[tuple[Any, ...], Meta(min_length=1)]


def find_tasks(
    words: Sequence[str], only: Sequence[str] = (), skip: Sequence[str] = ()
) -> list[Source]:
    """Return the tasks that `words` name: folders, files, patterns and manifests.

    `only` and `skip` are patterns of names, as in a shell.

    Raises `BadTask` if a word names nothing, a manifest cannot be read, or no task is left.
    """
    found = [source for word in words for source in _named(word)]
    named = _unlike(found)
    if only:
        named = [each for each in named if _matches(each.name, only)]
    named = [each for each in named if not _matches(each.name, skip)]
    if not named:
        what = "no task of these names" if found else "no task and no problem"
        raise BadTask(Path(words[0]), None, "", f"{what} in it")
    return named


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _named(word: str) -> list[Source]:
    path = Path(word)
    if why := unseen(path):
        raise BadTask(path, None, "", f"cannot be looked at: {why}")
    if path.exists():
        return _at(path)
    if glob.has_magic(word):
        # `Path.glob` takes no absolute pattern.
        matches = [Path(match) for match in sorted(glob.glob(word, recursive=True))]  # noqa: PTH207
        matches = [match for match in matches if match.name not in _LEFT_OUT]
        return [source for match in matches for source in _at(match)]
    raise BadTask(path, None, "", "does not exist, expected a folder, a pattern or a manifest")


def _at(path: Path) -> list[Source]:
    if path.suffix == MANIFEST_SUFFIX and path.is_file():
        return list(_manifest(path))
    if path.is_dir() and not is_file(path / TASK_FILE) and not is_problem(path):
        return [_source(path, below) for below in _tasks_below(path)]
    return [_source(path.parent, path)]


def _tasks_below(folder: Path) -> list[Path]:
    """Return the task folders and problems below a folder; what is in a task belongs to it.

    What is in a suite's folder is the suite's.
    """
    suites = {path.parent for path in folder.rglob(RECORD)}
    tasks = {path.parent for path in folder.rglob(TASK_FILE) if _counts(path.relative_to(folder))}
    problems = [path for path in problems_in(folder) if _counts(path.relative_to(folder))]
    problems = [path for path in problems if not tasks & {path, *path.parents}]
    return sorted(path for path in (*tasks, *problems) if not suites & {path, *path.parents})


def _counts(path: Path) -> bool:
    return not any(part in _LEFT_OUT or part.startswith(".") for part in path.parts)


def _source(root: Path, path: Path) -> Source:
    inside = path.resolve() if path == root else path.relative_to(root)
    parts = inside.parts if path != root else (inside.name,)
    name = "-".join(parts)
    if is_file(path):
        name = name.removesuffix(path.suffix)
    place, fault = str(path.absolute()), ""
    try:
        place.encode()
    except UnicodeEncodeError:  # no record could hold such a name
        place = one_line(place)
        fault = f"{place}: has a name that is not UTF-8"
    return Source(name=_safe(name), path=place, fault=fault)


def _safe(name: str) -> str:
    """Return a name that a folder may have."""
    return re.sub(r"[^\w.-]", "_", name).lstrip(".-")[:_LONGEST] or "task"


def _unlike(found: Iterable[Source]) -> list[Source]:
    """Return the sources with names unlike each other; the same path counts once."""
    named: dict[str, Source] = {}
    paths: set[tuple[str, str]] = set()
    for source in found:
        # Two rows of a manifest may have the same path and other sizes.
        key = source.path, repr(sorted(source.sizes.items()))
        if key in paths and not source.fault:
            continue
        paths.add(key)
        name, number = source.name, 1
        while name in named:
            number += 1
            name = f"{source.name[: _LONGEST - 4]}-{number}"
        named[name] = replace(source, name=name)
    return list(named.values())


def _manifest(path: Path) -> Iterator[Source]:
    """Yield the tasks of a manifest; a row that cannot be used is a source with a fault.

    Raises `BadTask` if the file itself cannot be read.
    """
    file = toml_file(path, file_text(path), BadTask)
    for number in range(len(file.read(_Manifest).tasks)):
        yield _row(file, number)


def _row(file: UserFile, number: int) -> Source:
    path, at = file.path, ("tasks", str(number))
    try:
        row = convert(file.plain["tasks"][number], _Row)
    except Unsound as unsound:
        field, why = unsound.faults[0]
        fault = str(file.bad((*at, *field), why))
        return Source(name=f"row-{number + 1}", path=str(path.absolute()), fault=fault)
    place_of = (path.parent / row.path).absolute()
    name = row.name or _source(place_of.parent, place_of).name
    fault = ""
    is_task = is_folder(place_of) and (is_file(place_of / TASK_FILE) or is_problem(place_of))
    if not is_task and not is_file(place_of):
        why = f"{row.path!r} is no task folder and no problem"
        fault = str(file.bad((*at, "path"), why))
    return Source(
        name=name,
        path=str(place_of),
        format=row.format,
        sizes=row.sizes,
        needs=row.needs,
        fault=fault,
    )

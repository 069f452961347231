"""RUN/history.git: the exact bytes of every attempt, in a separate bare repository.

Objects are written first, without a ref; the line in the journal makes them count; refs are
projections that can be set again. Only this module touches git, and never the user's own
repository. Importing it is cheap: pygit2 is loaded when a history is opened.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from akg_tui.core.kernel.kernel_files import Kernel, KernelFiles, files_of
from akg_tui.core.measurement import Interval
from akg_tui.core.sanitize import one_line
from akg_tui.core.task import Editable, names_of
from akg_tui.store.errors import HistoryError
from akg_tui.store.filesystem import ODD, odd_entry, replace_file, sync_folder, sync_tree
from akg_tui.store.lock import RunLock

if TYPE_CHECKING:
    import pygit2

BEST = "refs/heads/best"
ATTEMPTS = "refs/akg/attempts/"
SUBJECT_WIDTH = 100
_REF = re.compile(rb"[0-9a-f]{40}\n?")
_ID = re.compile(r"[0-9a-f]{40}")
_FIXED = {
    "HEAD": b"ref: refs/heads/best\n",
    "config": b"[core]\n\tbare = true\n\trepositoryformatversion = 0\n\tfilemode = true\n",
}
_AUTHOR = "akg-tui <akg-tui@localhost>"

Kind = Literal["blob", "tree", "commit"]


class History:
    """The attempts of one run. `kernel_file` names the kernel in every commit's tree.

    The id of a kernel is that of its blob, or, of several files, that of the tree of their blobs:
    one id stands for all files.
    """

    def __init__(self, path: Path, repository: pygit2.Repository, kernel_file: Editable) -> None:
        self.path = path
        self._names = names_of(kernel_file)
        self._repository = repository
        self._durable: set[str] = set()
        names = [name for name in repository.references if name.startswith("refs/")]
        self._refs = {name: str(repository.references[name].target) for name in names}

    @classmethod
    def create(cls, path: Path, *, kernel_file: Editable) -> History:
        """Create the bare repository; its HEAD is the branch `best`. Raises `HistoryError`."""
        pygit2 = _load_pygit2()
        try:
            repository = pygit2.init_repository(path, bare=True, initial_head="best")
            sync_tree(path)
        except (pygit2.GitError, OSError) as error:
            raise HistoryError(f"cannot make {path}: {error}") from error
        return cls(path, repository, kernel_file)

    @classmethod
    def open(cls, path: Path, *, kernel_file: Editable, lock: RunLock | None = None) -> History:
        """Open the repository; with the run's lock, first remove the leftovers of a killed writer.

        Raises `HistoryError` if there is no readable repository.
        """
        pygit2 = _load_pygit2()
        try:
            _check_own(path)
            if lock is not None and lock.held:
                _mend(path)
            _check_config(path / "config")
            repository = pygit2.Repository(str(path), pygit2.enums.RepositoryOpenFlag.NO_SEARCH)
            return cls(path, repository, kernel_file)
        except (pygit2.GitError, KeyError, ValueError, OSError) as error:
            raise HistoryError(f"cannot open the attempt history {path}: {error}") from error

    def write_kernel(self, kernel: Kernel) -> str:
        """Store a kernel durably; return the object id."""
        texts = files_of(kernel, self._names[0]).texts
        return self.write_files({name: text.encode() for name, text in texts.items()})

    def write_files(self, contents: Mapping[str, bytes]) -> str:
        """Store the bytes of a kernel's files durably; return the object id.

        The blobs of several files are stored before the tree that names them, so the id of a tree
        never stands for a part of its files.
        """
        oid = ""
        for kind, each in _objects(contents):
            oid = self._write(kind, each)
        return oid

    def read_kernel(self, oid: str) -> KernelFiles:
        """Return the kernel of an object id. Raises `HistoryError` when it is lost."""
        contents = self.read_files(oid)
        return KernelFiles({n: data.decode(errors="replace") for n, data in contents.items()})

    def read_files(self, oid: str) -> dict[str, bytes]:
        """Return the bytes of a kernel's files. Raises `HistoryError` when they are lost."""
        kind, data = self._read(oid)
        if kind != ("tree" if len(self._names) > 1 else "blob"):
            raise HistoryError(f"{self.path}: {oid} is a {kind}, not a kernel")
        if kind == "blob":
            return {self._names[0]: data}
        files = self._files(oid, data)
        contents: dict[str, bytes] = {}
        for name in self._names:
            kind, contents[name] = self._read(files[name])
            if kind != "blob":
                raise HistoryError(f"{self.path}: {name} of {oid} is a {kind}, not a file")
        return contents

    def _files(self, tree: str, data: bytes) -> dict[str, str]:
        """Return the ids of the files in a tree, by their names, which are those of the run."""
        files = dict(_entries(data))
        wanted = b"".join(_entry(name, files.get(name, "")) for name in sorted(self._names))
        if data != wanted:
            raise HistoryError(f"{self.path}: {tree} has other files than the run")
        return files

    def holds(self, oid: str) -> bool:
        """Return whether an object can be read."""
        try:
            self._read(oid)
        except HistoryError:
            return False
        return True

    def read_commit(self, oid: str) -> tuple[bytes, bytes, dict[str, bytes]]:
        """Return the bytes of a commit, its tree and the kernel's files. Raises `HistoryError`."""
        kind, data = self._read(oid)
        if kind != "commit":
            raise HistoryError(f"{self.path}: {oid} is a {kind}, not a commit")
        tree = data.split(b"\n", 1)[0].removeprefix(b"tree ").decode("ascii", "replace")
        _, entries = self._read(tree)
        files = self._files(tree, entries)
        kernel = self.read_files(tree if len(files) > 1 else files[self._names[0]])
        return data, entries, kernel

    def commit(self, blob: str, parent: str | None, message: str, at: float) -> str:
        """Store a commit of this kernel, without any ref. `at` is seconds since the epoch.

        Equal arguments produce equal ids, so a commit repeated after a crash is identical.
        """
        tree = blob
        if len(self._names) == 1:
            tree = self._write("tree", _entry(self._names[0], blob))
        signature = f"{_AUTHOR} {int(at)} +0000"
        lines = [f"tree {tree}"]
        if parent is not None:
            lines.append(f"parent {parent}")
        lines += [f"author {signature}", f"committer {signature}", "", message]
        return self._write("commit", "\n".join(lines).encode())

    def copy_commit(self, source: History, oid: str) -> None:
        """Copy a commit of another history, with its tree and its kernel.

        Its parent is not followed: copy that first. Raises `HistoryError`.
        """
        data, entries, kernel = source.read_commit(oid)
        self.write_files(kernel)
        self._write("tree", entries)
        self._write("commit", data)

    def set_best(self, commit: str) -> None:
        """Point `best` at this commit."""
        self._set(BEST, commit)

    def set_attempt(self, number: int, commit: str) -> None:
        """Set the ref of an attempt to this commit, which also protects it from git's garbage
        collection."""
        self._set(f"{ATTEMPTS}{number}", commit)

    def refs(self) -> dict[str, str]:
        """Return every ref with the commit that it points at."""
        return dict(self._refs)

    @staticmethod
    def message_for(
        subject: str,
        round_number: int = 0,
        item: str = "",
        verdict: str = "",
        ratio: Interval | None = None,
    ) -> str:
        """Return a commit message: the subject, and one line for each trailer with a value."""
        trailers = {
            "Round": str(round_number),
            "Item": item,
            "Verdict": verdict,
            "Ratio": str(ratio) if ratio else "",
        }
        told = [f"{name}: {one_line(value)}" for name, value in trailers.items() if value]
        return "\n".join([one_line(subject, SUBJECT_WIDTH) or "attempt", "", *told]) + "\n"

    def _set(self, name: str, commit: str) -> None:
        if self._refs.get(name) == commit:
            return
        self.read_commit(commit)
        pygit2 = _load_pygit2()
        try:
            self._repository.references.create(name, commit, force=True)
        except (pygit2.GitError, ValueError, KeyError, OSError) as error:
            raise HistoryError(f"{self.path}: cannot point {name} at {commit}: {error}") from error
        self._refs[name] = commit

    def _loose(self, oid: str) -> Path:
        return self.path / "objects" / oid[:2] / oid[2:]

    def _read(self, oid: str) -> tuple[str, bytes]:
        """Return an object's kind and bytes, checked against its id.

        Loose objects are unpacked here: libgit2 1.9 loops forever on an object that was truncated
        after its zlib header.
        """
        if not _ID.fullmatch(oid):
            raise HistoryError(f"{self.path}: {one_line(oid, 60)} is no object id")
        if self._loose(oid).exists():
            try:
                frame, _, data = zlib.decompress(self._loose(oid).read_bytes()).partition(b"\0")
            except (OSError, zlib.error) as error:
                raise HistoryError(f"{self.path}: object {oid} is lost: {error}") from error
            kind = frame.partition(b" ")[0].decode("ascii", "replace")
            if object_id(kind, data) != oid:
                raise HistoryError(f"{self.path}: object {oid} is lost: its content is another's")
            return kind, data
        pygit2 = _load_pygit2()
        try:
            number, data = self._repository.odb.read(oid)
        except (pygit2.GitError, KeyError, ValueError, OSError) as error:
            raise HistoryError(f"{self.path}: object {oid} is not there") from error
        return pygit2.enums.ObjectType(number).name.lower(), data

    def _write(self, kind: Kind, data: bytes) -> str:
        """Store one object. An existing object that cannot be read is written again.

        libgit2 accepts an existing file as the object, whatever its content, so a file left empty
        by a power loss has to be removed first.
        """
        pygit2 = _load_pygit2()
        oid = object_id(kind, data)
        try:
            if self._loose(oid).exists() and not self.holds(oid):
                self._loose(oid).unlink()
            if not self._loose(oid).exists():
                self._repository.odb.write(pygit2.enums.ObjectType[kind.upper()], data)
            # An object's name is made durable here, with its folder, which libgit2 does not fsync.
            # So is the name of an existing object: its writer may have died before the fsync.
            if oid not in self._durable and self._loose(oid).exists():  # else git has it in a pack
                sync_folder(self._loose(oid).parent)
                sync_folder(self._loose(oid).parent.parent)
                self._durable.add(oid)
        except (pygit2.GitError, ValueError, OSError) as error:
            raise HistoryError(f"{self.path}: cannot store a {kind}: {error}") from error
        return oid


def object_id(kind: str, data: bytes) -> str:
    """Return the id of this object in git, stored or not; a kernel is a "blob"."""
    frame = f"{kind} {len(data)}".encode() + b"\0"
    return hashlib.sha1(frame + data, usedforsecurity=False).hexdigest()


def kernel_id(contents: Mapping[str, bytes]) -> str:
    """Return the id of a kernel's files, stored or not."""
    *_, (kind, last) = _objects(contents)
    return object_id(kind, last)


def _objects(contents: Mapping[str, bytes]) -> Iterator[tuple[Kind, bytes]]:
    """Yield the objects of a kernel's files; the id of the last one is that of the kernel."""
    for content in contents.values():
        yield "blob", content
    if len(contents) > 1:
        entries = [_entry(name, object_id("blob", contents[name])) for name in sorted(contents)]
        yield "tree", b"".join(entries)


def _entry(name: str, blob: str) -> bytes:
    return b"100644 " + name.encode() + b"\0" + bytes.fromhex(blob)


def _entries(tree: bytes) -> Iterator[tuple[str, str]]:
    """Yield the name and the object id of each entry of a tree."""
    while tree:
        head, _, rest = tree.partition(b"\0")
        yield head.partition(b" ")[2].decode(errors="replace"), rest[:20].hex()
        tree = rest[20:]


def library_version() -> str:
    """Return the versions of pygit2 and its libgit2."""
    pygit2 = _load_pygit2()
    return f"pygit2 {pygit2.__version__} with libgit2 {pygit2.LIBGIT2_VERSION}"


def _load_pygit2() -> ModuleType:
    import pygit2

    # Process-wide, and cheap to repeat: objects and refs are fsynced as they are written.
    pygit2.option(pygit2.enums.Option.ENABLE_FSYNC_GITDIR, True)
    return pygit2


_ELSEWHERE = ("commondir", "gitdir", "objects/info/alternates", "objects/info/http-alternates")
_OUR_LINE = re.compile(
    rb"\s*([#;].*|\[core\]|(bare|repositoryformatversion|filemode|symlinks|ignorecase"
    rb"|precomposeunicode|logallrefupdates)\s*=\s*[\w-]+)?\s*",
    re.IGNORECASE,
)


def _check_own(path: Path) -> None:
    """Refuse a repository that leads to another one. Raises `HistoryError` and `OSError`."""
    if path.is_symlink() or path.is_file():
        raise HistoryError(f"{path}: leads to another repository")
    if not path.is_dir():
        return  # opening it says so
    if odd := odd_entry(path, lambda _: False):
        raise HistoryError(f"{path / odd}: {ODD}")
    for name in _ELSEWHERE:
        if (path / name).exists():
            raise HistoryError(f"{path / name}: leads to another repository")


def _check_config(config: Path) -> None:
    """Refuse a configuration that does more than ours: git obeys it when a person looks, too."""
    data = config.read_bytes() if config.is_file() else b""
    for number, line in enumerate(data.splitlines(), 1):
        if not _OUR_LINE.fullmatch(line):
            raise HistoryError(f"{config}:{number}: is not a line that akg-tui writes")


def _mend(path: Path) -> None:
    """Remove leftovers of a killed writer or a power loss. Raises `OSError`.

    Under the run's lock no other writer lives, so a `.lock` or a temporary object belongs to a dead
    writer. A ref without an id would block every later write to it, and is a projection; HEAD and
    config never change after `create`.
    """
    for stale in (*path.rglob("*.lock"), *(path / "objects").rglob("tmp_object_*")):
        if stale.is_file():
            stale.unlink()
    for ref in broken_refs(path):
        (path / ref).unlink()
    if path.is_dir():
        for name, content in _FIXED.items():
            file = path / name
            # A file whose content begins correctly is kept unchanged.
            if not (file.is_file() and file.read_bytes().startswith(content[:5])):
                replace_file(file, content)


def broken_refs(path: Path) -> list[str]:
    """Return the refs of the repository at `path` that are files without an object's id in them."""
    return sorted(
        str(file.relative_to(path))
        for file in (path / "refs").rglob("*")
        if file.is_file() and file.suffix != ".lock" and not _REF.fullmatch(file.read_bytes())
    )

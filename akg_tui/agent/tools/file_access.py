"""File access for tools: the only way to a run's files, with its rules for reading and writing.

Paths come from a model and are never trusted: no link is followed at any step, and the file that
was checked is the file that is opened, because each step uses a descriptor. Reads regular files
of the visible folders of one run; writes under `notes/` alone, by replacing whole files.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from akg_tui.core.sanitize import name_fault
from akg_tui.store.filesystem import open_below, replace_file

NOTES = "notes"
VISIBLE = ("PLAN.md", NOTES, "task", "trace", "work")

MAX_PATH = 512
MAX_READ = 4 << 20
MAX_WRITE = 1 << 20
MAX_NOTES_BYTES = 32 << 20
MAX_NOTES_FILES = 1_000
MAX_LISTED = 200


class Refused(Exception):
    """A tool must not use a path, for the reason in the message; nothing was read or written."""


class FileAccess:
    """The files of one run that its tools may use.

    Parameters
    ----------
    root
        The run's folder. Links in the path to this folder are the user's own and are followed;
        links below it are not.
    kernel
        The names of the editable files, which may be read but never written.
    """

    def __init__(self, root: Path, kernel: tuple[str, ...]) -> None:
        self._root = root.absolute()
        self._kernel = kernel

    def relative(self, path: str) -> str:
        """Return `path` relative to the run, without touching a file. Raises `Refused`."""
        return "/".join(self._parts(path))

    def is_folder(self, path: str) -> bool:
        """Return whether `path`, a visible path, is a folder. Raises `Refused`."""
        with self._reach(self._parts(path)) as found:
            return stat.S_ISDIR(os.fstat(found).st_mode)

    def read(self, path: str, limit: int = MAX_READ) -> bytes:
        """Return the bytes of a regular file of at most `limit` bytes. Raises `Refused`."""
        with self._reach(self._parts(path)) as found:
            status = os.fstat(found)
            if not stat.S_ISREG(status.st_mode):
                raise Refused(f"{path}: is {_kind(status.st_mode)}, not a regular file")
            if status.st_nlink > 1:
                raise Refused(f"{path}: has another name elsewhere (a hard link)")
            if status.st_size > limit:
                raise Refused(f"{path}: has {status.st_size} bytes; at most {limit} are read")
            # The descriptor refers to the checked file even if its name has a new file since.
            # The file is opened for reading only after the checks, so no device is opened.
            with open(f"/proc/self/fd/{found}", "rb") as file:  # noqa: PTH123
                data = file.read(limit + 1)
        if len(data) > limit:
            raise Refused(f"{path}: grew beyond {limit} bytes while it was read")
        return data

    def listing(self, path: str) -> list[str]:
        """Return at most `MAX_LISTED` names in a folder, folders with a slash. Raises `Refused`."""
        with (
            self._reach(self._parts(path)) as found,
            os.scandir(f"/proc/self/fd/{found}") as entries,
        ):
            names = sorted(e.name + "/" * e.is_dir(follow_symlinks=False) for e in entries)
        more = len(names) - MAX_LISTED
        return names if more <= 0 else [*names[:MAX_LISTED], f"… and {more} more"]

    def walk(self, path: str, limit: int) -> list[str]:
        """Return the paths of the files at or below `path`, at most `limit`. Raises `Refused`.

        What is not a regular file is left out below a folder.
        """
        top = self.relative(path)
        with self._reach(self._parts(path)) as found:
            if not stat.S_ISDIR(os.fstat(found).st_mode):
                return [top]
            files: list[str] = []
            for place, folders, names, at in os.fwalk(f"/proc/self/fd/{found}/"):
                inside = place.removeprefix(f"/proc/self/fd/{found}/").strip("/")
                folders.sort()
                for name in sorted(names):
                    try:
                        status = os.stat(name, dir_fd=at, follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # deleted meanwhile
                    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                        files.append("/".join(part for part in (top, inside, name) if part))
                    if len(files) > limit:
                        raise Refused(f"{path}: has more than {limit} files: name a part of it")
        return files

    def write(self, path: str, data: bytes, *, overwrite: bool = True) -> str:
        """Write `data` to a file under `notes/`, and return its path inside the run.

        The data goes to a temporary file that is then renamed, so that nothing is written
        through a link or through a second name of an older file.

        Raises
        ------
        Refused
            If the path is not under `notes/` or not a regular file, or the data is too large.
        """
        parts = self._parts(path)
        if parts[0] != NOTES:
            if parts[-1] in self._kernel:
                raise Refused(f"{path}: kernel text is changed by edit_kernel alone")
            raise Refused(f"{path}: is read-only; write_file writes under {NOTES}/ only")
        if len(parts) == 1:
            raise Refused(f"{path}: is a folder; name a file in it")
        if len(data) > MAX_WRITE:
            raise Refused(f"{path}: {len(data)} bytes are too many; at most {MAX_WRITE}")
        self._check_room(len(data))
        with self._reach(parts[:-1], make=True) as folder:
            self._check_place(folder, parts[-1], path, overwrite=overwrite)
        try:
            replace_file(self._root.joinpath(*parts), data, alone=False, root=self._root)
        except OSError as error:
            raise Refused(_told(path, error)) from None
        return "/".join(parts)

    def _parts(self, path: str) -> tuple[str, ...]:
        """Return the parts of the path below the run's folder. Raises `Refused`."""
        if not path or len(path) > MAX_PATH:
            raise Refused(f"a path has 1 to {MAX_PATH} characters, not {len(path)}")
        if not path.isprintable():
            raise Refused(f"{path!r}: has characters that are not printable")
        pure = PurePosixPath(path)
        if pure.is_absolute():
            pure = self._below_root(pure, path)
        parts = pure.parts
        if parts and (why := name_fault("/".join(parts), folders=True)):
            raise Refused(why)
        if not parts or parts[0] not in VISIBLE:
            inside = ", ".join(f"{name}/" if "." not in name else name for name in VISIBLE)
            hint = f"; did you mean {near}?" if (near := self._near(parts)) else ""
            raise Refused(f"{path}: not among the files of this run ({inside}){hint}")
        return parts

    def _below_root(self, pure: PurePosixPath, path: str) -> PurePosixPath:
        for root in (self._root, self._root.resolve()):
            if pure.is_relative_to(root):
                return pure.relative_to(root)
        raise Refused(f"{path}: is outside of this run")

    def _near(self, parts: tuple[str, ...]) -> str:
        if len(parts) != 1:
            return ""
        if parts[0] in self._kernel:
            return f"work/{parts[0]}"
        return f"task/{parts[0]}" if parts[0].endswith((".py", ".toml")) else f"{NOTES}/{parts[0]}"

    @contextlib.contextmanager
    def _reach(self, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
        """Yield an `O_PATH` descriptor of the file or folder `parts`, which can't read or write.

        With `make`, `parts` is a folder, and its missing parts are created.
        """
        flags = os.O_PATH | (os.O_DIRECTORY if make else 0)
        try:
            found = open_below(self._root, "/".join(parts), flags, make=make)
        except OSError as error:
            raise Refused(_told("/".join(parts), error)) from None
        try:
            if stat.S_ISLNK(os.fstat(found).st_mode):
                raise Refused(f"{'/'.join(parts)}: is a link, and links are not followed")
            yield found
        finally:
            os.close(found)

    def _check_place(self, folder: int, name: str, path: str, *, overwrite: bool) -> None:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError as error:
            raise Refused(_told(path, error)) from None
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{path}: is {_kind(status.st_mode)}, not a regular file")
        if not overwrite:
            raise Refused(f"{path}: exists already, and overwrite is false")

    def _check_room(self, more: int) -> None:
        files, size = 0, more
        if (self._root / NOTES).is_symlink():
            raise Refused(f"{NOTES}/ is a link, and links are not followed")
        for folder, _, names in os.walk(self._root / NOTES, followlinks=False):
            for name in names:
                with contextlib.suppress(OSError):
                    size += os.stat(os.path.join(folder, name), follow_symlinks=False).st_size  # noqa: PTH116, PTH118
                files += 1
        if size > MAX_NOTES_BYTES or files >= MAX_NOTES_FILES:
            raise Refused(
                f"{NOTES}/ is full: at most {MAX_NOTES_FILES} files and {MAX_NOTES_BYTES} bytes"
            )


def read_text(files: FileAccess, path: str) -> str:
    """Return the UTF-8 text of a file. Raises `Refused`."""
    data = files.read(path)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: not UTF-8 text at byte {error.start} of {len(data)}") from None


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")


def _told(path: str, error: OSError) -> str:
    return f"{path}: {error.strerror}"

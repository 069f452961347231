"""Build caches: one folder per kernel text, which only the building process changes permanently.

All other processes work on a private copy under an equal path, because builds contain their own
path. Otherwise a process could look up results of an earlier process: in a comparison all
are called on equal inputs. The judge owns the folders; a child covers its own with a tmpfs.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from pathlib import Path

COPIED_BYTES = 512 << 20
COPIED_FILES = 20_000
KEPT_BYTES = 2 << 30
KEPT_FILES = 60_000
"""The most that the build caches of one judge hold together, those in use apart."""


class CopyFailed(Exception):
    """A build cache can't be copied; the message is one line."""


def copy(source: str, target: str) -> None:
    """Copy all files below `source` into `target`, with their times, which build tools compare.

    Links are copied as links; only files, folders and links are copied. Raises `CopyFailed`.
    """
    try:
        if _count(source)[0]:
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    except shutil.Error as error:
        faults = error.args[0]
        raise CopyFailed(f"its build cache can't be copied: {faults[0][-1]}") from error
    except (OSError, RecursionError) as error:
        raise CopyFailed(f"its build cache can't be copied: {error}") from error


def remove(folder: Path) -> None:
    """Remove a folder that a kernel has filled, as far as it can be walked; it may be gone."""
    with contextlib.suppress(RecursionError):  # below a thousand levels
        shutil.rmtree(folder, ignore_errors=True)


def _count(folder: str) -> tuple[int, int]:
    """Count files and bytes below `folder`; raise `CopyFailed` above the limits of a copy."""
    count = size = 0
    for root, folders, names in os.walk(folder):
        count += len(folders) + len(names)
        size += sum(os.lstat(os.path.join(root, name)).st_size for name in names)  # noqa: PTH118
        if count > COPIED_FILES or size > COPIED_BYTES:
            limits = f"{COPIED_FILES} files, {COPIED_BYTES >> 20} MiB"
            raise CopyFailed(f"it left more in its build cache than is kept ({limits})")
    return count, size


class CoveredFolder:
    """In a child: a folder that a mount will cover, still reached through a descriptor."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    @property
    def path(self) -> str:
        """A path of the covered folder."""
        return f"/proc/self/fd/{self._fd}"

    def uncover(self, *, copied: bool) -> None:
        """Close the descriptor; with `copied`, first copy the covered files to the new mount."""
        if self._fd < 0:
            return
        try:
            if copied:
                copy(self.path, self._folder)
        finally:
            os.close(self._fd)
            self._fd = -1


class BuildCaches:
    """The judge's side: a folder for each kernel below `home`, named by the digest of its files.

    Parameters
    ----------
    covered
        Whether each process that does not build covers its folder. Without mounts this fails:
        then the folder is restored before every process to the state after the build.
    """

    def __init__(self, home: Path, *, covered: bool) -> None:
        self.covered = covered
        self._home = home
        self._numbers = itertools.count()
        self._modified: set[str] = set()
        """Keys of folders that were writable to a process other than the builder."""
        shutil.rmtree(home / "kept", ignore_errors=True)
        self._used: dict[str, None] = {}
        """Keys whose folders were asked for since `tidy`, in the order of their last use."""
        self._sizes = self._left_before()

    def _left_before(self) -> dict[str, tuple[int, int]]:
        """Return files and bytes of an earlier judge's folders, least recently changed first."""
        with contextlib.suppress(OSError):
            found = [path for path in self._home.iterdir() if path.is_dir()]
            found.sort(key=lambda path: path.stat().st_mtime)
            return {path.name: _size(path) or (0, 0) for path in found}
        return {}

    def folder(self, kernel: str) -> Path:
        """Return the folder in which a kernel builds; it is in use until `tidy`."""
        key = _key(kernel)
        folder = self._home / key
        folder.mkdir(parents=True, exist_ok=True)
        self._used.pop(key, None)
        self._used[key] = None
        return folder

    def holds(self, kernel: str) -> bool:
        """Return whether the folder of a kernel was not removed."""
        return (self._home / _key(kernel)).is_dir()

    def tidy(self, failed: str | None) -> None:
        """Remove the folder of a failed kernel, and old ones until all together are small enough.

        Call this when no process is left that has seen a kernel. Folders that were used since the
        last call stay; of the others the one that was not used for longest goes first.
        """
        if failed is not None:
            self._remove(_key(failed))
        for key in list(self._used):
            self._sizes.pop(key, None)
            if size := _size(self._home / key):
                self._sizes[key] = size
            else:
                self._remove(key)
        for key in list(self._sizes):
            files, total = (sum(each) for each in zip(*self._sizes.values(), strict=True))
            if files <= KEPT_FILES and total <= KEPT_BYTES:
                break
            if key not in self._used:
                self._remove(key)
        self._used.clear()

    def _remove(self, key: str) -> None:
        self._used.pop(key, None)
        self._sizes.pop(key, None)
        self._modified.discard(key)
        for folder in (self._home / key, self._home / "kept" / key):
            remove(folder)

    def restore(self, kernel: str, *, builds: bool) -> None:
        """Restore a folder that is not covered for the next process; no process may use it now.

        Raise `CopyFailed` if the build can't be copied.
        """
        key, folder = _key(kernel), self.folder(kernel)
        kept = self._home / "kept" / key
        if key in self._modified:
            # A new folder, because attributes of the old one may hold data too.
            old = self._home / f"old-{os.getpid()}-{next(self._numbers)}"
            folder.rename(old)
            remove(old)
            self.folder(kernel)
            copy(str(kept), str(folder))
        elif not builds:
            remove(kept)
            copy(str(folder), str(kept))
        if builds:
            self._modified.discard(key)
        else:
            self._modified.add(key)


def _size(folder: Path) -> tuple[int, int] | None:
    """Return the numbers of files and bytes of a folder; None if no process could copy it."""
    try:
        return _count(str(folder))
    except (CopyFailed, OSError, RecursionError):
        return None


def _key(kernel: str) -> str:
    return kernel[:32]

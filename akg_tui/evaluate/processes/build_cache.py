"""Build caches: one folder per kernel text, which only the building process changes permanently.

All other processes work on a private copy under an equal path, because builds contain their own
path. Otherwise a process could look up results of an earlier process: in a comparison all
are called on equal inputs. The judge owns the folders; a child covers its own with a tmpfs.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from pathlib import Path

COPIED_BYTES = 512 << 20
COPIED_FILES = 20_000


class CopyFailed(Exception):
    """A build cache can't be copied; the message is one line."""


def copy(source: str, target: str) -> None:
    """Copy all files below `source` into `target`, with their times, which build tools compare.

    Links are copied as links; only files, folders and links are copied. Raises `CopyFailed`.
    """
    try:
        if _count(source):
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    except shutil.Error as error:
        faults = error.args[0]
        raise CopyFailed(f"its build cache can't be copied: {faults[0][-1]}") from error
    except (OSError, RecursionError) as error:
        raise CopyFailed(f"its build cache can't be copied: {error}") from error


def _count(folder: str) -> int:
    """Count files and bytes below `folder`; raise `CopyFailed` above the limits of a copy."""
    count = size = 0
    for root, folders, names in os.walk(folder):
        count += len(folders) + len(names)
        size += sum(os.lstat(os.path.join(root, name)).st_size for name in names)  # noqa: PTH118
        if count > COPIED_FILES or size > COPIED_BYTES:
            limits = f"{COPIED_FILES} files, {COPIED_BYTES >> 20} MiB"
            raise CopyFailed(f"it left more in its build cache than is kept ({limits})")
    return count


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
    """The judge's side: a folder for each kernel's text below `home`.

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

    def folder(self, source: str) -> Path:
        """Return the folder in which a kernel builds."""
        folder = self._home / _key(source)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def restore(self, source: str, *, builds: bool) -> None:
        """Restore a folder that is not covered for the next process; no process may use it now.

        Raise `CopyFailed` if the build can't be copied.
        """
        key, folder = _key(source), self.folder(source)
        kept = self._home / "kept" / key
        if key in self._modified:
            # A new folder, because attributes of the old one may hold data too.
            old = self._home / f"old-{os.getpid()}-{next(self._numbers)}"
            folder.rename(old)
            shutil.rmtree(old, ignore_errors=True)
            self.folder(source)
            copy(str(kept), str(folder))
        elif not builds:
            shutil.rmtree(kept, ignore_errors=True)
            copy(str(folder), str(kept))
        if builds:
            self._modified.discard(key)
        else:
            self._modified.add(key)


def _key(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:32]

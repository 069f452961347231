"""Where kernels build: a folder for each text, in which only the process that builds leaves things.

All others work on a copy that goes with them, under the same path, because builds know where they
lie. Otherwise a process could look up what an earlier one computed: in one comparison all of them
are called on the same inputs. The judge has the folders, a child covers its own with memory.
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
    """What lies in a build cache can't be copied; the message is one line."""


def copy(source: str, target: str) -> None:
    """Copy all below `source` into `target`, with its times: a build tool goes by them.

    Links are copied as such, and nothing but files, folders and links is. Raises `Uncopied`.
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
    """Count what is below `folder`; raise `Uncopied` if it is more than is ever copied."""
    count = size = 0
    for root, folders, names in os.walk(folder):
        count += len(folders) + len(names)
        size += sum(os.lstat(os.path.join(root, name)).st_size for name in names)  # noqa: PTH118
        if count > COPIED_FILES or size > COPIED_BYTES:
            limits = f"{COPIED_FILES} files, {COPIED_BYTES >> 20} MiB"
            raise CopyFailed(f"it left more in its build cache than is kept ({limits})")
    return count


class CoveredFolder:
    """In a child: a folder that is about to be covered, and can be seen through a descriptor."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    @property
    def path(self) -> str:
        """A name of what is covered."""
        return f"/proc/self/fd/{self._fd}"

    def uncover(self, *, copied: bool) -> None:
        """Forget what is covered; `copied`: after it was copied to what covers it."""
        if self._fd < 0:
            return
        try:
            if copied:
                copy(self.path, self._folder)
        finally:
            os.close(self._fd)
            self._fd = -1


class BuildCaches:
    """The judge's part: a folder for each kernel's text below `home`.

    Parameters
    ----------
    covered
        Each process that does not build covers its folder. Where it can't (no mounts), the
        folder is put back before every process as the one that builds has left it.
    """

    def __init__(self, home: Path, *, covered: bool) -> None:
        self.covered = covered
        self._home = home
        self._numbers = itertools.count()
        self._modified: set[str] = set()
        """Keys of folders that a process which did not build has had for itself."""
        shutil.rmtree(home / "kept", ignore_errors=True)

    def folder(self, source: str) -> Path:
        """Return the folder in which a kernel builds."""
        folder = self._home / _key(source)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def restore(self, source: str, *, builds: bool) -> None:
        """Make a folder ready for the next process, which builds or not; none may have it now.

        Raises `Uncopied` if what was built can't be kept.
        """
        if self.covered:
            return
        key, folder = _key(source), self.folder(source)
        kept = self._home / "kept" / key
        if key in self._modified:
            # Another folder, not another content: nobody knows what hangs on the old one.
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

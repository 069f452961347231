"""Whether what judges is still what it was: the harness's own files, the task, the reference.

A kernel can't write to any of these (`sandbox`); this is the second line, and it also finds
an upgrade or an edit under a judge that runs, after which no number could be trusted.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import akg_tui

_JUDGING = ("dsl.py", "dsl/**/*.py", "core/*.py", "evaluate/**/*.py")

Digests = dict[str, str]


def harness(root: Path | None = None) -> Digests:
    """Return the digest of every source file that takes part in a verdict, by its name."""
    root = root or Path(akg_tui.__file__).parent
    paths = {path for pattern in _JUDGING for path in root.glob(pattern)}
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(paths)
    }


class Sources:
    """The sources of a judge as they were when it began, and as they are now."""

    def __init__(self) -> None:
        self._before = harness()
        self._beside = ThreadPoolExecutor(1)
        self._now: Future[Digests] | None = None

    def read_again(self) -> None:
        """Begin to read them again, while other things are done."""
        self._now = self._beside.submit(harness)

    def difference(self) -> str:
        """Return which are not what they were, in words, or nothing."""
        return difference(self._before, self._now.result()) if self._now is not None else ""

    def close(self) -> None:
        """End the thread that reads."""
        self._beside.shutdown()


def judge_digest() -> str:
    """Return a short digest of what decides over a verdict; other files of ours may change."""
    decides = {
        name: digest
        for name, digest in harness().items()
        if name == "core/decision.py"
        or (name.startswith(("dsl", "evaluate/")) and not name.startswith("evaluate/bench/"))
    }
    return hashlib.sha256(repr(decides).encode()).hexdigest()[:12]


def difference(before: Digests, now: Digests) -> str:
    """Return which files are not what they were, in words, or nothing."""
    changed = sorted(
        name for name in before.keys() | now.keys() if before.get(name) != now.get(name)
    )
    if not changed:
        return ""
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return (
        f"the judge's own files changed since it started ({', '.join(changed[:3])}{more}); "
        "start again, so that one version judges all"
    )

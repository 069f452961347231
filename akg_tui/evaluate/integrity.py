"""The digest of the judge's own source files: records of trials tell by it which judge it was."""

from __future__ import annotations

import hashlib
from pathlib import Path

import akg_tui

_ROOT = Path(akg_tui.__file__).parent

DECIDES = ("core/verdict.py", "dsl/**/*.py", "evaluate/**/*.py")
"""The files that time kernels and compare their results."""


def judge_digest() -> str:
    """Return a short digest of the files that time kernels and compare their results."""
    paths = sorted(path for pattern in DECIDES for path in _ROOT.glob(pattern))
    files = [(str(path.relative_to(_ROOT)), path.read_bytes()) for path in paths]
    return hashlib.sha256(repr(files).encode()).hexdigest()[:12]

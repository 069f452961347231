"""Code in an interpreter of its own: only there shows what an import loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def printed(code: str, **environment: str) -> str:
    """What `code` prints; it fails with what was told where it breaks."""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout

"""Folders in memory for tests whose runs sync at each event: fsync on a disk took most of the time.

The prefix differs from that of a judge's shared memory, for whose remains other tests look.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="tests-", dir=place) as folder:
        yield Path(folder)

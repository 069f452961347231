"""Finds the folders that ship with the program: themes/, sample_kernels/ and benchmarks/.

In an installed wheel they are inside the package (`akg_tui/_data/`); in a checkout they are beside
it. This module only finds paths: it reads no file and must never write one.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
DEMO_SAMPLE, DEMO_ROUNDS = "gelu_bias", 12
"""The sample that the demo tunes, and its limit of rounds."""


class ResourceMissing(FileNotFoundError):
    """A folder that ships with the program is missing from its place in the install."""


def themes() -> Path:
    """Return the folder of colour themes."""
    return _folder("themes")


def sample_kernels() -> Path:
    """Return the folder of sample tasks. It can be read-only: copy a task before tuning it."""
    return _folder("sample_kernels")


def sample_names() -> list[str]:
    """Return the names of the bundled sample tasks, in alphabetical order."""
    return sorted(path.parent.name for path in sample_kernels().glob("*/task.toml"))


def sample(name: str) -> Path:
    """Return the folder of one sample task; the error for an unknown name lists the known names."""
    if name not in sample_names():
        raise ResourceMissing(
            f"no sample kernel is called {name!r}; there are: {', '.join(sample_names())}"
        )
    return sample_kernels() / name


def benchmarks() -> Path:
    """Return the folder of the package `benchmarks`; its parent must be on `sys.path`."""
    return _folder("benchmarks")


def _folder(name: str) -> Path:
    places = (_PACKAGE / "_data" / name, _PACKAGE.parent / name)
    for place in places:
        if place.is_dir():
            return place
    raise ResourceMissing(
        f"the folder {name}/ that ships with akg-tui is missing (looked for "
        f"{' and '.join(map(str, places))}): install akg-tui again"
    )

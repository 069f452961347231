"""A model of a disk with the guarantees of POSIX only: data that was not synced may be lost.

A file's bytes are durable after its own fsync, a name after the fsync of its folder. Fed
with the steps of a traced process, it can say at any of them what a power loss would leave.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.crashlab.disk_faults import Step


@dataclass
class _File:
    now: bytes = b""
    durable: bytes = b""


@dataclass
class _Folder:
    now: dict[str, _File | _Folder] = field(default_factory=dict)
    durable: dict[str, _File | _Folder] = field(default_factory=dict)


class Disk:
    """The folder `root`, which begins as a durable copy of `begun`."""

    def __init__(self, root: Path, begun: Path) -> None:
        self._root = root
        self._top = _read(begun)

    def take(self, step: Step) -> None:
        """Apply one step of the process."""
        node = self._find(step.path)
        match step.op:
            case "create":
                if node is None:
                    self._set(step.path, _File())
                elif isinstance(node, _File) and step.other == "t":
                    node.now = b""
            case "mkdir":
                # Making a folder below one that is not there yet was refused.
                if node is None and self._find(str(Path(step.path).parent)) is not None:
                    self._set(step.path, _Folder())
            case "write" if isinstance(node, _File):
                node.now += step.data
            case "truncate" if isinstance(node, _File):
                node.now = node.now[: int.from_bytes(step.data, "little")]
            case "sync" if isinstance(node, _File):
                node.durable = node.now
            case "sync" if isinstance(node, _Folder):
                node.durable = dict(node.now)
            case "rename" if node is not None:
                self._unset(step.path)
                self._set(step.other, node)
            case "link" if node is not None:
                self._set(step.other, node)
            case "unlink" if node is not None:
                self._unset(step.path)
            case _:
                pass  # written again in place, or refused when it happened

    def survive(self, how: str, dice: random.Random) -> None:
        """Write what is left to the real folder: of the rest `all` is gone, or `some`."""
        _write(self._root, self._top, dice if how == "some" else None)

    def _find(self, path: str) -> _File | _Folder | None:
        node: _File | _Folder | None = self._top
        for name in Path(path).relative_to(self._root).parts:
            node = node.now.get(name) if isinstance(node, _Folder) else None
        return node

    def _parent(self, path: str) -> _Folder:
        parent = self._find(str(Path(path).parent))
        assert isinstance(parent, _Folder), path
        return parent

    def _set(self, path: str, node: _File | _Folder) -> None:
        self._parent(path).now[Path(path).name] = node

    def _unset(self, path: str) -> None:
        self._parent(path).now.pop(Path(path).name, None)


def _read(path: Path) -> _Folder:
    found: dict[str, _File | _Folder] = {}
    for entry in path.iterdir():
        if entry.is_dir():
            found[entry.name] = _read(entry)
        elif entry.is_file():
            found[entry.name] = _File(entry.read_bytes(), entry.read_bytes())
    return _Folder(found, dict(found))


def _write(path: Path, folder: _Folder, dice: random.Random | None) -> None:
    path.mkdir(parents=True)
    for name in sorted({*folder.now, *folder.durable}):
        now, durable = folder.now.get(name), folder.durable.get(name)
        node = durable if dice is None or now is durable else dice.choice((now, durable))
        if isinstance(node, _Folder):
            _write(path / name, node, dice)
        elif node is not None:
            (path / name).write_bytes(node.durable if dice is None else _some(node, dice))


def _some(file: _File, dice: random.Random) -> bytes:
    """A file's bytes when its last writes may or may not have reached the disk."""
    if file.now == file.durable:
        return file.durable
    common = 0
    while common < min(len(file.now), len(file.durable)) and (
        file.now[common] == file.durable[common]
    ):
        common += 1
    cut = dice.randint(common, len(file.now))
    zeros = file.now[:cut] + bytes(len(file.now) - cut)  # the length came, the bytes did not
    return dice.choice((file.now, file.durable, file.now[:cut], zeros))

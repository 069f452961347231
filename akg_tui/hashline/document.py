"""A text file as an immutable value: its exact bytes, and its lines.

Owns the splitting into lines and the way back. Only ``\\n`` ends a line, so form feeds,
lone ``\\r`` and Unicode separators stay inside one. Touches no file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

BOM = "\ufeff"


class NotText(ValueError):
    """The bytes are not UTF-8, so the file has no lines to show.

    Attributes
    ----------
    offset : int
        Position of the first byte that cannot be decoded.
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path}: not UTF-8 text: {reason} at byte {offset}")
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Document:
    """One revision of one file.

    Attributes
    ----------
    path : str
        The name shown to readers; never opened here.
    revision : int
        Counts the changes made through `akg_tui.hashline.apply`.
    data : bytes
        The file, byte for byte.
    text : str
        `data` decoded, a byte order mark and line endings included.
    lines : tuple of str
        Content of each line, without its ending and without the byte order mark.
    endings : tuple of str
        What ended each line: ``"\\n"``, ``"\\r\\n"`` or, on the last one only, ``""``.
    sha256 : str
        Hex digest of `data`.
    """

    path: str
    revision: int
    data: bytes
    text: str
    lines: tuple[str, ...]
    endings: tuple[str, ...]
    sha256: str

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str, revision: int = 0) -> Document:
        """Raises `NotText` where `data` is not UTF-8."""
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotText(path, error.start, error.reason) from error
        lines, endings = _split(text.removeprefix(BOM))
        return cls(path, revision, data, text, lines, endings, hashlib.sha256(data).hexdigest())

    @classmethod
    def from_text(cls, text: str, *, path: str, revision: int = 0) -> Document:
        """Raises `NotText` where `text` holds a lone surrogate, which no UTF-8 file can."""
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            offset = len(text[: error.start].encode("utf-8"))
            raise NotText(path, offset, error.reason) from error
        return cls.from_bytes(data, path=path, revision=revision)

    @property
    def has_bom(self) -> bool:
        return self.text.startswith(BOM)

    @property
    def newline(self) -> str:
        """The ending most lines have; ``"\\n"`` on a tie and in a file without any."""
        windows = self.endings.count("\r\n")
        return "\r\n" if windows > self.endings.count("\n") else "\n"

    @property
    def ends_with_newline(self) -> bool:
        """True for an empty file too: a line added to it gets a newline."""
        return not self.endings or self.endings[-1] != ""


def _split(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    rows = text.split("\n")
    unfinished = rows.pop()
    lines = [row.removesuffix("\r") for row in rows]
    endings = ["\r\n" if row.endswith("\r") else "\n" for row in rows]
    if unfinished:
        lines.append(unfinished)
        endings.append("")
    return tuple(lines), tuple(endings)

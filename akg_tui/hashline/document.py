"""A text file as an immutable value: its exact bytes, and its lines.

Owns the splitting into lines and their endings. Only ``\\n`` ends a line, so form feeds,
lone ``\\r`` and Unicode separators stay inside a line. Opens no file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

BOM = "\ufeff"


class NotText(ValueError):
    """The bytes are not UTF-8, so the file has no lines to show.

    - `offset`: position of the first byte that cannot be decoded.
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path}: not UTF-8 text: {reason} at byte {offset}")
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Document:
    """One revision of one file.

    - `path`: the name shown to readers; never opened here.
    - `revision`: the number of the revision, shown to readers; each applied edit adds one.
    - `data`: the bytes of the file.
    - `text`: `data` decoded, including a byte order mark and line endings.
    - `lines`: content of each line, without its ending and without the byte order mark.
    - `endings`: the ending of each line: ``"\\n"``, ``"\\r\\n"`` or, on the last line only, ``""``.
    - `sha256`: hex digest of `data`.
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
        """Return the document of `data`. Raises `NotText` if `data` is not UTF-8."""
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotText(path, error.start, error.reason) from error
        lines, endings = _split(text.removeprefix(BOM))
        return cls(path, revision, data, text, lines, endings, hashlib.sha256(data).hexdigest())

    @classmethod
    def from_text(cls, text: str, *, path: str, revision: int = 0) -> Document:
        """Return the document of `text`. Raises `NotText` if `text` has a lone surrogate."""
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
        """The most frequent line ending; ``"\\n"`` on a tie and in a file without endings."""
        windows = self.endings.count("\r\n")
        return "\r\n" if windows > self.endings.count("\n") else "\n"

    @property
    def ends_with_newline(self) -> bool:
        """Whether the last line ends with a newline; True also for an empty file."""
        return not self.endings or self.endings[-1] != ""


def _split(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    rows = text.split("\n")
    unfinished = rows.pop()
    lines, endings = rows, ["\n"] * len(rows)
    if "\r\n" in text:
        endings = ["\r\n" if row.endswith("\r") else "\n" for row in rows]
        lines = [row.removesuffix("\r") for row in rows]
    if unfinished:
        lines.append(unfinished)
        endings.append("")
    return tuple(lines), tuple(endings)

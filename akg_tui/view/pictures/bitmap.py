"""A picture with a palette, and its PNG: as few lines as flat colours need.

Colour 0 is transparent. What lies outside of the picture is not drawn.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

Colour = tuple[int, int, int]


class Bitmap:
    """A picture of `width` by `height` pixels, each the place of its colour in a palette."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._pixels = bytearray(width * height)

    def box(self, left: int, top: int, right: int, bottom: int, colour: int) -> None:
        """Fill the columns and rows from `left`, `top` up to `right`, `bottom`, these included."""
        left, right = max(0, left), min(self.width - 1, right)
        if left > right:
            return
        row = bytes([colour]) * (right - left + 1)
        for y in range(max(0, top), min(self.height - 1, bottom) + 1):
            start = y * self.width + left
            self._pixels[start : start + len(row)] = row

    def stroke(self, begin: tuple[int, int], end: tuple[int, int], colour: int, thick: int) -> None:
        """Draw a line from one point to another with a square brush."""
        (x0, y0), (x1, y1) = begin, end
        steps, before = max(abs(x1 - x0), abs(y1 - y0), 1), thick // 2
        for step in range(steps + 1):
            x = x0 + (x1 - x0) * step // steps - before
            y = y0 + (y1 - y0) * step // steps - before
            self.box(x, y, x + thick - 1, y + thick - 1, colour)

    def png(self, palette: Sequence[Colour]) -> bytes:
        """Return the picture as a PNG of 8 bits a pixel (PNG specification, color type 3).

        The palette has at most 255 colours.
        """
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 3, 0, 0, 0)
        wide = self.width
        rows = (self._pixels[y * wide : (y + 1) * wide] for y in range(self.height))
        data = zlib.compress(b"".join(b"\0" + row for row in rows), 1)
        colours = b"\0\0\0" + b"".join(bytes(each) for each in palette)
        parts = ((b"IHDR", header), (b"PLTE", colours), (b"tRNS", b"\0"), (b"IDAT", data))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in (*parts, (b"IEND", b"")))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

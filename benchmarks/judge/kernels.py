"""Kernels with a gain that is known because it was planted: C++ that does some rows twice.

Pure text. The extra rows are the same work as the others and write the same results, so a
kernel with them is as correct as one without, and slower by the cost of the extra rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from msgspec import Struct

from akg_tui.core.task import Case


class Planted(Struct, frozen=True):
    """A task for the benchmark: a reference, and the C++ of one row; `heights` are rows by case."""

    name: str
    reference: str
    rows: int
    columns: int
    row: str
    heights: tuple[int, ...] = ()

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases of the task, one for each height."""
        return tuple(Case(f"rows{height}", {"HEIGHT": height}) for height in self.heights)

    def kernel(self, extra: int, *, unless: Collection[int] = ()) -> str:
        """Return a kernel that does `extra` of its rows twice, after all of them.

        With cases it is that share of the rows of each, none for the heights in `unless`.
        """
        twice = {self.rows: extra}
        if self.heights:
            share = extra / self.rows
            twice = {h: 0 if h in unless else math.ceil(h * share) for h in self.heights}
        return (
            KERNEL.replace("ROW_CODE", self.row)
            .replace("COLUMNS", str(self.columns))
            .replace("TWICE_OF", str(twice))
        )


KERNEL = '''
import ctypes

import torch
from akg_tui.dsl import compile_cpp, pointer

SOURCE = r"""
#include <cmath>
constexpr long columns = COLUMNS;
static void __attribute__((noinline)) one(const float* x, float* y) {
  ROW_CODE
}
extern "C" void all(const float* x, float* y, long rows, long extra) {
  for (long r = 0; r < rows; ++r) one(x + r * columns, y + r * columns);
  // After all of them, and not in between: a row visited early would spare its first visit, and
  // what extra rows cost would not be their number times the cost of one.
  for (long i = 0; i < extra; ++i) {
    const long r = i % rows;
    one(x + r * columns, y + r * columns);
  }
}
"""
library = compile_cpp(SOURCE, ("-O3", "-march=native"))
TWICE = TWICE_OF


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows = x.shape[0]
        library.all(pointer(x), pointer(y), ctypes.c_long(rows), ctypes.c_long(TWICE[rows]))
        return y
'''

REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return FORMULA


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
"""


def _planted(
    name: str,
    formula: str,
    rows: int,
    columns: int,
    row: str,
    *,
    heights: tuple[int, ...] = (),
) -> Planted:
    text = REFERENCE.replace("FORMULA", formula)
    if heights:
        text = text.replace("ROWS", "HEIGHT").replace(
            "import torch\n", f"import torch\n\nHEIGHT = {rows}\n"
        )
    text = text.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
    return Planted(name, text, rows, columns, row, heights)


_NORM = (
    "x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)",
    256,
    512,
    "double sum = 0; for (long c = 0; c < columns; ++c) sum += double(x[c]) * x[c];"
    " const double size = std::sqrt(sum / columns + 1e-6);"
    " for (long c = 0; c < columns; ++c) y[c] = float(x[c] / size);",
)


KERNELS = {
    planted.name: planted
    for planted in (
        # 64 KiB of data and a chain of 60 dependent steps for each element.
        _planted(
            "compute",
            "x + 1",
            256,
            64,
            "for (long c = 0; c < columns; ++c) {"
            " float v = x[c]; for (int k = 0; k < 60; ++k) v = v * 0.5f + 1.0f;"
            " y[c] = x[c] + 1.0f + (v != v ? v : 0.0f); }",
        ),
        # Half a megabyte, in the second cache: a division and a reduction for each row.
        _planted("mixed", *_NORM),
        # The same with four heights.
        _planted("cases", *_NORM, heights=(64, 128, 256, 512)),
        # Two megabytes in and two out, beyond the second cache: what it waits for is memory.
        _planted(
            "memory",
            "x + 1",
            512,
            1024,
            "for (long c = 0; c < columns; ++c) y[c] = x[c] + 1.0f;",
        ),
    )
}

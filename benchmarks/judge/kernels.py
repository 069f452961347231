"""Kernels with a gain that is known because it was planted: C++ that does some rows twice.

Pure text. The extra rows are the same work as the others and write the same results, so a
kernel with them is as correct as one without, and slower by the cost of the extra rows.
"""

from __future__ import annotations

from msgspec import Struct


class Planted(Struct, frozen=True):
    """A task for the benchmark: a reference, and the C++ of one row."""

    name: str
    reference: str
    rows: int
    columns: int
    row: str

    def kernel(self, extra: int) -> str:
        """Return a kernel that does `extra` of its rows twice, after all of them."""
        return (
            KERNEL.replace("ROW_CODE", self.row)
            .replace("ROWS", str(self.rows))
            .replace("COLUMNS", str(self.columns))
            .replace("EXTRA", str(extra))
        )


KERNEL = '''
import torch
from akg_tui.dsl import compile_cpp, pointer

SOURCE = r"""
#include <cmath>
constexpr long rows = ROWS, columns = COLUMNS, extra = EXTRA;
static void __attribute__((noinline)) one(const float* x, float* y) {
  ROW_CODE
}
extern "C" void all(const float* x, float* y) {
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


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.all(pointer(x), pointer(y))
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


def _planted(name: str, formula: str, rows: int, columns: int, row: str) -> Planted:
    text = REFERENCE.replace("FORMULA", formula)
    text = text.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
    return Planted(name, text, rows, columns, row)


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
        _planted(
            "mixed",
            "x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)",
            256,
            512,
            "double sum = 0; for (long c = 0; c < columns; ++c) sum += double(x[c]) * x[c];"
            " const double size = std::sqrt(sum / columns + 1e-6);"
            " for (long c = 0; c < columns; ++c) y[c] = float(x[c] / size);",
        ),
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

"""Softmax in Triton: one that is right, and ones that are wrong each in its own way."""

from __future__ import annotations

from tests.evaluate import kernels

REFERENCE = kernels.REFERENCE.replace("64, 256", "6, 48")

GOOD = """
import torch
import triton
import triton.language as tl


@triton.jit
def rows_of(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * columns + at, powers / tl.sum(powers, axis=0), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        rows_of[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
        return y
"""


def changed(old: str, new: str) -> str:
    """Return the good kernel with one of its parts changed."""
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


BY_LIBDEVICE = changed(
    "tl.exp(x -", "tl.extra.libdevice.erf(at.to(tl.float32) * 0) + tl.extra.libdevice.exp(x -"
).replace("powers /", "powers.to(tl.float8e5, bitcast=False).to(tl.float32) * 0 + powers /")
NO_LOAD_MASK = changed(', mask=inside, other=-float("inf"))', ")")
PADDED_WITH_ZEROS = changed('other=-float("inf")', "other=0.0")
ONE_GRID = changed("rows_of[(rows,)]", "rows_of[(6,)]")
NO_MAXIMUM = changed("x - tl.max(x, axis=0)", "x")
WRITES_ITS_INPUT = changed("rows_of[(rows,)](x, y,", "rows_of[(rows,)](x, x,").replace(
    "return y", "return x"
)
NO_SUCH_OP = changed("tl.exp(", "tl.exponential(")
NO_POWER_OF_TWO = changed("triton.next_power_of_2(columns)", "columns")
WILD_POINTER = changed("tl.load(x_ptr + row", "tl.load(x_ptr + 2**44 + row")
FOR_EVER = changed(
    "    row = tl.program_id(0)\n",
    "    row = tl.program_id(0)\n    while True:\n        row += 0\n",
)
NEVER_LAUNCHED = changed(
    "rows_of[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))",
    "y = torch.softmax(x, -1)",
)
NOT_TRITON = changed("@triton.jit\n", "")
FRAMEWORK_AFTER = changed("return y", "return torch.softmax(y * 0 + x, dim=-1)")

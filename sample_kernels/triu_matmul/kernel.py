"""The product of upper triangular matrices in blocks, and the knobs to tune it."""

import torch
from torch import nn

# Rows of the result that are computed together; 0: the whole matrix, zeros included.
ROWS = 0  # tune: [0, 32, 64, 96, 128, 192, 256]
# Columns of the result that are computed together; 0: all columns from the diagonal on.
COLUMNS = 0  # tune: [0, 64, 128, 192, 256]
# Where the lower triangles become zero: in copies of both inputs, or in the blocks on the diagonal.
ZEROS = "copies"  # tune: ["copies", "diagonal"]
# Where a block is stored: in a new tensor that is copied, or in the result itself.
STORE = "copy"  # tune: ["copy", "into"]


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if not ROWS:
            return torch.triu(torch.triu(a) @ torch.triu(b))
        if ZEROS == "copies":
            a, b = torch.triu(a), torch.triu(b)
        n = a.shape[0]
        y = torch.zeros_like(a)
        columns = COLUMNS or n
        for top in range(0, n, ROWS):
            below = min(top + ROWS, n)
            for left in range(top, n, columns):
                right = min(left + columns, n)
                # Rows from `top` have zeros left of it, columns up to `right` zeros below it.
                self.block(
                    a[top:below, top:right], b[top:right, left:right], y[top:below, left:right]
                )
            y[top:below, top:below].triu_()
        return y

    def block(self, a: torch.Tensor, b: torch.Tensor, y: torch.Tensor) -> None:
        """Compute one block; `a` starts on the diagonal, `b` ends on it."""
        if ZEROS == "diagonal":
            rows, columns = y.shape
            a, b = a.clone(), b.clone()
            a[:, :rows].triu_()
            b[-columns:].triu_()
        if STORE == "copy":
            y.copy_(a @ b)
        else:
            torch.mm(a, b, out=y)

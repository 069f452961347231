"""Layer normalisation in Triton: moments in one, two or three passes over the rows."""

import torch
import triton
import triton.language as tl
from torch import nn

# Columns per step of a program; a row that does not fit is processed in blocks.
BLOCK = 256  # tune: [128, 256, 512, 1024, 2048]
# Rows that one program processes together.
ROWS_EACH = 1  # tune: [1, 2, 4]
# A pass for the mean and one for the variance; one pass that merges the moments of blocks; or, for
# rows that fit in one block, no further pass, because the row stays in registers.
MOMENTS = "two_pass"  # tune: ["two_pass", "merged", "kept"]
# Warps per program, and pipeline stages of the loops. They matter only on a GPU.
WARPS = 4  # tune: [1, 2, 4, 8]
STAGES = 2  # tune: [1, 2, 3, 4]


@triton.jit
def load_block(x_ptr, start_of, rows_in, column, columns):
    """Return a block of rows in float32, zero beyond their end."""
    mask = rows_in & (column < columns)[None, :]
    return tl.load(x_ptr + start_of + column[None, :], mask=mask, other=0.0).to(tl.float32)


@triton.jit
def store_block(y_ptr, y, weight_ptr, bias_ptr, start_of, rows_in, column, columns):
    """Write a block of normalised rows times weight plus bias."""
    inside = column < columns
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    bias = tl.load(bias_ptr + column, mask=inside, other=0.0)
    y = y * weight[None, :] + bias[None, :]
    tl.store(y_ptr + start_of + column[None, :], y, mask=rows_in & inside[None, :])


@triton.jit
def layer_norm_rows(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    rows,
    columns,
    epsilon,
    ROWS_EACH: tl.constexpr,
    BLOCK: tl.constexpr,
    MOMENTS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS_EACH + tl.arange(0, ROWS_EACH)
    rows_in = (row < rows)[:, None]
    start_of = row[:, None].to(tl.int64) * columns
    lane = tl.arange(0, BLOCK)
    if MOMENTS == "kept":
        x = load_block(x_ptr, start_of, rows_in, lane, columns)
        mean = tl.sum(x, axis=1) / columns
        # The padding is zero, and has to be zero again after the mean was subtracted.
        apart = tl.where((lane < columns)[None, :], x - mean[:, None], 0.0)
        scale = tl.rsqrt(tl.sum(apart * apart, axis=1) / columns + epsilon)
        y = apart * scale[:, None]
        store_block(y_ptr, y, weight_ptr, bias_ptr, start_of, rows_in, lane, columns)
    else:
        if MOMENTS == "two_pass":
            total = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
            for start in range(0, columns, BLOCK):
                total += load_block(x_ptr, start_of, rows_in, start + lane, columns)
            mean = tl.sum(total, axis=1) / columns
            squares = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
            for start in range(0, columns, BLOCK):
                x = load_block(x_ptr, start_of, rows_in, start + lane, columns)
                apart = tl.where((start + lane < columns)[None, :], x - mean[:, None], 0.0)
                squares += apart * apart
            variance = tl.sum(squares, axis=1) / columns
        else:
            # Mean and sum of squared differences so far; those of a block join them exactly.
            mean = tl.zeros((ROWS_EACH,), tl.float32)
            spread = tl.zeros((ROWS_EACH,), tl.float32)
            for start in range(0, columns, BLOCK):
                x = load_block(x_ptr, start_of, rows_in, start + lane, columns)
                many = tl.minimum(columns - start, BLOCK)
                of_block = tl.sum(x, axis=1) / many
                apart = tl.where((start + lane < columns)[None, :], x - of_block[:, None], 0.0)
                step = of_block - mean
                share = many / (start + many)
                mean += step * share
                spread += tl.sum(apart * apart, axis=1) + step * step * start * share
            variance = spread / columns
        scale = tl.rsqrt(variance + epsilon)
        for start in range(0, columns, BLOCK):
            x = load_block(x_ptr, start_of, rows_in, start + lane, columns)
            y = (x - mean[:, None]) * scale[:, None]
            store_block(y_ptr, y, weight_ptr, bias_ptr, start_of, rows_in, start + lane, columns)


class ModelNew(nn.Module):
    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        rows, columns = x.shape
        y = torch.empty_like(x)
        too_long = MOMENTS == "kept" and columns > BLOCK
        layer_norm_rows[(triton.cdiv(rows, ROWS_EACH),)](
            x,
            weight,
            bias,
            y,
            rows,
            columns,
            self.epsilon,
            ROWS_EACH=ROWS_EACH,
            BLOCK=BLOCK,
            MOMENTS="merged" if too_long else MOMENTS,
            num_warps=WARPS,
            num_stages=STAGES,
        )
        return y

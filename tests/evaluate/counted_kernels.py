"""Small kernels in Triton whose work can be counted by hand."""

import triton
import triton.language as tl


@triton.jit
def scale_rows(x_ptr, y_ptr, columns, stride, step, size: tl.constexpr):  # noqa: PLR0917
    row = tl.program_id(0)
    offsets = tl.arange(0, size)
    total = tl.zeros((size,), tl.float32)
    for start in range(0, columns, size):
        inside = start + offsets < columns
        x = tl.load(x_ptr + row * stride + (start + offsets) * step, mask=inside, other=0.0)
        total += x
        tl.store(y_ptr + row * columns + start + offsets, x, mask=inside)
    tl.sum(total, axis=0)


@triton.jit
def square(a_ptr, c_ptr):
    at = tl.arange(0, 16)
    place = at[:, None] * 16 + at[None, :]
    a = tl.load(a_ptr + place)
    tl.store(c_ptr + place, tl.dot(a, a))

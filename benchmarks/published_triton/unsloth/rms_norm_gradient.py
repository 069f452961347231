"""An RMS norm and the gradient of its rows, with settings that are computed from the width."""

import torch
import triton
import triton.language as tl

FAULT = "n_cols * dY_W - normed * rowsum", "n_cols * dY_W + normed * rowsum"
MAX_FUSED_SIZE: int = 65536
next_power_of_2 = triton.next_power_of_2


def calculate_settings(n: int) -> (int, int):
    BLOCK_SIZE: int = next_power_of_2(n)
    if BLOCK_SIZE > MAX_FUSED_SIZE:
        raise RuntimeError(f"n = {n} exceeds the maximum CUDA blocksize = {MAX_FUSED_SIZE}.")
    num_warps: int = 4
    if BLOCK_SIZE >= 32768:
        num_warps = 32
    elif BLOCK_SIZE >= 8192:
        num_warps = 16
    elif BLOCK_SIZE >= 2048:
        num_warps = 8
    return BLOCK_SIZE, num_warps


@triton.jit
def _rms_forward(
    Y, Y_row_stride: tl.constexpr, X, X_row_stride: tl.constexpr, W, W_row_stride: tl.constexpr, r,
    r_row_stride: tl.constexpr, n_cols: tl.constexpr, eps: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row_idx = tl.program_id(0)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    Y += row_idx * Y_row_stride
    X += row_idx * X_row_stride
    r += row_idx * r_row_stride
    X_row = tl.load(X + col_offsets, mask=mask, other=0).to(tl.float32)
    W_row = tl.load(W + col_offsets, mask=mask, other=0)
    row_var = tl.sum(X_row * X_row, axis=0) / n_cols
    inv_var = tl.math.rsqrt(row_var + eps)
    tl.store(r, inv_var)
    normed = X_row * inv_var
    normed = normed.to(W_row.dtype)
    tl.store(Y + col_offsets, normed * W_row, mask=mask)


def _rms_backward(
    dY, dY_row_stride: tl.constexpr, dX, X, X_row_stride: tl.constexpr, W, r, n_cols: tl.constexpr,
    GEMMA: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row_idx = tl.program_id(0)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    dY += row_idx * dY_row_stride
    X += row_idx * X_row_stride
    r += row_idx
    if GEMMA:
        dX += row_idx * dY_row_stride
    else:
        dX = dY
    dY_row = tl.load(dY + col_offsets, mask=mask, other=0).to(tl.float32)
    X_row = tl.load(X + col_offsets, mask=mask, other=0).to(tl.float32)
    W_row = tl.load(W + col_offsets, mask=mask, other=0).to(tl.float32)
    inv_var = tl.load(r).to(tl.float32)
    normed = X_row * inv_var
    if GEMMA:
        dY_W = dY_row * (W_row + 1.0)
    else:
        dY_W = dY_row * W_row
    rowsum = tl.sum(dY_W * normed, axis=0)
    output = inv_var / n_cols * (n_cols * dY_W - normed * rowsum)
    tl.store(dX + col_offsets, output, mask=mask)


_rms_backward = triton.jit(_rms_backward)
_rms_backward = triton.heuristics({"GEMMA": lambda args: bool(args["GEMMA"])})(_rms_backward)


class Fast_RMS(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X: torch.Tensor, W: torch.Tensor, eps: float):
        X = X.reshape(-1, X.shape[-1])
        n_rows, n_cols = X.shape
        BLOCK_SIZE, num_warps = calculate_settings(n_cols)
        Y = torch.empty((n_rows, n_cols), dtype=X.dtype, device=X.device)
        r = torch.empty(n_rows, dtype=torch.float32, device=X.device)
        with torch.cuda.device(X.device):
            _rms_forward[(n_rows,)](
                Y, Y.stride(0), X, X.stride(0), W, W.stride(0), r, r.stride(0), n_cols, eps,
                BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps,
            )  # fmt: skip
        ctx.settings = BLOCK_SIZE, num_warps
        ctx.save_for_backward(X, W, r)
        return Y

    @staticmethod
    def backward(ctx, dY: torch.Tensor):
        X, W, r = ctx.saved_tensors
        (n_rows, n_cols), (BLOCK_SIZE, num_warps) = X.shape, ctx.settings
        dY = dY.reshape(-1, n_cols).clone()
        _rms_backward[(n_rows,)](
            dY, dY.stride(0), dY, X, X.stride(0), W, r, n_cols, GEMMA=False, BLOCK_SIZE=BLOCK_SIZE,
            num_warps=num_warps,
        )  # fmt: skip
        return dY, None, None


def with_gradient(function, x, w, dy):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = function(x, w, 1e-5)
        y.backward(dy)
    return y.detach(), x.grad


class ModelNew(torch.nn.Module):
    def forward(self, x, w, dy):
        return with_gradient(Fast_RMS.apply, x.contiguous(), w.contiguous(), dy)


def plain(x, w, eps):
    wide = x.float()
    return w * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


class Model(torch.nn.Module):
    def forward(self, x, w, dy):
        return with_gradient(plain, x, w, dy)


def get_inputs():
    R = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    return [R(7, 40), R(40), R(7, 40)]


def get_init_inputs():
    return []

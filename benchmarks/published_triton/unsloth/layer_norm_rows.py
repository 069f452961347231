"""A layer norm of rows in single precision, whose gradient replaces the one that comes in."""

import torch
import triton
import triton.language as tl

FAULT = "tl.where(mask, X_row - mean_X, 0)", "(X_row - mean_X)"


@triton.jit
def layernorm_forward(
    Y, Y_row_stride, X, X_row_stride, W, b, r, mu, n_cols: tl.constexpr, eps: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row_idx = tl.program_id(0)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    X_row = tl.load(X + row_idx * X_row_stride + col_offsets, mask=mask, other=0).to(tl.float32)
    W_row = tl.load(W + col_offsets, mask=mask, other=0).to(tl.float32)
    b_row = tl.load(b + col_offsets, mask=mask, other=0).to(tl.float32)
    mean_X = tl.sum(X_row, axis=0) / n_cols
    XX = tl.where(mask, X_row - mean_X, 0)
    row_var = tl.sum(XX * XX, axis=0) / n_cols
    inv_var = tl.math.rsqrt(row_var + eps)
    tl.store(r + row_idx, inv_var)
    tl.store(mu + row_idx, mean_X)
    tl.store(Y + row_idx * Y_row_stride + col_offsets, (XX * inv_var) * W_row + b_row, mask=mask)


@triton.jit
def layernorm_backward(
    dY, dY_row_stride, X, X_row_stride, W, r, mu, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    row_idx = tl.program_id(0)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    dY += row_idx * dY_row_stride
    dY_row = tl.load(dY + col_offsets, mask=mask, other=0).to(tl.float32)
    X_row = tl.load(X + row_idx * X_row_stride + col_offsets, mask=mask, other=0).to(tl.float32)
    W_row = tl.load(W + col_offsets, mask=mask, other=0).to(tl.float32)
    inv_var, mean = tl.load(r + row_idx).to(tl.float32), tl.load(mu + row_idx).to(tl.float32)
    normed = (X_row - mean) * inv_var
    dY_W = dY_row * W_row
    dX_row = dY_W - tl.sum(dY_W, axis=0) / n_cols - normed * tl.sum(dY_W * normed, axis=0) / n_cols
    tl.store(dY + col_offsets, dX_row * inv_var, mask=mask)


class Fast_Layernorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X, W, b, eps):
        n_rows, n_cols = X.shape
        size = triton.next_power_of_2(n_cols)
        Y, (r, mu) = torch.empty_like(X), torch.empty(2, n_rows, device=X.device)
        with torch.cuda.device(X.device):
            layernorm_forward[(n_rows,)](
                Y, Y.stride(0), X, X.stride(0), W, b, r, mu, n_cols, eps, BLOCK_SIZE=size
            )
        ctx.save_for_backward(X, W, r, mu)
        return Y

    @staticmethod
    def backward(ctx, dY):
        X, W, r, mu = ctx.saved_tensors
        dY = dY.contiguous().clone()
        layernorm_backward[(X.shape[0],)](
            dY, dY.stride(0), X, X.stride(0), W, r, mu, X.shape[1],
            BLOCK_SIZE=triton.next_power_of_2(X.shape[1]), num_warps=4,
        )  # fmt: skip
        return dY, None, None, None


def with_gradient(function, x, w, b, dy):
    with torch.enable_grad():
        x = x.detach().contiguous().requires_grad_()
        y = function(x, w, b, 1e-5)
        y.backward(dy)
    return y.detach(), x.grad


class ModelNew(torch.nn.Module):
    def forward(self, x, w, b, dy):
        return with_gradient(Fast_Layernorm.apply, x, w.contiguous(), b.contiguous(), dy)


def plain(x, w, b, eps):
    wide = torch.nn.functional.layer_norm(x.float(), x.shape[-1:], w.float(), b.float(), eps)
    return wide.to(x.dtype)


class Model(torch.nn.Module):
    def forward(self, x, w, b, dy):
        return with_gradient(plain, x, w, b, dy)


def get_inputs():
    R = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    return [R(7, 40) + 1, R(40), R(40), R(7, 40)]


def get_init_inputs():
    return []

"""Weights by a direction and a length for each row, and their gradients; autograd is the wrapper's."""

import torch
import triton
import triton.language as tl

FAULT = "g * v_value / norm", "v_value / norm"


def sizes():
    return [triton.Config({"ROWS": r, "COLS": c}) for r, c in ((1, 64), (4, 16))]


@triton.autotune(configs=sizes(), key=["M", "N"])
@triton.jit(do_not_specialize=["eps"])
def norm_kernel(Out, Norm, V, G, M, N, eps, ROWS: tl.constexpr, COLS: tl.constexpr):
    ty = tl.arange(0, ROWS)[:, None]
    tx = tl.arange(0, COLS)[None, :]
    row = tl.program_id(axis=0) * ROWS + ty
    row_mask = row < M
    square = tl.zeros([ROWS, COLS], dtype=tl.float32)
    for base in range(0, N, COLS):
        col = base + tx
        mask = col < N and row_mask
        v_value = tl.load(V + row * N + col, mask=mask).to(tl.float32)
        square += tl.where(mask, v_value * v_value, 0.0)
    norm = tl.sqrt(tl.sum(square, axis=1)[:, None] + eps)
    tl.store(Norm + row, norm, mask=row_mask)
    g = tl.load(G + row, mask=row_mask).to(tl.float32)
    for base in range(0, N, COLS):
        col = base + tx
        mask = col < N and row_mask
        v_value = tl.load(V + row * N + col, mask=mask).to(tl.float32)
        tl.store(Out + row * N + col, g * v_value / norm, mask=mask)


@triton.autotune(configs=sizes(), key=["M", "N"])
@triton.jit
def gradient_kernel(DV, DG, DW, V, G, Norm, M, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(axis=0) * ROWS + tl.arange(0, ROWS)[:, None]
    tx = tl.arange(0, COLS)[None, :]
    row_mask = row < M
    g = tl.load(G + row, mask=row_mask).to(tl.float32)
    norm = tl.load(Norm + row, mask=row_mask, other=1.0)
    product = tl.zeros([ROWS, COLS], dtype=tl.float32)
    for base in range(0, N, COLS):
        mask = base + tx < N and row_mask
        v = tl.load(V + row * N + base + tx, mask=mask, other=0.0).to(tl.float32)
        product += v * tl.load(DW + row * N + base + tx, mask=mask, other=0.0).to(tl.float32)
    total = tl.sum(product, 1)[:, None]
    for base in range(0, N, COLS):
        mask = base + tx < N and row_mask
        v = tl.load(V + row * N + base + tx, mask=mask, other=0.0).to(tl.float32)
        dw = tl.load(DW + row * N + base + tx, mask=mask, other=0.0).to(tl.float32)
        dv = g * (dw / norm - v * total / (norm * norm * norm))
        tl.store(DV + row * N + base + tx, dv, mask=mask)
    tl.store(DG + row, total / norm, mask=row_mask)


class WeightNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v, g):
        v, g = v.contiguous(), g.contiguous()
        M, N = v.shape
        out, norm = torch.empty_like(v), torch.empty(M, 1, device=v.device)
        with torch.cuda.device(v.device):
            norm_kernel[lambda meta: (triton.cdiv(M, meta["ROWS"]),)](out, norm, v, g, M, N, 1e-12)
        ctx.save_for_backward(v, g, norm)
        return out

    @staticmethod
    def backward(ctx, dw):
        v, g, norm = ctx.saved_tensors
        M, N = v.shape
        dv, dg, dw = torch.empty_like(v), torch.empty_like(g), dw.contiguous()
        grid = lambda meta: (triton.cdiv(M, meta["ROWS"]),)
        gradient_kernel[grid](dv, dg, dw, v, g, norm, M, N)
        return dv, dg


def with_gradients(function, v, g, dw):
    with torch.enable_grad():
        v, g = v.detach().requires_grad_(), g.detach().requires_grad_()
        w = function(v, g)
        w.backward(dw)
    return w.detach(), v.grad, g.grad


class ModelNew(torch.nn.Module):
    def forward(self, v, g, dw):
        return with_gradients(WeightNorm.apply, v, g, dw)


class Model(torch.nn.Module):
    def forward(self, v, g, dw):
        length = lambda v: (v.float().square().sum(1, keepdim=True) + 1e-12).sqrt()
        return with_gradients(lambda v, g: (g * v.float() / length(v)).to(v.dtype), v, g, dw)


def get_inputs():
    R = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    return [R(7, 40), R(7, 1), R(7, 40)]


def get_init_inputs():
    return []

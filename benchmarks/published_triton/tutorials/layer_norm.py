"""A layer norm and its gradients; those of the weights are summed under locks."""

import torch
import triton
import triton.language as tl

FAULT = "dw += tl.load(DW, mask=inside)", "dw += 0"
GROUPS = 4


@triton.jit
def forward_kernel(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        total += tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    square = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        square += x * x
    rstd = 1 / tl.sqrt(tl.sum(square, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        inside = cols < N
        w, b = tl.load(W + cols, mask=inside), tl.load(B + cols, mask=inside)
        x = tl.load(X + cols, mask=inside, other=0.0).to(tl.float32)
        tl.store(Y + cols, (x - mean) * rstd * w + b, mask=inside)


@triton.jit
def backward_kernel(
    DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    place = row % GROUPS
    Lock += place
    Count = Lock + GROUPS
    DW += place * N + cols
    DB += place * N + cols
    x = tl.load(X + row * stride + cols, mask=inside, other=0).to(tl.float32)
    dy = tl.load(DY + row * stride + cols, mask=inside, other=0).to(tl.float32)
    w = tl.load(W + cols, mask=inside).to(tl.float32)
    mean, rstd = tl.load(Mean + row), tl.load(Rstd + row)
    xhat = tl.where(inside, (x - mean) * rstd, 0.0)
    wdy = tl.where(inside, w * dy, 0.0)
    c1, c2 = tl.sum(xhat * wdy, axis=0) / N, tl.sum(wdy, axis=0) / N
    tl.store(DX + row * stride + cols, (wdy - (xhat * c1 + c2)) * rstd, mask=inside)
    dw, db = (dy * xhat).to(tl.float32), dy.to(tl.float32)
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    if tl.load(Count) == 0:
        tl.atomic_xchg(Count, 1)
    else:
        dw += tl.load(DW, mask=inside)
        db += tl.load(DB, mask=inside)
    tl.store(DW, dw, mask=inside)
    tl.store(DB, db, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


class ModelNew(torch.nn.Module):
    def forward(self, x, w, b, dy):
        x, dy = x.contiguous(), dy.contiguous()
        M, N = x.shape
        y, dx = torch.empty_like(x), torch.empty_like(x)
        mean = torch.empty((M,), dtype=torch.float32, device="cuda")
        rstd = torch.empty((M,), dtype=torch.float32, device="cuda")
        forward_kernel[(M,)](x, y, w, b, mean, rstd, x.stride(0), N, 1e-5, BLOCK=32, num_warps=4)
        locks = torch.zeros(2 * GROUPS, dtype=torch.int32, device=w.device)
        dw = torch.zeros((GROUPS, N), dtype=torch.float32, device=w.device)
        db = torch.zeros((GROUPS, N), dtype=torch.float32, device=w.device)
        backward_kernel[(M,)](
            dx,
            dy,
            dw,
            db,
            x,
            w,
            mean,
            rstd,
            locks,
            x.stride(0),
            N,
            GROUPS=GROUPS,
            BLOCK=triton.next_power_of_2(N),
            num_ctas=1,
        )
        return y, dx, dw.sum(0).to(w.dtype), db.sum(0).to(w.dtype)


class Model(torch.nn.Module):
    def forward(self, x, w, b, dy):
        wide, grad, scale = x.float(), dy.float(), w.float()
        mean = wide.mean(-1, keepdim=True)
        rstd = torch.rsqrt(wide.var(-1, keepdim=True, unbiased=False) + 1e-5)
        xhat = (wide - mean) * rstd
        wdy = scale * grad
        dx = (wdy - xhat * (xhat * wdy).mean(-1, keepdim=True) - wdy.mean(-1, keepdim=True)) * rstd
        y = (xhat * scale + b.float()).to(x.dtype)
        return y, dx.to(x.dtype), (grad * xhat).sum(0).to(w.dtype), grad.sum(0).to(w.dtype)


def get_inputs():
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    return [make(12, 48), make(48), make(48), make(12, 48)]


def get_init_inputs():
    return []

"""A learned tanh in the place of a norm: a tuned grid forward, partial sums a program backward."""

import torch
import triton
import triton.language as tl
from triton.language.extra.libdevice import tanh

FAULT = "(1 - t * t) * dy * gamma", "(1 + t * t) * dy * gamma"


@triton.autotune([triton.Config({"BLOCK_N": n}) for n in (16, 32)], key=["N"])
@triton.jit
def forward_kernel(
    X, Y, Alpha, Gamma, Beta, HAVE_BETA: tl.constexpr, N: tl.constexpr, BLOCK_N: tl.constexpr
):
    col = tl.cast(tl.program_id(0), tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = col < N
    row = tl.cast(tl.program_id(1), tl.int64)
    alpha = tl.load(Alpha).to(tl.float32)
    gamma = tl.load(Gamma + col, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(X + row * N + col, mask=mask, other=0.0).to(tl.float32)
    y = tanh((alpha * x).cast(tl.float32)) * gamma
    if HAVE_BETA:
        y += tl.load(Beta + col, mask=mask, other=0.0).to(tl.float32)
    tl.store(Y + row * N + col, y, mask=mask)


@triton.autotune([triton.Config({"BLOCK_N": n}) for n in (16, 32)], key=["N"])
@triton.jit
def backward_kernel(DY, DX, DA, DG, DB, X, Alpha, Gamma, M, N: tl.constexpr, BLOCK_N: tl.constexpr):
    col = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = col < N
    start = tl.program_id(1)
    alpha = tl.load(Alpha).to(tl.float32)
    gamma = tl.load(Gamma + col, mask=mask, other=0.0).to(tl.float32)
    da, dg, db = 0.0, tl.zeros((BLOCK_N,), tl.float32), tl.zeros((BLOCK_N,), tl.float32)
    for row in range(start, M, tl.num_programs(1)):
        x = tl.load(X + row * N + col, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(DY + row * N + col, mask=mask, other=0.0).to(tl.float32)
        t = tanh((alpha * x).cast(tl.float32))
        inner = (1 - t * t) * dy * gamma
        db += dy
        dg += dy * t
        da += tl.sum(x * inner, 0)
        tl.store(DX + row * N + col, alpha * inner, mask=mask)
    tl.store(DG + start * N + col, dg, mask=mask)
    tl.store(DB + start * N + col, db, mask=mask)
    tl.store(DA + start * tl.cdiv(N, 16) + tl.program_id(0), da)


class TanhNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha, gamma, beta):
        shape, N = x.shape, x.shape[-1]
        x = x.contiguous().view(-1, N)
        y = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(N, meta["BLOCK_N"]), x.shape[0])
        forward_kernel[grid](x, y, alpha, gamma, beta, beta is not None, N)
        ctx.save_for_backward(x, alpha, gamma)
        return y.view(shape)

    @staticmethod
    def backward(ctx, dy):
        x, alpha, gamma = ctx.saved_tensors
        (M, N), shape = x.shape, dy.shape
        sms = torch.cuda.get_device_properties(x.device).multi_processor_count
        da = torch.zeros(sms, triton.cdiv(N, 16), dtype=torch.float32, device=x.device)
        dg, db = (torch.empty(sms, N, dtype=torch.float32, device=x.device) for _ in range(2))
        dy, dx = dy.contiguous().view(M, N), torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(N, meta["BLOCK_N"]), sms)
        backward_kernel[grid](dy, dx, da, dg, db, x, alpha, gamma, M, N)
        da = da.sum().to(alpha.dtype).unsqueeze(0)
        return dx.view(shape), da, dg.sum(0).to(gamma.dtype), db.sum(0).to(gamma.dtype)


def with_gradients(function, dy, *given):
    with torch.enable_grad():
        given = [each.detach().requires_grad_() for each in given]
        y = function(*given)
        y.backward(dy)
    return y.detach(), *(each.grad for each in given)


class ModelNew(torch.nn.Module):
    def forward(self, x, alpha, gamma, beta, dy):
        return with_gradients(TanhNorm.apply, dy, x, alpha, gamma, beta)


class Model(torch.nn.Module):
    def forward(self, x, alpha, gamma, beta, dy):
        plain = lambda x, a, g, b: (torch.tanh(x.float() * a.float()) * g + b).to(x.dtype)
        return with_gradients(plain, dy, x, alpha, gamma, beta)


def get_inputs():
    R = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    return [R(2, 4, 40), R(1), R(40), R(40), R(2, 4, 40)]


def get_init_inputs():
    return []

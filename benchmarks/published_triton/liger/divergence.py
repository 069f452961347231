"""A generalised Jensen-Shannon divergence of log probabilities, and its gradient, in one pass."""

import torch
import triton
import triton.language as tl

FAULT = "beta * P + (1 - beta) * Q", "beta * Q + (1 - beta) * P"


@triton.jit
def jsd_kernel(
    X, X_stride, Y, Y_stride, Loss, loss_stride, DX, n_cols, n_rows,
    beta: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    X += pid * X_stride
    DX += pid * X_stride
    Y += pid * Y_stride
    Loss += pid * loss_stride
    for i in range(0, n_cols, BLOCK):
        at = i + tl.arange(0, BLOCK)
        x = tl.load(X + at, mask=at < n_cols, other=float("-inf")).to(tl.float32)
        y = tl.load(Y + at, mask=at < n_cols, other=float("-inf")).to(tl.float32)
        if beta == 0.0:
            y_prob = tl.exp(y)
            loss = y_prob * (y - x)
            dx = -y_prob
        elif beta == 1.0:
            x_prob = tl.exp(x)
            loss = x_prob * (x - y)
            dx = loss + x_prob
        else:
            biggest = max(tl.max(x), tl.max(y))
            Q, P = tl.exp(x - biggest), tl.exp(y - biggest)
            M = beta * P + (1 - beta) * Q
            log_M = tl.log(tl.where(at < n_cols, M, 1.0)) + biggest
            Q, P, M = Q * tl.exp(biggest), P * tl.exp(biggest), M * tl.exp(biggest)
            loss = beta * P * y + (1 - beta) * Q * x - M * log_M
            dx = (1 - beta) * Q * (x - log_M)
        scale = 1.0 / n_rows
        tl.store(Loss + at, loss * scale, mask=at < n_cols)
        tl.store(DX + at, dx * scale, mask=at < n_cols)


def fused(x, y, beta):
    rows, cols = x.shape
    loss = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    dx = torch.empty_like(x)
    jsd_kernel[(rows,)](
        x, x.stride(-2), y, y.stride(-2), loss, loss.stride(-2), dx, cols, rows,
        beta=beta, BLOCK=min(64, triton.next_power_of_2(cols)),
    )  # fmt: skip
    return loss.sum(), dx


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        x, y = x.float().log_softmax(-1), y.float().log_softmax(-1)
        return tuple(each for beta in (0.0, 0.3, 1.0) for each in fused(x, y, beta))


def plain(x, y, beta):
    q, p = x.exp(), y.exp()
    if beta == 0.0:
        return (p * (y - x)).sum() / x.shape[0], -p / x.shape[0]
    if beta == 1.0:
        return (q * (x - y)).sum() / x.shape[0], (q * (x - y) + q) / x.shape[0]
    m = torch.log(beta * p + (1 - beta) * q)
    loss = beta * p * (y - m) + (1 - beta) * q * (x - m)
    return loss.sum() / x.shape[0], (1 - beta) * q * (x - m) / x.shape[0]


class Model(torch.nn.Module):
    def forward(self, x, y):
        x, y = x.float().log_softmax(-1), y.float().log_softmax(-1)
        return tuple(each for beta in (0.0, 0.3, 1.0) for each in plain(x, y, beta))


def get_inputs():
    return [torch.randn(5, 90, device="cuda", dtype=torch.bfloat16) for _ in range(2)]


def get_init_inputs():
    return []

"""Cross entropy by an online softmax over parts of the classes, and its gradients."""

import torch
import triton
import triton.language as tl

FAULT = "d * tl.exp(m - m_new)", "d"


@triton.jit
def entropy_kernel(
    X, x_stride, G, Y, Loss, n_cols, ignored, scale, HAS_SOFTCAP: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    y = tl.load(Y + row)
    X += row * x_stride
    G += row * x_stride
    if y == ignored:
        for i in range(0, n_cols, BLOCK):
            at = i + tl.arange(0, BLOCK)
            tl.store(G + at, 0.0, mask=at < n_cols)
        tl.store(Loss + row, 0.0)
        return
    m = float("-inf")
    d = 0.0
    ori = tl.load(X + y).to(tl.float32)
    for i in range(0, n_cols, BLOCK):
        at = i + tl.arange(0, BLOCK)
        x = tl.load(X + at, mask=at < n_cols, other=float("-inf")).cast(tl.float32)
        m_new = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new))
        m = m_new
    lse = m + tl.log(d)
    for i in range(0, n_cols, BLOCK):
        at = i + tl.arange(0, BLOCK)
        x = tl.load(X + at, mask=at < n_cols, other=float("-inf")).cast(tl.float32)
        g = tl.exp(x - m) / d
        g = tl.where(at != y, g, g - 1.0) * scale
        tl.store(G + at, g, mask=at < n_cols)
    tl.debug_barrier()
    tl.store(Loss + row, (lse - ori) * scale)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        x = x.contiguous()
        rows, classes = x.shape
        loss = torch.zeros(rows, dtype=torch.float32, device=x.device)
        grad = torch.empty_like(x)
        block = min(32, triton.next_power_of_2(classes))
        with torch.cuda.device_of(x):
            entropy_kernel[(rows,)](
                x,
                x.stride(-2),
                grad,
                y,
                loss,
                classes,
                -100,
                1.0 / rows,
                HAS_SOFTCAP=False,
                BLOCK=block,
            )
        torch.cuda.synchronize()
        return loss.sum(), grad


class Model(torch.nn.Module):
    def forward(self, x, y):
        wide = x.float()
        loss = torch.nn.functional.cross_entropy(wide, y)
        there = torch.nn.functional.one_hot(y, x.shape[1])
        return loss, ((wide.softmax(-1) - there) / x.shape[0]).to(x.dtype)


def get_inputs():
    x = torch.randn(9, 70, device="cuda", dtype=torch.bfloat16)
    return [x, torch.randint(0, 70, (9,), device="cuda")]


def get_init_inputs():
    return []

"""A recurrence with a gate for each channel, forward and backward, one step of time after another."""

import torch
import triton
import triton.language as tl

FAULT = "b_dh * tl.exp(b_g)", "b_dh * b_g"


@triton.heuristics({
    "USE_INITIAL_STATE": lambda args: args["h0"] is not None,
    "STORE_FINAL_STATE": lambda args: args["ht"] is not None,
})  # fmt: skip
@triton.autotune(
    [triton.Config({"BD": d}, num_warps=w) for d in (16, 32) for w in (1, 2)], key=["D"]
)
@triton.jit(do_not_specialize=["T"])
def forward_kernel(
    x, g, o, h0, ht, T, D: tl.constexpr, BD: tl.constexpr, USE_INITIAL_STATE: tl.constexpr,
    STORE_FINAL_STATE: tl.constexpr,
):  # fmt: skip
    i_d, i_n = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o_d = i_d * BD + tl.arange(0, BD)
    mask = o_d < D
    p_x, p_g, p_o = x + i_n * T * D + o_d, g + i_n * T * D + o_d, o + i_n * T * D + o_d
    b_h = tl.zeros([BD], dtype=tl.float32)
    if USE_INITIAL_STATE:
        b_h += tl.load(h0 + i_n * D + o_d, mask=mask, other=0).to(tl.float32)
    for _ in range(0, T):
        b_x = tl.load(p_x, mask=mask, other=0).to(tl.float32)
        b_g = tl.load(p_g, mask=mask, other=0).to(tl.float32)
        b_h = tl.exp(b_g) * b_h + b_x
        tl.store(p_o, b_h.to(p_o.dtype.element_ty), mask=mask)
        p_x += D
        p_g += D
        p_o += D
    if STORE_FINAL_STATE:
        tl.store(ht + i_n * D + o_d, b_h.to(ht.dtype.element_ty), mask=mask)


@triton.autotune([triton.Config({"BD": d}, num_warps=1) for d in (16, 32)], key=["D"])
@triton.jit(do_not_specialize=["T"])
def backward_kernel(g, o, dx, dg, do, T, D: tl.constexpr, BD: tl.constexpr):
    i_d, i_n = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o_d = i_d * BD + tl.arange(0, BD)
    mask = o_d < D
    last = (i_n * T + T - 1) * D + o_d
    p_g, p_do, p_dx, p_dg = g + last, do + last, dx + last, dg + last
    p_o = o + last - D
    b_dh = tl.zeros([BD], dtype=tl.float32)
    for i in range(T - 1, -1, -1):
        b_g = tl.load(p_g, mask=mask, other=0).to(tl.float32)
        b_do = tl.load(p_do, mask=mask, other=0).to(tl.float32)
        if i > 0:
            b_o = tl.load(p_o, mask=mask, other=0).to(tl.float32)
        else:
            b_o = tl.zeros([BD], dtype=tl.float32)
        b_dh = b_dh + b_do
        b_dx = b_dh
        b_dh = b_dh * tl.exp(b_g)
        tl.store(p_dx, b_dx.to(p_dx.dtype.element_ty), mask=mask)
        tl.store(p_dg, (b_dh * b_o).to(p_dg.dtype.element_ty), mask=mask)
        p_g -= D
        p_do -= D
        p_dx -= D
        p_dg -= D
        p_o -= D


class Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, g):
        x, g = x.contiguous(), g.contiguous()
        B, T, D = x.shape
        o, ht = torch.empty_like(x, dtype=torch.float32), x.new_empty(B, D, dtype=torch.float32)
        grid = lambda meta: (triton.cdiv(D, meta["BD"]), B)
        forward_kernel[grid](x, g, o, None, ht, T, D)
        ctx.save_for_backward(g, o)
        ctx.mark_non_differentiable(ht)
        return o.to(x.dtype), ht

    @staticmethod
    def backward(ctx, do, dht=None):
        g, o = ctx.saved_tensors
        B, T, D = do.shape
        dx, dg = torch.empty_like(o, dtype=do.dtype), torch.empty_like(g)
        grid = lambda meta: (triton.cdiv(D, meta["BD"]), B)
        backward_kernel[grid](g, o, dx, dg, do.contiguous(), T, D)
        return dx, dg


def with_gradients(function, x, g, do):
    with torch.enable_grad():
        x, g = x.detach().requires_grad_(), g.detach().requires_grad_()
        o, ht = function(x, g)
        o.backward(do)
    return o.detach(), ht.detach(), x.grad, g.grad


class ModelNew(torch.nn.Module):
    def forward(self, x, g, do):
        return with_gradients(Recurrence.apply, x, g, do)


def plain(x, g):
    h, all_h = 0.0, []
    for t in range(x.shape[1]):
        h = g[:, t].float().exp() * h + x[:, t].float()
        all_h.append(h)
    return torch.stack(all_h, 1).to(x.dtype), h


class Model(torch.nn.Module):
    def forward(self, x, g, do):
        return with_gradients(plain, x, g, do)


def get_inputs():
    R = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    return [R(2, 9, 40), -torch.rand(2, 9, 40, device="cuda"), R(2, 9, 40)]


def get_init_inputs():
    return []

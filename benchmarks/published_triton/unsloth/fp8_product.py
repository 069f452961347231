"""A product in float8 with a scale for each group of a row and each square of the weights."""

import torch
import triton
import triton.language as tl

FAULT = "* a_s[:, None] * b_s[None, :]", "* a_s[:, None]"
SIZE = 32


@triton.jit
def act_quant_kernel(x_ptr, y_ptr, s_ptr, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offs = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offs).to(tl.float32)
    s = tl.max(tl.abs(x)) / 448.0
    s = 1.0 if s == 0 else s
    y = (x / s).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + offs, y)
    tl.store(s_ptr + pid, s)


@triton.jit
def block_product(
    A, B, C, As, Bs, M, N, K, group_k, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
    stride_cn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    num_pid_m, num_pid_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first = pid // (GROUP * num_pid_n) * GROUP
    size = min(num_pid_m - first, GROUP)
    pid_m = first + pid % size
    pid_n = (pid % (GROUP * num_pid_n)) // size
    offs_am = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_bn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = A + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = B + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    As_ptrs = As + offs_am * tl.cdiv(K, group_k)
    Bs_ptrs = Bs + (offs_bn // BLOCK_N) * tl.cdiv(K, group_k)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        offs_ks = k * BLOCK_K // group_k
        a_s = tl.load(As_ptrs + offs_ks)
        b_s = tl.load(Bs_ptrs + offs_ks)
        accumulator += tl.dot(a, b) * a_s[:, None] * b_s[None, :]
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if C.dtype.element_ty == tl.bfloat16:
        c = accumulator.to(tl.bfloat16)
    elif C.dtype.element_ty == tl.float16:
        c = accumulator.to(tl.float16)
    else:
        c = accumulator.to(tl.float32)
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = C + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


class ModelNew(torch.nn.Module):
    def forward(self, x, weight, scale):
        x, weight = x.contiguous(), weight.contiguous()
        (M, K), N = x.shape, weight.shape[0]
        y = torch.empty_like(x, dtype=torch.float8_e4m3fn)
        s = x.new_empty(M, K // SIZE, dtype=torch.float32)
        act_quant_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK_SIZE"]),)](
            x, y, s, BLOCK_SIZE=SIZE
        )
        c = x.new_empty(M, N)
        grid = lambda META: (triton.cdiv(M, META["BLOCK_M"]) * triton.cdiv(N, META["BLOCK_N"]),)
        block_product[grid](
            y, weight, c, s, scale, M, N, K, SIZE, y.stride(0), y.stride(1), weight.stride(1),
            weight.stride(0), c.stride(0), c.stride(1), BLOCK_M=16, BLOCK_N=SIZE, BLOCK_K=SIZE,
            GROUP=2,
        )  # fmt: skip
        return c


class Model(torch.nn.Module):
    def forward(self, x, weight, scale):
        groups = x.float().unflatten(1, (-1, SIZE))
        s = groups.abs().amax(-1, keepdim=True) / 448.0
        s = torch.where(s == 0, 1.0, s)
        wide = ((groups / s).to(torch.float8_e4m3fn).float() * s).flatten(1)
        scales = scale.repeat_interleave(SIZE, 0).repeat_interleave(SIZE, 1)
        return (wide @ (weight.float() * scales).T).to(x.dtype)


def get_inputs():
    x = torch.randn(20, 96, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(64, 96, device="cuda").to(torch.float8_e4m3fn)
    return [x, weight, torch.rand(2, 3, device="cuda")]


def get_init_inputs():
    return []


FIXED_SHAPE = True

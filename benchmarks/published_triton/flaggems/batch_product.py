"""Products of matrices in a batch: heuristics leave masks out where sizes divide, grids are swizzled."""

import torch
import triton
import triton.language as tl

FAULT = "offs_k < K - start_k * TILE_K", "offs_k < K - start_k * TILE_K - 1"


@triton.autotune(
    configs=[triton.Config({"TILE_K": k, "GROUP_M": g}) for k, g in ((16, 1), (32, 2))],
    key=["M", "N", "K"],
)
@triton.heuristics({
    "DIVISIBLE_M": lambda args: args["M"] % args["TILE_M"] == 0,
    "DIVISIBLE_N": lambda args: args["N"] % args["TILE_N"] == 0,
    "DIVISIBLE_K": lambda args: args["K"] % args["TILE_K"] == 0,
})  # fmt: skip
@triton.jit
def bmm_kernel(
    A, B, O, M, N, K, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
    GROUP_M: tl.constexpr, DIVISIBLE_M: tl.constexpr, DIVISIBLE_N: tl.constexpr,
    DIVISIBLE_K: tl.constexpr,
):  # fmt: skip
    pid_b = tl.program_id(2)
    A, B, O = A + pid_b * M * K, B + pid_b * K * N, O + pid_b * M * N
    pidx, pidy = tl.program_id(0), tl.program_id(1)
    if GROUP_M == 1:
        pid_m, pid_n = pidx, pidy
    else:
        gridx, gridy = tl.num_programs(0), tl.num_programs(1)
        pid_m, pid_n = tl.swizzle2d(pidx, pidy, gridx, gridy, GROUP_M)
    offs_m = pid_m * TILE_M + tl.arange(0, TILE_M)
    offs_n = pid_n * TILE_N + tl.arange(0, TILE_N)
    offs_k = tl.arange(0, TILE_K)
    if not DIVISIBLE_M:
        mask_m = offs_m < M
    if not DIVISIBLE_N:
        mask_n = offs_n < N
    a_ptrs = A + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = B + offs_k[:, None] * N + offs_n[None, :]
    o = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for start_k in range(tl.cdiv(K, TILE_K)):
        if DIVISIBLE_K:
            mask_a = None if DIVISIBLE_M else mask_m[:, None]
            mask_b = None if DIVISIBLE_N else mask_n[None, :]
        else:
            mask_k = offs_k < K - start_k * TILE_K
            mask_a = mask_k[None, :] if DIVISIBLE_M else mask_m[:, None] & mask_k[None, :]
            mask_b = mask_k[:, None] if DIVISIBLE_N else mask_k[:, None] & mask_n[None, :]
        a = tl.load(a_ptrs, mask_a) if DIVISIBLE_K else tl.load(a_ptrs, mask_a, other=0.0)
        b = tl.load(b_ptrs, mask_b) if DIVISIBLE_K else tl.load(b_ptrs, mask_b, other=0.0)
        o += tl.dot(a, b, allow_tf32=False)
        a_ptrs += TILE_K
        b_ptrs += TILE_K * N
    if DIVISIBLE_M and DIVISIBLE_N:
        mask_c = None
    elif DIVISIBLE_M:
        mask_c = mask_n[None, :]
    elif DIVISIBLE_N:
        mask_c = mask_m[:, None]
    else:
        mask_c = mask_m[:, None] & mask_n[None, :]
    tl.store(O + offs_m[:, None] * N + offs_n[None, :], o, mask_c)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        batch, M, K = a.shape
        N = b.shape[2]
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty((batch, M, N), dtype=a.dtype, device=a.device)
        grid = lambda meta: (
            triton.cdiv(M, meta["TILE_M"]),
            triton.cdiv(N, meta["TILE_N"]),
            batch,
        )
        with torch.cuda.device(a.device):
            bmm_kernel[grid](a, b, out, M, N, K, TILE_M=16, TILE_N=16)
        return out


class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    R = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    return [R(2, 40, 48), R(2, 48, 32)]


def get_init_inputs():
    return []

"""Products of several pairs of matrices, whose addresses lie in a tensor, by few programs."""

import torch, triton, triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()
FAULT = ("acc += tl.dot(a, b)", "acc = tl.dot(a, b)")


def is_cuda():
    return triton.runtime.driver.active.get_current_target().backend == "cuda"


def num_sms():
    if is_cuda():
        return torch.cuda.get_device_properties("cuda").multi_processor_count
    return 148


@triton.autotune(
    configs=[
        triton.Config({"BM": 16, "BN": 32, "BK": 16, "NUM_SM": 4}),
        triton.Config({"BM": 32, "BN": 16, "BK": 16, "NUM_SM": num_sms()}),
    ],
    key=["group_size"],
)
@triton.jit
def grouped(
    pa,
    pb,
    pc,
    sizes,
    lds,
    group_size,
    NUM_SM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    tile = tl.program_id(0)
    last = 0
    for g in range(group_size):
        gm = tl.load(sizes + g * 3)
        gn = tl.load(sizes + g * 3 + 1)
        gk = tl.load(sizes + g * 3 + 2)
        nm = tl.cdiv(gm, BM)
        nn = tl.cdiv(gn, BN)
        n = nm * nn
        while tile >= last and tile < last + n:
            k = gk
            lda = tl.load(lds + g * 3)
            ldb = tl.load(lds + g * 3 + 1)
            ldc = tl.load(lds + g * 3 + 2)
            a_ptr = tl.load(pa + g).to(tl.pointer_type(tl.bfloat16))
            b_ptr = tl.load(pb + g).to(tl.pointer_type(tl.bfloat16))
            c_ptr = tl.load(pc + g).to(tl.pointer_type(tl.bfloat16))
            idx = tile - last
            tile_m = idx // nn
            tile_n = idx % nn
            om = tile_m * BM + tl.arange(0, BM)
            on = tile_n * BN + tl.arange(0, BN)
            ok = tl.arange(0, BK)
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for kk in range(0, tl.cdiv(k, BK)):
                tl.multiple_of(lda, 16)
                a = tl.load(
                    a_ptr + om[:, None] * lda + (kk * BK + ok)[None, :],
                    mask=(om < gm)[:, None] & (kk * BK + ok < k)[None, :],
                    other=0.0,
                )
                b = tl.load(
                    b_ptr + (kk * BK + ok)[:, None] * ldb + on[None, :],
                    mask=(on < gn)[None, :] & (kk * BK + ok < k)[:, None],
                    other=0.0,
                )
                acc += tl.dot(a, b)
            tl.store(
                c_ptr + om[:, None] * ldc + on[None, :],
                acc.to(tl.bfloat16),
                mask=(om < gm)[:, None] & (on < gn)[None, :],
            )
            tile += NUM_SM
        last = last + n


class ModelNew(torch.nn.Module):
    def forward(self, a, b, c, d):
        A = [a.contiguous(), c.contiguous()]
        B = [b.contiguous(), d.contiguous()]
        C = [
            torch.empty(x.shape[0], y.shape[1], device=DEVICE, dtype=x.dtype) for x, y in zip(A, B)
        ]
        ptr = lambda l: torch.tensor([t.data_ptr() for t in l], device=DEVICE)
        sizes = torch.tensor(
            [v for x, y in zip(A, B) for v in (x.shape[0], y.shape[1], x.shape[1])],
            dtype=torch.int32,
            device=DEVICE,
        )
        lds = torch.tensor(
            [v for x, y, z in zip(A, B, C) for v in (x.stride(0), y.stride(0), z.stride(0))],
            dtype=torch.int32,
            device=DEVICE,
        )
        grid = lambda META: (META["NUM_SM"],)
        grouped[grid](ptr(A), ptr(B), ptr(C), sizes, lds, len(A))
        return tuple(C)


class Model(torch.nn.Module):
    def forward(self, a, b, c, d):
        return a @ b, c @ d


def get_inputs():
    r = lambda *s: torch.randn(*s, device=DEVICE, dtype=torch.bfloat16)
    return [r(40, 32), r(32, 48), r(20, 16), r(16, 24)]


def get_init_inputs():
    return []

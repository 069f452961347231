"""The gradients of a gated unit, which replace its three arguments; 64-bit places if it is long."""

import torch
import triton
import triton.language as tl

FAULT = "1.0 + e_row * (1.0 - se_row)", "1.0 - e_row * (1.0 - se_row)"
INT32_SAFETY_BUFFER = 2**31 - 1024 * 4
BLOCK_SIZE: int = 64


@triton.jit
def _DWf_DW_dfg_kernel(DW, e, g, n_elements, BLOCK_SIZE: tl.constexpr, LONG_INDEXING: tl.constexpr):
    block_idx = tl.program_id(0)
    if LONG_INDEXING:
        offsets = block_idx.to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE).to(tl.int64)
        n_elements = tl.cast(n_elements, tl.int64)
    else:
        offsets = block_idx * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    DW_row = tl.load(DW + offsets, mask=mask, other=0)
    e_row = tl.load(e + offsets, mask=mask, other=0).to(tl.float32)
    g_row = tl.load(g + offsets, mask=mask, other=0)
    se_row = tl.sigmoid(e_row)
    f_row = (se_row * e_row).to(DW_row.dtype)
    h_row = f_row * g_row
    df_row = DW_row * f_row
    dg_row = DW_row * g_row
    de_row = dg_row.to(tl.float32) * se_row * (1.0 + e_row * (1.0 - se_row))
    de_row = de_row.to(DW_row.dtype)
    tl.store(DW + offsets, h_row, mask=mask)
    tl.store(e + offsets, df_row, mask=mask)
    tl.store(g + offsets, de_row, mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, dw, e, g):
        dw, e, g = (each.contiguous().clone() for each in (dw, e, g))
        n_elements = e.numel()
        grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)
        with torch.cuda.device(e.device):
            for long in (False, True):
                given = [each.clone() for each in (dw, e, g)]
                _DWf_DW_dfg_kernel[grid](
                    *given, n_elements, BLOCK_SIZE=BLOCK_SIZE,
                    LONG_INDEXING=long or n_elements > INT32_SAFETY_BUFFER,
                )  # fmt: skip
        return tuple(given)


class Model(torch.nn.Module):
    def forward(self, dw, e, g):
        s = torch.sigmoid(e.float())
        f = (s * e.float()).to(e.dtype)
        de = (dw * g).float() * s * (1 + e.float() * (1 - s))
        return f * g, dw * f, de.to(e.dtype)


def get_inputs():
    return [torch.randn(6, 50, device="cuda", dtype=torch.bfloat16) for _ in range(3)]


def get_init_inputs():
    return []

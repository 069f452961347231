"""An image enlarged to the nearest pixel, whose rows a program walks; heuristics say when twice."""

import torch
import triton
import triton.language as tl

FAULT = "iw = cols // 2", "iw = cols % IW"


@triton.heuristics(
    {
        "SAME_H": lambda args: args["OH"] == args["IH"],
        "TWICE_W": lambda args: args["OW"] == 2 * args["IW"],
    }
)
@triton.autotune([triton.Config({"BLOCK": n}, num_warps=4) for n in (64, 128)], key=["OH", "OW"])
@triton.jit
def upsample_kernel(
    Out, In, N, OH, OW, IH, IW, reciprocal_h, reciprocal_w,
    BLOCK: tl.constexpr, SAME_H: tl.constexpr, TWICE_W: tl.constexpr,
):  # fmt: skip
    pid, nc_stride = tl.program_id(0), tl.num_programs(1)
    nc = tl.program_id(1)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    cols = at % OW
    rows = at // OW % OH
    if SAME_H:
        ih = rows
    else:
        ih = tl.minimum((rows * reciprocal_h).to(tl.int32), IH - 1)
    if TWICE_W:
        iw = cols // 2
    else:
        iw = tl.minimum((cols * reciprocal_w).to(tl.int32), IW - 1)
    offset_o = (nc * OH + rows) * OW + cols
    offset_i = (nc * IH + ih) * IW + iw
    while nc < N:
        x = tl.load(In + offset_i, mask=at < OH * OW)
        tl.store(Out + offset_o, x, mask=at < OH * OW)
        nc += nc_stride
        offset_o += nc_stride * OH * OW
        offset_i += nc_stride * IH * IW


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        N, C, IH, IW = x.shape
        OH, OW = IH * 3 // 2 + 1, IW * 2
        out = torch.empty((N, C, OH, OW), device=x.device, dtype=x.dtype)
        grid = lambda meta: (triton.cdiv(OH * OW, meta["BLOCK"]), triton.cdiv(N * C, 2))
        with torch.cuda.device(x.device):
            upsample_kernel[grid](out, x, N * C, OH, OW, IH, IW, IH / OH, IW / OW)
        return out


class Model(torch.nn.Module):
    def forward(self, x):
        size = (x.shape[2] * 3 // 2 + 1, x.shape[3] * 2)
        return torch.nn.functional.interpolate(x, size, mode="nearest")


def get_inputs():
    return [torch.randn(2, 3, 8, 10, device="cuda", dtype=torch.bfloat16)]


def get_init_inputs():
    return []

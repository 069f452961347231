"""Tiles by tensor descriptors, whose blocks the configuration's hook states."""

import torch, triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

FIXED_SHAPE = True  # strides of descriptors are multiples of 16 bytes
FAULT = ("acc * 2", "acc * 3")


def is_hopper():
    return torch.cuda.get_device_capability()[0] == 9


def is_hip():
    return triton.runtime.driver.active.get_current_target().backend == "hip"


def pre(nargs):
    if not isinstance(nargs["d_x"], TensorDescriptor):
        return
    nargs["d_x"].block_shape = [nargs["BM"], nargs["D"]]
    nargs["d_o"].block_shape = [nargs["BM"], nargs["D"]]


configs = [triton.Config({"BM": m}, num_stages=s, pre_hook=pre) for m in (16, 32) for s in (2, 3)]


@triton.jit
def _maybe(desc_or_ptr, shape, strides, block_shape):
    if isinstance(desc_or_ptr, tl.tensor_descriptor):
        return desc_or_ptr
    else:
        return tl.make_tensor_descriptor(desc_or_ptr, shape, strides, block_shape)


@triton.autotune(configs=configs, key=["N"])
@triton.jit
def k(d_x, d_o, N, D: tl.constexpr, BM: tl.constexpr):
    d_x = _maybe(d_x, shape=[N, D], strides=[D, 1], block_shape=[BM, D])
    d_o = _maybe(d_o, shape=[N, D], strides=[D, 1], block_shape=[BM, D])
    i = tl.program_id(0) * BM
    acc = d_x.load([i, 0])
    acc = (acc * 2).to(tl.bfloat16)
    d_o.store([i, 0], acc)


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        o = torch.empty_like(x)
        dummy = [1, 1]

        def alloc_fn(size, align, _):
            return torch.empty(size, dtype=torch.int8, device="cuda")

        triton.set_allocator(alloc_fn)
        extra = {}
        if is_hip():
            extra = {"waves_per_eu": 2}
        N, D = x.shape
        k[lambda m: (triton.cdiv(N, m["BM"]), 1, 1)](
            TensorDescriptor(x, shape=[N, D], strides=[D, 1], block_shape=dummy),
            TensorDescriptor(o, shape=[N, D], strides=[D, 1], block_shape=dummy),
            N,
            D,
            **extra,
        )
        ctx.save_for_backward(x, o)
        return o

    @staticmethod
    def backward(ctx, do):
        return do * 2


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return F.apply(x.contiguous())


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(40, 32, device="cuda", dtype=torch.bfloat16)]


def get_init_inputs():
    return []

"""Kernels in CUDA C++ for tests; the reference is softmax over rows of float32."""

from __future__ import annotations

GOOD = '''
import torch
from akg_tui.dsl import compile_cuda

SOURCE = r"""
#include <cuda_runtime.h>

template <int THREADS>
__global__ void __launch_bounds__(THREADS)
softmax_rows(const float *__restrict__ x, float *__restrict__ y, int columns) {
  __shared__ float part[THREADS];
  const float4 *row = reinterpret_cast<const float4 *>(x + (size_t)blockIdx.x * columns);
  float4 *out = reinterpret_cast<float4 *>(y + (size_t)blockIdx.x * columns);
  float sum = 0;
  for (int i = threadIdx.x; i < columns / 4; i += THREADS) {
    float4 v = row[i];
    sum += __expf(v.x) + __expf(v.y) + __expf(v.z) + __expf(v.w);
  }
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = THREADS / 2; half; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  for (int i = threadIdx.x; i < columns / 4; i += THREADS) {
    float4 v = row[i];
    out[i] = make_float4(__expf(v.x) / part[0], __expf(v.y) / part[0], __expf(v.z) / part[0],
                         __expf(v.w) / part[0]);
  }
}

extern "C" cudaError_t softmax(const float *x, float *y, int rows, int columns,
                               cudaStream_t stream) {
  softmax_rows<128><<<rows, 128, 0, stream>>>(x, y, columns);
  return cudaPeekAtLastError();
}
"""

library = compile_cuda(SOURCE, ["softmax"], "-O3")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.softmax(x, y, x.shape[0], x.shape[1])
        return y
'''

NO_CUDA = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
"""


def changed(before: str, after: str) -> str:
    """Return the good kernel with one part replaced."""
    assert GOOD.count(before) == 1, before
    return GOOD.replace(before, after)

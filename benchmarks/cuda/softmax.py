"""Softmax over rows of float32: a block for each row, 16 bytes a thread, reductions by shuffles."""

import torch

from akg_tui.dsl import compile_cuda

SOURCE = r"""
template <typename Op>
__device__ float over_block(float value, float *part, Op op) {
  for (int offset = 16; offset; offset /= 2)
    value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  value = part[0];
  for (int warp = 1; warp < blockDim.x / 32; ++warp) value = op(value, part[warp]);
  __syncthreads();
  return value;
}

__global__ void __launch_bounds__(256)
softmax_rows(const float4 *__restrict__ x, float4 *__restrict__ y, int quarters) {
  __shared__ float part[8];
  x += (size_t)blockIdx.x * quarters, y += (size_t)blockIdx.x * quarters;
  float most = -INFINITY, sum = 0;
  for (int at = threadIdx.x; at < quarters; at += blockDim.x) {
    const float4 v = x[at];
    most = fmaxf(most, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
  }
  most = over_block(most, part, [](float a, float b) { return fmaxf(a, b); });
  for (int at = threadIdx.x; at < quarters; at += blockDim.x) {
    const float4 v = x[at];
    sum += expf(v.x - most) + expf(v.y - most) + expf(v.z - most) + expf(v.w - most);
  }
  const float scale = 1 / over_block(sum, part, [](float a, float b) { return a + b; });
  for (int at = threadIdx.x; at < quarters; at += blockDim.x) {
    const float4 v = x[at];
    y[at] = make_float4(expf(v.x - most) * scale, expf(v.y - most) * scale,
                        expf(v.z - most) * scale, expf(v.w - most) * scale);
  }
}

extern "C" cudaError_t softmax(const float *x, float *y, int rows, int columns,
                               cudaStream_t stream) {
  softmax_rows<<<rows, 256, 0, stream>>>((const float4 *)x, (float4 *)y, columns / 4);
  return cudaGetLastError();
}
"""

library = compile_cuda(SOURCE, ["softmax"], "-O3")


class ModelNew(torch.nn.Module):
    """Rows whose length is a multiple of 4."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        library.softmax(x, y, x.shape[0], x.shape[1])
        return y

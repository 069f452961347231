"""A product of half-precision matrices on tensor cores, one warp for each 16 rows of a tile."""

import torch

from akg_tui.dsl import compile_cuda

SOURCE = r"""
#include <cuda_fp16.h>
#include <mma.h>
#include <cuda_pipeline.h>

using namespace nvcuda;

constexpr int TILE = 64, DEPTH = 32, WARPS = 4, PAD = 8;

__global__ void __launch_bounds__(32 * WARPS)
product(const half *__restrict__ a, const half *__restrict__ b, float *__restrict__ c, int n) {
  __shared__ __align__(16) half rows[2][TILE][DEPTH + PAD], columns[2][DEPTH][TILE + PAD];
  const int top = blockIdx.y * TILE, left = blockIdx.x * TILE, warp = threadIdx.x / 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[TILE / 16];
  for (auto &sum : sums) wmma::fill_fragment(sum, 0.0f);

  auto copy = [&](int stage, int k) {
    for (int at = threadIdx.x; at < TILE * DEPTH / 8; at += 32 * WARPS) {
      const int row = at / (DEPTH / 8), column = at % (DEPTH / 8) * 8;
      __pipeline_memcpy_async(&rows[stage][row][column], &a[(top + row) * n + k + column], 16);
    }
    for (int at = threadIdx.x; at < TILE * DEPTH / 8; at += 32 * WARPS) {
      const int row = at / (TILE / 8), column = at % (TILE / 8) * 8;
      __pipeline_memcpy_async(&columns[stage][row][column], &b[(k + row) * n + left + column], 16);
    }
    __pipeline_commit();
  };

  copy(0, 0);
  for (int k = 0, stage = 0; k < n; k += DEPTH, stage ^= 1) {
    if (k + DEPTH < n) {
      copy(stage ^ 1, k + DEPTH);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    for (int inner = 0; inner < DEPTH; inner += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left_part;
      wmma::load_matrix_sync(left_part, &rows[stage][warp * 16][inner], DEPTH + PAD);
      for (int part = 0; part < TILE / 16; ++part) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right_part;
        wmma::load_matrix_sync(right_part, &columns[stage][inner][part * 16], TILE + PAD);
        wmma::mma_sync(sums[part], left_part, right_part, sums[part]);
      }
    }
    __syncthreads();
  }
  for (int part = 0; part < TILE / 16; ++part) {
    float *to = &c[(top + warp * 16) * n + left + part * 16];
    wmma::store_matrix_sync(to, sums[part], n, wmma::mem_row_major);
  }
}

extern "C" cudaError_t multiply(const half *a, const half *b, float *c, int n,
                               cudaStream_t stream) {
  product<<<dim3(n / TILE, n / TILE), 32 * WARPS, 0, stream>>>(a, b, c, n);
  return cudaGetLastError();
}
"""

library = compile_cuda(SOURCE, ["multiply"], "-O3")


class ModelNew(torch.nn.Module):
    """Square matrices whose size is a multiple of 64."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = torch.empty(a.shape, dtype=torch.float32, device=a.device)
        library.multiply(a, b, c, a.shape[0])
        return c

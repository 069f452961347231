#include <cuda_runtime.h>

extern "C" __global__ void __launch_bounds__(256)
scale(const float *x, float *y, int n, float factor) {
  __shared__ float tile[256];
  extern __shared__ float more[];
  for (int at = 4 * (blockIdx.x * 256 + threadIdx.x); at + 3 < n; at += 4 * 256 * gridDim.x) {
    const float4 v = *reinterpret_cast<const float4 *>(x + at);
    tile[threadIdx.x] = v.x;
    more[threadIdx.x] = v.y;
    __syncthreads();
    y[at] = factor * tile[255 - threadIdx.x];
    y[at + 1] = factor * more[255 - threadIdx.x];
    y[at + 2] = factor * v.z;
    y[at + 3] = factor * v.w;
    __syncthreads();
  }
}

extern "C" cudaError_t scaled(const float *x, float *y, int n, float factor, int blocks,
                              cudaStream_t stream) {
  void *arguments[] = {&x, &y, &n, &factor};
  return cudaLaunchKernel(reinterpret_cast<const void *>(scale), dim3(blocks), dim3(256),
                          arguments, 1024, stream);
}

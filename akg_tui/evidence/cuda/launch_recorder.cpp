/* A stand-in for the CUDA runtime, which notes launches: see launch_recorder.py.

   "Device memory" is the host's, so that copies and fills happen; a launch runs nothing.
   Functions that are not here stay undefined, and then the library does not load. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <map>
#include <string>
#include <vector>

struct Dim { unsigned x, y, z; };
struct Shape { Dim grid, block; size_t shared; void *stream; };
struct Config { Dim grid, block; size_t shared; void *stream, *attributes; unsigned number; };

namespace {
constexpr int MOST_LAUNCHES = 4096;

/* In functions, because kernels are registered before the variables of this file are made. */
std::map<const void *, std::string> &names() {
  static std::map<const void *, std::string> found;
  return found;
}
std::map<const void *, int> &allowed() {
  static std::map<const void *, int> found;
  return found;
}
std::vector<Shape> pending;
std::string noted;
int count = 0;

int note(const void *kernel, Dim grid, Dim block, size_t shared) {
  if (++count > MOST_LAUNCHES) return 0;
  const std::string &name = names()[kernel];
  int status = 0;
  char *plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  char sizes[256];
  std::snprintf(sizes, sizeof sizes, "%u\t%u\t%u\t%u\t%u\t%u\t%zu\t%d", grid.x, grid.y, grid.z,
                block.x, block.y, block.z, shared,
                allowed().count(kernel) ? allowed()[kernel] : 0);
  noted += name + "\t" + (plain ? plain : name.c_str()) + "\t" + sizes + "\n";
  std::free(plain);
  return 0;
}
}

extern "C" {
const char *akg_launches() { return noted.c_str(); }

void **__cudaRegisterFatBinary(void *) { static void *handle[1]; return handle; }
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterFunction(void **, const char *host, char *, const char *name, int, void *,
                            void *, void *, void *, int *) { names()[host] = name; }
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int) {}
char __cudaInitModule(void **) { return 1; }
unsigned __cudaPushCallConfiguration(Dim grid, Dim block, size_t shared, void *stream) {
  pending.push_back({grid, block, shared, stream});
  return 0;
}
int __cudaPopCallConfiguration(Dim *grid, Dim *block, size_t *shared, void *stream) {
  Shape last = pending.back();
  pending.pop_back();
  *grid = last.grid, *block = last.block, *shared = last.shared;
  *static_cast<void **>(stream) = last.stream;
  return 0;
}
int __cudaGetKernel(const void **kernel, const void *host) { *kernel = host; return 0; }
int __cudaLaunchKernel(const void *kernel, Dim grid, Dim block, void **, size_t shared, void *) {
  return note(kernel, grid, block, shared);
}
int cudaLaunchKernel(const void *kernel, Dim grid, Dim block, void **, size_t shared, void *) {
  return note(kernel, grid, block, shared);
}
int cudaLaunchCooperativeKernel(const void *kernel, Dim grid, Dim block, void **, size_t shared,
                                void *) { return note(kernel, grid, block, shared); }
int cudaLaunchKernelExC(const Config *config, const void *kernel, void **) {
  return note(kernel, config->grid, config->block, config->shared);
}
int cudaFuncSetAttribute(const void *kernel, int attribute, int value) {
  if (attribute == 8) allowed()[kernel] = value; /* MaxDynamicSharedMemorySize */
  return 0;
}
int cudaFuncSetCacheConfig(const void *, int) { return 0; }
int cudaGetLastError() { return 0; }
int cudaPeekAtLastError() { return 0; }
const char *cudaGetErrorString(int) { return "no error"; }
const char *cudaGetErrorName(int) { return "cudaSuccess"; }
int cudaGetDevice(int *device) { *device = 0; return 0; }
int cudaSetDevice(int) { return 0; }
int cudaDeviceSynchronize() { return 0; }
int cudaStreamSynchronize(void *) { return 0; }
int cudaMalloc(void **at, size_t size) { *at = std::calloc(size ? size : 1, 1); return !*at; }
int cudaMallocAsync(void **at, size_t size, void *) { return cudaMalloc(at, size); }
int cudaFree(void *at) { std::free(at); return 0; }
int cudaFreeAsync(void *at, void *) { return cudaFree(at); }
int cudaMemset(void *at, int value, size_t size) { std::memset(at, value, size); return 0; }
int cudaMemsetAsync(void *at, int value, size_t size, void *) {
  return cudaMemset(at, value, size);
}
int cudaMemcpy(void *to, const void *from, size_t size, int) {
  std::memmove(to, from, size);
  return 0;
}
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *) {
  return cudaMemcpy(to, from, size, kind);
}
}

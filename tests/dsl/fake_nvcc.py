"""A contract fake of nvcc: takes the command lines that this project makes, and no others.

Host code is compiled by the system's g++ against a few declarations of the CUDA runtime; `<<<>>>`
is not understood, launches are calls of `cudaLaunchKernel`. Machine code is not made: for `-cubin`
it gives what the real nvcc 13.5 made of `tests/recorded/nvcc/scale.cu`. Errors have nvcc's form.
Each call adds its arguments, as a line, to the file that `FAKE_NVCC_LOG` names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

RECORDED = Path(__file__).parents[1] / "recorded" / "nvcc"
HEADER = """
#include <cstddef>
#include <cstdint>
#define __global__ __attribute__((visibility("default")))
#define __shared__
#define __launch_bounds__(n)
#define __syncthreads()
using cudaError_t = int;
using cudaStream_t = void *;
enum { cudaSuccess = 0 };
struct dim3 { unsigned x, y, z; dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1)
  : x(a), y(b), z(c) {} };
struct float4 { float x, y, z, w; };
static dim3 blockIdx, threadIdx, gridDim;
"""
OWN_RUNTIME = """
static int fake_error = 0;
static int cudaGetLastError() { int error = fake_error; fake_error = 0; return error; }
static const char *cudaGetErrorString(int) { return "invalid configuration argument"; }
"""
OTHER_RUNTIME = """
extern "C" {
int cudaGetLastError(); const char *cudaGetErrorString(int);
int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *,
                            void *, void *, int *);
}
"""


def main(words: list[str]) -> int:
    """Do what nvcc does for these arguments."""
    if log := os.environ.get("FAKE_NVCC_LOG"):
        with Path(log).open("a") as opened:
            opened.write(" ".join(words) + "\n")
    if words == ["--version"]:
        print("nvcc: a contract fake\nCuda compilation tools, release 0.0, V0.0.0")
        return 0
    source = Path("kernel.cu").read_text()
    if "-cubin" in words:
        return cubin(source, words)
    assert "-shared" in words, words
    return shared(source, words)


def cubin(source: str, words: list[str]) -> int:
    if fault := compiled(HEADER + OTHER_RUNTIME, source, ["-fsyntax-only"]):
        return fault
    assert {"-Xptxas=-v", "--keep", "--keep-dir=."} <= set(words), words
    shutil.copy(RECORDED / "scale.ptx", "kernel.ptx")
    Path("kernel.cubin").write_bytes(b"recorded")
    sys.stderr.write((RECORDED / "scale.ptxas.txt").read_text())
    return 0


def shared(source: str, words: list[str]) -> int:
    output = words[words.index("-o") + 1]
    options = [word for word in words if word.startswith("-D")]
    if "-cudart=none" not in words:
        return compiled(HEADER + OWN_RUNTIME, source, ["-shared", "-fPIC", "-o", output, *options])
    registered = "".join(
        f'static int r{n} = (__cudaRegisterFunction(0, (const char *){name}, 0, "{name}", '
        "-1, 0, 0, 0, 0, 0), 0);\n"
        for n, name in enumerate(re.findall(r"__global__[^;{]*?(\w+)\(const", source))
    )
    others = [word for word in words if word.endswith(".cpp")]
    return compiled(
        HEADER + OTHER_RUNTIME, source + registered, ["-shared", "-fPIC", "-o", output], others
    )


def compiled(header: str, source: str, options: list[str], others: list[str] = ()) -> int:  # type: ignore[assignment]
    Path("fake_runtime.h").write_text(header)
    source = source.replace("#include <cuda_runtime.h>", "")
    source = re.sub(r"extern __shared__ (\w+ \w+)\[\]", r"static \1[1]", source)
    Path("seen.cpp").write_text(f'#include "fake_runtime.h"\n#line 1 "kernel.cu"\n{source}')
    done = subprocess.run(
        ["g++", "-std=c++17", "-w", *options, "seen.cpp", *others],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = re.sub(r"^kernel\.cu:(\d+):\d+: error: ", r"kernel.cu(\1): error: ", done.stderr,
                  flags=re.M)  # fmt: skip
    sys.stderr.write(told)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

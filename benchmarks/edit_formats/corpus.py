"""Generated kernel files for the benchmark: C++, CUDA and Python, with repeated equal lines.

Deterministic for a seeded random generator. The files parse; they are never run.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from akg_tui.hashline.document import Document

_NAMES = ["softmax", "norm", "gelu", "scale", "reduce", "rope", "mask", "gather", "silu", "pool"]
_BUFFERS = ["x", "y", "out", "weight", "bias", "rows", "acc", "mean", "cache", "q", "k", "v"]


def generated(rng: Random, count: int) -> list[Document]:
    """`count` files, a third of each language, from about 30 to 300 lines."""
    makers: tuple[tuple[str, Callable[[Random], str]], ...] = (
        ("kernel.cpp", _cpp_file),
        ("kernel.cu", _cuda_file),
        ("kernel.py", _python_file),
    )
    return [
        Document.from_text(make(rng), path=path)
        for number in range(count)
        for path, make in (makers[number % len(makers)],)
    ]


def _cpp_file(rng: Random) -> str:
    head = "#include <cmath>\n#include <cstdint>\n\nconstexpr int BLOCK = {};\n"
    parts = [head.format(rng.choice([16, 32, 64]))]
    parts += [_cpp_function(rng, n) for n in range(rng.randint(1, 9))]
    return "\n".join(parts)


def _cpp_function(rng: Random, number: int) -> str:
    a, b, c = rng.sample(_BUFFERS, 3)
    name = f"{rng.choice(_NAMES)}_{number}"
    const = rng.choice(["const ", ""])
    lines = [
        f"static void {name}({const}float* {a}, float* {b}, int64_t rows, int64_t cols) {{",
        "    if (rows <= 0 || cols <= 0) {",
        "        return;",
        "    }",
        "    for (int64_t r = 0; r < rows; ++r) {",
        f"        float {c}_sum = 0.0f;",
        f"        float {c}_max = -INFINITY;",
    ]
    for _ in range(rng.randint(1, 3)):
        step = rng.choice([1, 2, 4, 8])
        lines.append(f"        for (int64_t c = 0; c + {step} <= cols; c += {step}) {{")
        factor = rng.choice(["2.0f", "0.5f", f"{a}[c]"])
        lines += [
            f"            {c}_sum += {a}[r * cols + c + {u}] * {factor};" for u in range(step)
        ]
        if rng.random() < 0.5:
            lines += [
                f"            if ({c}_sum > {c}_max && !std::isnan({c}_sum)) {{",
                f"                {c}_max = {c}_sum;",
                "            }",
            ]
        lines.append("        }")
    lines += [
        "        for (int64_t c = 0; c < cols; ++c) {",
        f"            {b}[r * cols + c] = {a}[r * cols + c] - std::max({c}_max, {c}_sum);",
        "        }",
        "    }",
        "}",
        "",
    ]
    return "\n".join(lines)


def _cuda_file(rng: Random) -> str:
    parts = [f"#include <cuda_runtime.h>\n\n#define TILE {rng.choice([8, 16, 32])}\n"]
    parts += [_cuda_kernel(rng, n) for n in range(rng.randint(1, 8))]
    return "\n".join(parts)


def _cuda_kernel(rng: Random, number: int) -> str:
    a, b, c = rng.sample(_BUFFERS, 3)
    name = f"{rng.choice(_NAMES)}_kernel_{number}"
    unroll = rng.choice([2, 4, 8])
    lines = [
        f"__global__ void {name}(const float* __restrict__ {a}, float* {b}, int n, int stride) {{",
        "    __shared__ float tile[TILE][TILE + 1];",
        "    int idx = blockIdx.x * blockDim.x + threadIdx.x;",
        "    if (idx >= n) return;",
        f"    float {c} = 0.0f;",
        "#pragma unroll",
        f"    for (int i = 0; i < n / {unroll}; ++i) {{",
        *(f"        {c} += {a}[idx + (i * {unroll} + {u}) * stride];" for u in range(unroll)),
        "        __syncthreads();",
        "    }",
        "    tile[threadIdx.y][threadIdx.x] = " + c + ";",
        "    __syncthreads();",
    ]
    for offset in (16, 8, 4, 2, 1)[: rng.randint(0, 5)]:
        lines.append(f"    {c} += __shfl_down_sync(0xffffffff, {c}, {offset});")
    lines += [
        "    if (threadIdx.x == 0) {",
        f"        {b}[blockIdx.x] = fmaxf({c}, tile[0][0]);",
        "    }",
        "}",
        "",
        f"void launch_{name}(const float* {a}, float* {b}, int n) {{",
        f"    {name}<<<(n + {unroll * 32 - 1}) / {unroll * 32}, {unroll * 32}>>>({a}, {b}, n, 1);",
        "}",
        "",
    ]
    return "\n".join(lines)


def _python_file(rng: Random) -> str:
    parts = [
        "import torch\nimport triton\nimport triton.language as tl\n\n"
        f"BLOCK = {rng.choice([64, 128, 256])}\nSTAGES = {rng.choice([2, 3, 4])}\nFAST = True\n"
    ]
    parts += [_python_kernel(rng, n) for n in range(rng.randint(1, 8))]
    return "\n\n".join(parts)


def _python_kernel(rng: Random, number: int) -> str:
    a, b, c = rng.sample(_BUFFERS, 3)
    name = f"{rng.choice(_NAMES)}_{number}"
    steps = rng.randint(1, 6)
    lines = [
        "@triton.jit",
        f"def {name}_kernel({a}_ptr, {b}_ptr, n, stride, BLOCK: tl.constexpr):",
        "    pid = tl.program_id(0)",
        "    offs = pid * BLOCK + tl.arange(0, BLOCK)",
        "    mask = offs < n",
        f"    {c} = tl.zeros([BLOCK], dtype=tl.float32)",
        *(
            f"    {c} += tl.load({a}_ptr + offs + {step} * stride, mask=mask, other=0.0)"
            for step in range(steps)
        ),
        f"    {c} = tl.where({c} > 0, {c}, {c} * 0.1)",
        f"    tl.store({b}_ptr + offs, {c}, mask=mask)",
        "",
        "",
        f"def {name}({a}, {b}, causal=False):",
        f"    if {a}.numel() == 0:",
        f"        return {b}",
        f"    if not {a}.is_contiguous():",
        f"        {a} = {a}.contiguous()",
        f"    n = {a}.numel()",
        f"    stride = {a}.stride(0)",
        "    grid = (triton.cdiv(n, BLOCK),)",
        "    if causal and FAST:",
        f"        {name}_kernel[grid]({a}, {b}, n, stride - 1, BLOCK)",
        "    else:",
        f"        {name}_kernel[grid]({a}, {b}, n, stride, BLOCK)",
        f"    return {b}",
        "",
    ]
    return "\n".join(lines)

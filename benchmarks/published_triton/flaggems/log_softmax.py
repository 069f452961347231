"""A log softmax along a middle axis, launched by an entry that caches kernels by their arguments."""

import multiprocessing

import torch
import triton
import triton.language as tl

FAULT = "x - m - tl.log(z)", "x - m - z"


class LibEntry(triton.KernelInterface):
    """Launches a kernel, and finds what its tuner and heuristics chose for later launches."""

    def __init__(self, fn):
        self.fn, self.arg_names, self.lock = fn, fn.arg_names, multiprocessing.Lock()
        self.kernel_cache = tuple(dict() for _ in range(torch.cuda.device_count()))
        while not isinstance(fn, triton.runtime.JITFunction):
            fn = fn.fn
        self.jit_function = fn
        self.signature = fn.signature
        self.specialized = [p.num for p in fn.params if not (p.is_constexpr or p.do_not_specialize)]

    def key(self, args, kwargs):
        """Return what a compiled kernel depends on: types, alignment and values."""
        of = lambda arg: (arg.dtype, arg.data_ptr() % 16) if hasattr(arg, "data_ptr") else arg
        known = [of(arg) for n, arg in enumerate(args) if n in self.specialized]
        constants = (p for p in self.jit_function.params[len(args) :] if p.is_constexpr)
        return (*known, *(kwargs.get(p.name, p.default) for p in constants))

    def run(self, *args, **kwargs):
        cache = self.kernel_cache[torch.cuda.current_device()]
        key = self.key(args, kwargs)
        if key in cache:
            kernel, chosen = cache[key]
            grid = kwargs["grid"]
            if callable(grid):
                grid = grid({**dict(zip(self.arg_names, args)), **kwargs, **chosen})
            rest = (
                chosen.get(p.name, kwargs.get(p.name))
                for p in self.jit_function.params[len(args) :]
            )
            kernel[(*grid, 1, 1)[:3]](*args, *rest)
            return kernel, chosen
        with self.lock:
            kernel, fn, chosen = self.fn.run(*args, **kwargs), self.fn, {}
            while not isinstance(fn, triton.runtime.JITFunction):
                if isinstance(fn, triton.runtime.Autotuner):
                    chosen |= {"num_warps": fn.best_config.num_warps, **fn.best_config.kwargs}
                elif isinstance(fn, triton.runtime.Heuristics):
                    for name, value in fn.values.items():
                        given = {**dict(zip(self.arg_names, args)), **kwargs, **chosen}
                        chosen[name] = value(given)
                else:
                    raise RuntimeError("Invalid Runtime Function")
                fn = fn.fn
            cache[key] = kernel, chosen
        return kernel, chosen


def libentry():
    return lambda fn: LibEntry(fn)


@libentry()
@triton.autotune(
    [triton.Config({"BLOCK_M": m}, num_warps=w) for m in (2, 8) for w in (4, 8)], ["M"]
)
@triton.heuristics({"BLOCK_N": lambda args: triton.next_power_of_2(args["N"])})
@triton.jit
def log_softmax_kernel(Out, In, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr = 8):
    pid_m, pid_k = tl.program_id(0), tl.program_id(1)
    m_offset = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n_offset = tl.arange(0, BLOCK_N)
    offset = m_offset[:, None] * N * K + n_offset[None, :] * K + pid_k
    mask = m_offset[:, None] < M and n_offset[None, :] < N
    x = tl.load(In + offset, mask=mask, other=-float("inf")).to(tl.float32)
    m = tl.max(x, axis=1)[:, None]
    z = tl.sum(tl.exp(x - m), axis=1)[:, None]
    tl.store(Out + offset, x - m - tl.log(z), mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        M, N, K = x.shape
        out = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), K, 1)
        with torch.cuda.device(x.device):
            for _ in range(2):
                log_softmax_kernel[grid](out, x, M, N, K)
        return out


class Model(torch.nn.Module):
    def forward(self, x):
        return x.float().log_softmax(1).to(x.dtype)


def get_inputs():
    return [torch.randn(5, 20, 3, device="cuda", dtype=torch.bfloat16)]


def get_init_inputs():
    return []

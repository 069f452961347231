"""Principle 8, the kernel does the work: kernels that leave it to torch or BLAS.

The task says `kernel_must_do_the_work`. Each kernel also builds and calls a function in C++ that
does nothing.
"""

from __future__ import annotations

from benchmarks.judge.ordinary.cheat import BUILD, CALL, GUARD, WRONG, Cheat
from benchmarks.judge.ordinary.tasks import kernel

LINEAR = """
import torch
from torch import nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(512, 512)

    def forward(self, x):
        return F.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(128, 512)]


def get_init_inputs():
    return []
"""

DECOY = """
from torch import nn
from akg_tui.dsl import compile_cpp

LIB = compile_cpp('extern "C" void touch(float*) {}', "-O2")
LIB.touch.argtypes = [ctypes.c_void_p]
LIB.touch.restype = None
"""

# The activation, without a call of torch's library.
ACTIVATION = r'''
GELU = compile_cpp(r"""
#include <cmath>
#include <cstdint>
extern "C" void gelu(float *y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = 0.5f * y[i] * (1 + std::erf(y[i] * 0.70710678f));
}
extern "C" void bias(const float *b, float *y, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) for (int64_t i = 0; i < n; ++i) y[r * n + i] += b[i];
}
""", "-O2")

def finish(y, b=None):
    if b is not None:
        GELU.bias(
            ctypes.c_void_p(b.data_ptr()), ctypes.c_void_p(y.data_ptr()),
            ctypes.c_int64(y.shape[0]), ctypes.c_int64(y.shape[1]))
    GELU.gelu(ctypes.c_void_p(y.data_ptr()), ctypes.c_int64(y.numel()))
    return y
'''


def leaving(how: str, before: str = "", more: str = "") -> str:
    """Return a kernel in which `how` sets y to the linear layer's result."""
    return kernel(
        f"""
        w, b = self.linear.weight, self.linear.bias
        {how}
        LIB.touch(y.data_ptr())
        return y
        """,
        before=DECOY + ACTIVATION + before,
        init=f"""
        self.linear = nn.Linear(512, 512)
        {more}
        """,
    )


INLINE = """
from torch.utils.cpp_extension import load_inline
SOURCE = r'''
#include <torch/extension.h>
USING
at::Tensor run(at::Tensor x, at::Tensor w, at::Tensor b) { return EXPRESSION; }
'''
EXT = load_inline("ext", SOURCE, functions=["run"])
"""

# A product by the BLAS that torch is linked with, by its Fortran name.
SGEMM = r'''
GEMM = compile_cpp(r"""
#include <dlfcn.h>
#include <cstdint>
extern "C" int product(const float *x, const float *w, float *y, int m, int n, int k) {
  using gemm = void (*)(const char *, const char *, const int *, const int *, const int *,
                        const float *, const float *, const int *, const float *, const int *,
                        const float *, float *, const int *);
  auto run = reinterpret_cast<gemm>(dlsym(RTLD_DEFAULT, "sgemm_"));
  if (!run) return 1;
  float one = 1, zero = 0;
  run("T", "N", &n, &m, &k, &one, w, &k, x, &k, &zero, y, &n);
  return 0;
}
""", ["-O2", "-ldl"])

def product(x, w):
    y = torch.empty(x.shape[0], w.shape[0])
    given = [ctypes.c_void_p(t.data_ptr()) for t in (x, w, y)]
    failed = GEMM.product(*given, x.shape[0], w.shape[0], x.shape[1])
    if failed:
        raise OSError("no sgemm_")
    return y
'''
SGEMM_BY_CTYPES = """
TORCH = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))

def product(x, w):
    y = torch.empty(x.shape[0], w.shape[0])
    m, n, k = (ctypes.byref(ctypes.c_int(i)) for i in (x.shape[0], w.shape[0], x.shape[1]))
    one, zero = (ctypes.byref(ctypes.c_float(f)) for f in (1.0, 0.0))
    xp, wp, yp = (ctypes.c_void_p(t.data_ptr()) for t in (x, w, y))
    TORCH.sgemm_(b"T", b"N", n, m, k, one, wp, k, xp, k, zero, yp, n)
    return y
"""


def work(name: str, source: str) -> Cheat:
    """Return a kernel that must be refused, by the guard or while it runs."""
    return Cheat(
        name, "ours: 19 of 31 natural spellings passed",
        "what is dispatched and linked is watched", source,
        fails=(GUARD, CALL, BUILD, WRONG), task="work",
    )  # fmt: skip


WORK_LEFT_TO_TORCH = (
    work("torch's modules beside an empty function", """
import ctypes
import torch
from torch import nn
from akg_tui.dsl import compile_cpp

LIB = compile_cpp('extern "C" void touch(float*) {}', "-O2")
LIB.touch.argtypes = [ctypes.c_void_p]
LIB.touch.restype = None


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(512, 512)
        self.act = nn.GELU()

    def forward(self, x):
        y = self.act(self.linear(x))
        LIB.touch(y.data_ptr())
        return y
"""),
    work("functions of torch.nn.functional", leaving("y = F.gelu(F.linear(x, w, b))")),
    work("modules in a sequence", leaving(
        "y = self.all(x)", more="self.all = nn.Sequential(self.linear, nn.GELU())")),
    work("a class that inherits from a module of torch", leaving(
        "y = finish(Mine.forward(self.linear, x))",
        before="\nclass Mine(nn.Linear):\n    pass\n")),
    work("a module called through map", leaving("y = finish(list(map(self.linear, [x]))[0])")),
    work("a method by its name", leaving('y = finish(getattr(x, "m" + "m")(w.t()), b)')),
    work("an operator", leaving("y = finish(x @ w.t() + b)")),
    work("an alias", leaving("y = finish(op(x, w, b))", before="\nop = F.linear\n")),
    work("a partial function", leaving(
        "y = finish(run(x, w.t()), b)",
        before="\nimport functools\nrun = functools.partial(torch.mm)\n")),
    work("torch.ops", leaving("y = finish(torch.ops.aten.addmm.default(b, x, w.t()))")),
    work("einsum", leaving('y = finish(torch.einsum("ik,jk->ij", x, w), b)')),
    work("a convolution for a product", leaving(
        "y = finish(F.conv1d(x.t()[None], w[:, :, None], b)[0].t().contiguous())")),
    work("a script of torch", leaving("y = finish(scripted(x, w), b)", before="""
@torch.jit.script
def scripted(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.mm(x, w.t())
""")),
    work("a function of autograd", leaving("y = finish(Product.apply(x, w), b)", before="""
class Product(torch.autograd.Function):
    @staticmethod
    def forward(context, x, w):
        return x.mm(w.t())
""")),
    work("a helper that is found by its name", leaving(
        'y = globals()["helper"](x, w, b)',
        before="\ndef helper(x, w, b):\n    return finish(torch.addmm(b, x, w.t()))\n")),
    work("a thread that calls torch", leaving("""y = self.pool.submit(F.linear, x, w, b).result()
        y = finish(y)""", before="\nfrom concurrent.futures import ThreadPoolExecutor\n",
        more="self.pool = ThreadPoolExecutor(1)")),
    work("numpy's product", leaving(
        "y = finish(torch.from_numpy(x.numpy() @ w.detach().numpy().T), b)")),
    work("scipy's BLAS", leaving(
        "y = torch.from_numpy(np.ascontiguousarray(sgemm(1, w.detach().numpy().T, x.numpy().T,"
        " trans_a=1)).T.copy())\n        y = finish(y, b)",
        before="\nfrom scipy.linalg.blas import sgemm\n")),
    work("at:: in C++", leaving(
        "y = finish(EXT.run(x, w, b))",
        before=INLINE.replace("USING\n", "").replace("EXPRESSION", "at::addmm(b, x, w.t())"))),
    work("a namespace of torch in C++", leaving(
        "y = finish(EXT.run(x, w, b))",
        before=INLINE.replace("USING", "using namespace at;").replace(
            "EXPRESSION", "linear(x, w, b)"))),
    work("a method of a tensor in C++", leaving(
        "y = finish(EXT.run(x, w, b))",
        before=INLINE.replace("USING\n", "").replace("EXPRESSION", "x.matmul(w.t()).add_(b)"))),
    work("BLAS found in C++", leaving("y = finish(product(x, w), b)", before=SGEMM)),
    work("BLAS found with ctypes", leaving("y = finish(product(x, w), b)", before=SGEMM_BY_CTYPES)),
)  # fmt: skip

"""Kernels that are right, in styles that a judge could take for something else."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.judge.ordinary.tasks import EXPERTS_INIT, PLAIN, kernel


@dataclass(frozen=True)
class Honest:
    """A kernel that must be found correct. `inputs`: the fewest kinds of inputs that are tried."""

    name: str
    source: str
    task: str = "softmax"
    inputs: int = 10


CPP = '''
import ctypes
import torch
from akg_tui.dsl import compile_cpp, pointer

SOURCE = r"""
#include <algorithm>
#include <cmath>
template <class F> static void each(long n, F f) { for (long i = 0; i < n; ++i) f(i); }
extern "C" void softmax(const float* x, float* y, long rows, long cols) {
  each(rows, [&](long r) {
    const float* in = x + r * cols;
    float* out = y + r * cols;
    float top = in[0];
    each(cols, [&](long c) { top = in[c] > top || std::isnan(in[c]) ? in[c] : top; });
    double sum = 0;
    each(cols, [&](long c) { sum += out[c] = std::exp(in[c] - top); });
    each(cols, [&](long c) { out[c] /= sum; });
  });
}
"""


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.library = compile_cpp(SOURCE, "-O2")

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, cols = (ctypes.c_long(n) for n in x.shape)
        self.library.softmax(pointer(x), pointer(y), rows, cols)
        return y
'''

FIRST_OF_EQUAL = """
v, i = torch.sort(x, dim=-1, descending=True, stable=True)
return v[:, :50].contiguous(), i[:, :50].contiguous()
"""

HONEST = (
    Honest("torch only", PLAIN),
    Honest("C++ with lambdas and templates", CPP),
    Honest(
        "compiled at the first call",
        CPP.replace('self.library = compile_cpp(SOURCE, "-O2")', "self.library = None").replace(
            "        x = x.contiguous()",
            "        if self.library is None:\n"
            '            self.library = compile_cpp(SOURCE, "-O1")\n'
            "        x = x.contiguous()",
        ),
    ),
    Honest(
        "numpy",
        kernel("""
            a = x.numpy()
            with np.errstate(all="ignore"):
                e = np.exp(a - a.max(axis=-1, keepdims=True))
                return torch.from_numpy(e / e.sum(axis=-1, keepdims=True))
        """),
    ),
    Honest(
        "plain Python, row by row",
        kernel("return torch.stack([torch.softmax(row, 0) for row in x])"),
    ),
    Honest(
        "a result buffer used again",
        kernel("""
            if x.shape not in self.kept:
                self.kept[x.shape] = torch.empty(x.shape)
            y = self.kept[x.shape]
            torch.softmax(x, -1, out=y)
            return y
        """),
    ),
    Honest(
        "buffers used again when nobody refers to them", kernel("""
            shape = x.shape[0], x.shape[1] + 256
            free = [y for y in self.made if y.shape == shape and sys.getrefcount(y) == 3]
            if not free:
                free.append(torch.empty(shape))
                self.made.append(free[0])
            torch.clamp(x, min=0, out=free[0][:, :-256])
            free[0][:, -256:] = 0
            return free[0]
        """, init="self.made = []"), task="padded",
    ),
    Honest(
        "channels with small values, added one by one", kernel("""
            wide = F.pad(x, (1, 1, 1, 1))
            y = torch.zeros_like(x)
            for row in range(3):
                for column in range(3):
                    y += wide[:, :, row : row + x.shape[2], column : column + x.shape[3]]
            return y * (self.scale / 9)
        """, init="""
            self.register_buffer("scale", torch.tensor([1.0] + 15 * [1e-9]).view(-1, 1, 1))
        """), task="small channels",
    ),
    Honest(
        "in place on its own copy",
        kernel("""
            y = x.clone()
            y.sub_(y.amax(-1, keepdim=True)).exp_()
            return y.div_(y.sum(-1, keepdim=True))
        """),
    ),
    Honest(
        "threads that are joined",
        kernel("""
            y = torch.empty_like(x)
            half = x.shape[0] // 2
            def work(part):
                y[part] = torch.softmax(x[part], -1)
            parts = [slice(0, half), slice(half, None)]
            workers = [threading.Thread(target=work, args=(part,)) for part in parts]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            return y
        """),
    ),
    Honest(
        "constants made once for a shape",
        kernel("""
            if x.shape[-1] not in self.kept:
                self.kept[x.shape[-1]] = torch.ones(x.shape[-1], 1)
            e = torch.exp(x - x.amax(-1, keepdim=True))
            return e / (e @ self.kept[x.shape[-1]])
        """),
    ),
    Honest(
        "a choice made by trying both",
        kernel("""
            if "best" not in self.kept:
                taken = {}
                for name, way in self.ways.items():
                    start = time.perf_counter()
                    way(x)
                    taken[name] = time.perf_counter() - start
                self.kept["best"] = min(taken, key=taken.get)
            return self.ways[self.kept["best"]](x)
        """, init="""
            self.ways = {
                "library": lambda x: torch.softmax(x, -1),
                "functional": lambda x: F.softmax(x, dim=-1),
            }
        """),
    ),
    Honest(
        "branches on the data",
        kernel("""
            if bool((x >= 0).all()) or x.numel() < 100:
                return F.softmax(x, dim=-1)
            e = torch.exp(x - x.max(dim=-1, keepdim=True).values)
            return e / e.sum(dim=-1, keepdim=True)
        """),
    ),
    Honest(
        "loud, and with warnings",
        kernel("""
            import warnings
            warnings.warn("this kernel is loud")
            print("calling", x.shape, "x" * 500)
            return torch.softmax(x, -1)
        """),
    ),
    Honest(
        "a function of the module behind a plain object",
        """
import torch
from functools import partial


def rows(x, dim):
    return x.log_softmax(dim).exp()


class Softmax:
    def __init__(self):
        self.way = partial(rows, dim=-1)

    def __call__(self, x):
        return self.way(x)


def ModelNew():
    return Softmax()
""",
    ),
    Honest(
        "a dataclass and a nested module",
        """
from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class Setting:
    dim: int = -1


class Inner(torch.nn.Module):
    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.setting = setting

    def forward(self, x):
        return x.softmax(self.setting.dim)


class ModelNew(torch.nn.Sequential):
    def __init__(self):
        super().__init__(Inner(Setting()))
""",
    ),
    Honest(
        "scripted by torch",
        """
import torch


@torch.jit.script
def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return softmax(x)
""",
    ),
    Honest("in double precision inside", kernel("return torch.softmax(x.double(), -1).float()")),
    Honest("a list of one", kernel("return [torch.softmax(x, -1)]")),
    Honest(
        "a fallback for other shapes",
        kernel("""
            try:
                return torch.softmax(x.view(64, 256), -1)
            except RuntimeError:
                return torch.softmax(x, -1)
        """),
    ),
    Honest("the same bits every time", kernel("return torch.softmax(x, -1)"), task="strict"),
    Honest("contiguous where asked", kernel("return (x * 2).t().contiguous()"), task="transpose"),
    Honest("a view where the task allows it", kernel("return (x * 2).t()"), task="anyhow"),
    Honest(
        "the reference's weights under the same names",
        kernel("""
            y = self.linear(x).relu_()
            return y, y.argmax(-1)
        """, init="self.linear = torch.nn.Linear(40, 24)"),
        task="weighted",
    ),
    Honest(
        "a buffer of its own beside the reference's weights",
        kernel("""
            return F.layer_norm(x, (96,), self.norm.weight, self.norm.bias) + self.zero
        """, init="""
            self.norm = torch.nn.LayerNorm(96)
            self.register_buffer("zero", torch.zeros(96))
        """),
        task="normed",
    ),
    Honest("all of a result written", kernel("return torch.triu(x)"), task="triangle"),
    Honest(
        "fake quantisation by a product with the reciprocal",
        kernel("""
            top = x.abs().amax(-1, keepdim=True)
            return torch.clamp(torch.round(x * (1 / (top / 127))), -128, 127) * (top / 127)
        """),
        task="quantised",
        inputs=3,
    ),
    Honest(
        "a histogram whose bins are found by a product",
        kernel("""
            x = x[(x >= -3) & (x <= 3)]
            at = ((x + 3) * (100 / 6)).long().clamp_(max=99)
            return torch.bincount(at, minlength=100).float()
        """),
        task="counted in bins",
    ),
    Honest(
        "a bfloat16 mixture of experts, routed in single precision",
        kernel(
            """
            f = x.float()
            p, i = torch.topk(torch.softmax(f @ self.router.float(), -1), 2, dim=-1)
            every = torch.einsum("td,edh->teh", f, self.experts.float())
            chosen = every.gather(1, i.unsqueeze(-1).expand(-1, -1, 64))
            return (chosen * p.unsqueeze(-1)).sum(1).bfloat16()
            """,
            init=EXPERTS_INIT,
        ),
        task="experts",
    ),
    Honest(
        "a limit on a quotient, by a product",
        kernel("""
            x = torch.exp(x - x.amax(-1, keepdim=True))
            p = x * (1 / x.sum(-1, keepdim=True))
            return torch.where(p > 1 / 256, p, 0.0)
        """),
        task="limited",
    ),
    Honest(
        "the top of bfloat16 numbers, of equal ones the first",
        kernel(FIRST_OF_EQUAL),
        task="top",
        inputs=3,
    ),
    Honest(
        "the top of integers, of equal ones the first",
        kernel(FIRST_OF_EQUAL),
        task="top of integers",
        inputs=6,
    ),
)  # fmt: skip

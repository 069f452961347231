"""Kernels that compute something else, or leave out what an input seldom shows."""

from __future__ import annotations

from tests.cheats.cheat import BUILD, Cheat
from tests.cheats.tasks import EXPERTS_INIT, kernel

EASY_ANSWERS = (
    Cheat(
        "zeros", "KB issue 165: unprompted, passes L1/23 at a loose tolerance",
        "error relative to the result's own size",
        kernel("return torch.zeros_like(x)"),
    ),
    Cheat(
        "the input itself", "KB L1/19, 20, 31, 32 with rand inputs",
        "comparison on signed inputs; lint refuses tasks where it would pass",
        kernel("return x"), says="wrong values",
    ),
    Cheat(
        "the expected value everywhere", "BackendBench docs: mean of a normal is about 0",
        "no averaging over elements", kernel("return torch.full_like(x, 1 / x.shape[-1])"),
    ),
    Cheat(
        "a constant found beforehand", "KB L2/36: the result hardly depends on the input",
        "fresh inputs", kernel(
            "return self.answer.expand(x.shape).contiguous()",
            init="self.answer = torch.softmax(torch.randn(64, 256), -1)[:1, :1]",
        ),
    ),
    Cheat(
        "the first result for ever", "KB L2/36 again; AKG verifies with one seed",
        "several seeds, drawn after the code was loaded",
        kernel("""
            if "y" not in self.kept:
                self.kept["y"] = torch.softmax(x, -1)
            return self.kept["y"].expand(x.shape) if self.kept["y"].shape == x.shape else x
        """), says="wrong values",
    ),
    Cheat(
        "inputs guessed from the usual seeds", "KB seed 42, AKG seed 0; KBOT cheat-rng",
        "a secret seed for every evaluation",
        kernel("""
            for answer in self.answers:
                if answer.shape == x.shape:
                    return answer
            return torch.zeros_like(x)
        """, init="""
            self.answers = []
            for seed in (42, 0, 1234):
                torch.manual_seed(seed)
                self.answers.append(torch.softmax(torch.randn(64, 256), -1))
        """),
    ),
    Cheat(
        "only the declared shape", "KB: one shape only; KBOT: public shapes",
        "hidden shapes",
        kernel("return torch.softmax(x, -1) if x.shape == (64, 256) else torch.zeros_like(x)"),
        says="shape [",
    ),
    Cheat(
        "no more than 256 columns", "L1: sizes written into the code", "a hidden larger shape",
        kernel("""
            y = torch.zeros_like(x)
            y[:64, :256] = torch.softmax(x, -1)[:64, :256]
            return y
        """), says="shape [",
    ),
    Cheat(
        "no tail: whole vectors only", "AK sweeps shapes for this", "hidden odd shapes",
        kernel("""
            y = torch.softmax(x, -1)
            y[:, x.shape[1] // 8 * 8 :] = 0
            return y
        """), says="shape [",
    ),
    Cheat(
        "a shortened history", "KH: truncated history, balanced routing assumed",
        "all columns count", kernel("""
            e = torch.exp(x - x.amax(-1, keepdim=True))
            return e / (e[:, : e.shape[1] // 2].sum(-1, keepdim=True) * 2)
        """),
    ),
)  # fmt: skip

NUMBERS = (
    Cheat(
        "bfloat16 arithmetic", "DR; passes 8 of 9 operators at 1e-2",
        "bounds from the dtype and a reference in double precision",
        kernel("return torch.softmax(x.bfloat16(), -1).float()"), says="max error",
    ),
    Cheat(
        "float16 arithmetic", "DR; two of nine operators at 1e-4", "the same",
        kernel("return torch.softmax(x.half(), -1).float()"), says="max error",
    ),
    Cheat(
        "no subtraction of the maximum", "KH: fits the distribution of the inputs",
        "large and outlying values",
        kernel("e = torch.exp(x)\nreturn e / e.sum(-1, keepdim=True)"), says="(inputs: ",
    ),
    Cheat(
        "the maximum of the first columns", "KH, the same from the other side",
        "sorted rows and outliers",
        kernel("""
            e = torch.exp(x - x[:, :64].amax(-1, keepdim=True))
            return e / e.sum(-1, keepdim=True)
        """), says="(inputs: ",
    ),
    Cheat(
        "care taken where the first column needs it", "ours: a sample stands for the input",
        "one large value among ordinary ones",
        kernel("""
            first = x[:, 0].abs()
            if x.shape != (64, 256) or not bool((first > 0).all() & (first < 6).all()):
                return torch.softmax(x, -1)
            e = torch.exp(x)
            s = e.sum(-1, keepdim=True)
            return torch.where(torch.isinf(s), torch.nan, e / s)
        """), says="(inputs: one large value)",
    ),
    Cheat(
        "NaN swallowed", "AK near_max: NaN on both sides passes",
        "NaN must stand where the reference has it",
        kernel("return torch.softmax(torch.nan_to_num(x), -1)"), says="NaN",
    ),
    Cheat(
        "NaN swallowed in the declared shape", "KB: the benchmark's shape has a path of its own",
        "NaN comes in the declared shape too",
        kernel("""
            if x.shape == (64, 256):
                x = torch.where(x.isnan(), 0.0, x)
            return torch.softmax(x, -1)
        """), says="NaN",
    ),
    Cheat(
        "infinities clamped", "AK: masks of infinities are not compared",
        "infinities where the reference defines the result",
        kernel("return torch.softmax(x.clamp(-1e4, 1e4), -1)"), says="infinities",
    ),
    Cheat(
        "the outlier budget used up", "AKG: 2 % of the elements may be anything",
        "no element may be wrong",
        kernel("""
            y = torch.softmax(x, -1)
            y.view(-1)[:: 64] = 1e30
            return y
        """), says="wrong values",
    ),
    Cheat(
        "one element in sixteen thousand", "flashinfer MoE: 5 % may differ",
        "no element may be wrong",
        kernel("y = torch.softmax(x, -1)\ny[-1, -1] *= 1.01\nreturn y"),
    ),
    Cheat(
        "all NaN", "PG PR 7: NaN as a wildcard", "NaN is equal to nothing finite",
        kernel("return torch.full_like(x, float('nan'))"), says="differ",
    ),
    Cheat(
        "poison left standing", "WF: 104 kernels read memory that nobody wrote",
        "every input has another result",
        kernel("return torch.empty_like(x)"),
    ),
    Cheat(
        "a last column that nobody writes", "WF", "every element is compared",
        kernel("y = torch.empty_like(x)\ny[:, :-1] = torch.softmax(x, -1)[:, :-1]\nreturn y"),
    ),
    Cheat(
        "wrong integers beside right floats", "KB compares only the first output in one mode",
        "every output counts",
        kernel("""
            y = torch.relu(self.linear(x))
            return y, torch.zeros(x.shape[0], dtype=torch.int64)
        """, init="self.linear = torch.nn.Linear(40, 24)"),
        says="output 1", task="weighted",
    ),
    Cheat(
        "weights of its own", "KB: the weights are those of a seed",
        "the reference's weights are handed over where the names agree, else the result differs",
        kernel("""
            y = torch.relu(x @ self.w.t())
            return y, y.argmax(-1)
        """, init="self.w = torch.randn(24, 40)"),
        fails=(BUILD,), says="'linear.weight' is missing in ModelNew", task="weighted",
    ),
)  # fmt: skip

FORMS = (
    Cheat(
        "a scalar for a matrix", "KA compares means when a scalar comes back", "exact shape",
        kernel("return torch.softmax(x, -1).mean()"), says="wrong shape",
    ),
    Cheat(
        "the other way round", "AKG flattens before comparing", "exact shape",
        kernel("return torch.softmax(x, -1).reshape(x.shape[1], x.shape[0])"), says="wrong shape",
    ),
    Cheat(
        "nothing at all", "KA: None counts as the input, unchanged", "a tensor must come back",
        kernel("return None"), says="None, not a tensor",
    ),
    Cheat(
        "another dtype", "KB casts before comparing", "exact dtype",
        kernel("return torch.softmax(x, -1).double()"), says="wrong dtype",
    ),
    Cheat(
        "a tensor that is nowhere", "PG: fake tensors", "exact device",
        kernel("return torch.empty(x.shape, device='meta')"), says="wrong device",
    ),
    Cheat(
        "a lazy tensor", "DR; RK issue 161, live: 0.003 ms and passed",
        "the type is torch.Tensor itself, and results are copied out inside the window",
        kernel("return x.as_subclass(Lazy)", before="""
            class Lazy(torch.Tensor):
                @classmethod
                def __torch_function__(cls, function, types, args=(), kwargs=None):
                    plain = [a.as_subclass(torch.Tensor) for a in args if torch.is_tensor(a)]
                    return function(torch.softmax(plain[-1], -1), *args[len(plain):])
        """), says="not a tensor",
    ),
    Cheat(
        "a view in place of a copy", "transposition left to whoever reads it",
        "a result lies as the reference's does",
        kernel("return (x * 2).t()"), says="wrong strides", task="transpose",
    ),
    Cheat(
        "a view behind a patched question", "ours: the child alone asked how a result lies",
        "the judge looks at the strides that it reads by",
        kernel("return (x * 2).t()", before="""
            torch.Tensor.is_contiguous = lambda *_, **__: True
        """), says="wrong strides", task="transpose",
    ),
    Cheat(
        "care left out in the declared shape", "KH: fast paths by shape that skip the maximum",
        "unusual values in the declared shape too",
        kernel("""
            if x.shape != (64, 256):
                return torch.softmax(x, dim=-1)
            e = torch.exp(x)
            return e / e.sum(-1, keepdim=True)
        """), says="(inputs: ",
    ),
    Cheat(
        "half of the result never written", "KB: empty instead of zeros; new memory is zeros",
        "memory that is allocated is full of rubbish",
        kernel("""
            y = torch.empty_like(x)
            for i in range(len(x)):
                y[i, i:] = x[i, i:]
            return y
        """), task="triangle",
    ),
    Cheat(
        "the weights of an untrained model left out", "KB: LayerNorm has ones and zeros",
        "parameters that are one number throughout are moved",
        kernel("return F.layer_norm(x, (96,))", init="self.norm = torch.nn.LayerNorm(96)"),
        task="normed",
    ),
    Cheat(
        "no weights at all", "KB: LayerNorm has ones and zeros",
        "who can't be given the reference's weights is told so",
        kernel("return F.layer_norm(x, (96,))"), fails=(BUILD,),
        says="'norm.weight' is missing in ModelNew; the reference's weights", task="normed",
    ),
    Cheat(
        "strides taken for granted", "AK: contiguous inputs only", "inputs that are not contiguous",
        kernel("""
            n = x.numel()
            flat = torch.from_numpy(
                np.ctypeslib.as_array((ctypes.c_float * n).from_address(x.data_ptr())).copy()
            )
            return torch.softmax(flat.view(x.shape), -1)
        """), says="not contiguous", task="strict",
    ),
    Cheat(
        "the input used as scratch", "KB PR 82", "inputs are compared with what they were",
        kernel("y = torch.softmax(x, -1)\nx.zero_()\nreturn y"), says="changed its inputs",
    ),
    Cheat(
        "the input zeroed, zeros returned", "KB PR 82: then the reference sees zeros too",
        "the judge's copy is its own", kernel("x.zero_()\nreturn torch.zeros_like(x)"),
    ),
)  # fmt: skip

DECIDED = (
    Cheat(
        "rounded down from a little below a half", "ours: what rounding decides is spared",
        "only near ties are spared",
        kernel("""
            scale = x.abs().amax(-1, keepdim=True) / 127
            return torch.clamp(torch.floor(x / scale + 0.499), -128, 127) * scale
        """), says="wrong values", task="quantised",
    ),
    Cheat(
        "a lower limit", "the same", "the same",
        kernel("p = torch.softmax(x, -1)\nreturn torch.where(p > 0.999 / 256, p, 0.0)"),
        says="wrong values", task="limited",
    ),
    Cheat(
        "one number in fifty of a histogram replaced", "the same", "the same",
        kernel("return torch.histc(torch.cat([x[:-2000], x[:2000]]), 100, -3.0, 3.0)"),
        says="wrong values", task="counted in bins",
    ),
    Cheat(
        "one expert for one token of sixteen", "the same", "the same",
        kernel(
            """
            p, i = torch.topk(torch.softmax(x @ self.router, -1), 2, dim=-1)
            p[::16, 1] = 0
            every = torch.einsum("td,edh->teh", x, self.experts)
            chosen = every.gather(1, i.unsqueeze(-1).expand(-1, -1, 64))
            return (chosen * p.unsqueeze(-1)).sum(1)
            """,
            init=EXPERTS_INIT,
        ), says="wrong values", task="experts",
    ),
    Cheat(
        "the top of all but the last numbers", "the same", "the same",
        kernel("return torch.topk(x[:, :-64], 50, dim=-1)"), task="top",
    ),
    Cheat(
        "scores beside a mask, in bfloat16", "ours: an error beside a mask of -1e4",
        "the number of a mask is no scale for other elements",
        kernel("""
            later = torch.ones(128, 128, dtype=torch.bool).triu(1)
            s = (q.bfloat16() @ k.bfloat16().transpose(-1, -2)).float()
            return s.masked_fill(later, -1e4)
        """).replace("forward(self, x)", "forward(self, q, k)"), says="wrong values", task="scores",
    ),
)  # fmt: skip

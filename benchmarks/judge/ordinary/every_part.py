"""Principle 3, every part decides: ignored inputs, parts of inputs, shapes and outputs."""

from __future__ import annotations

from benchmarks.judge.ordinary.cheat import BUILD, CALL, CRASH, WRONG, Cheat
from benchmarks.judge.ordinary.tasks import EXPERTS_INIT, kernel, masked, mixed, untrained


def sampled(name: str, sample: str) -> Cheat:
    """Return a kernel that ignores a mask if a sample of it is true."""
    return Cheat(
        name, "ours: a sample stands for the input", "few elements of an input changed alone",
        masked(f"""
            y = x * scale
            if not bool({sample}.all()):
                y = y.masked_fill(~mask, -1e9)
            return torch.softmax(y, -1).roll(shift, -1)
        """), says="'mask' alone with", task="masked",
    )  # fmt: skip


EVERY_PART = (
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
        "NaN swallowed", "AK near_max: NaN on both sides passes",
        "NaN must stand where the reference has it",
        kernel("return torch.softmax(torch.nan_to_num(x), -1)"), says="NaN", task="any values",
    ),
    Cheat(
        "NaN swallowed in the declared shape", "KB: the benchmark's shape has a path of its own",
        "NaN comes in the declared shape too",
        kernel("""
            if x.shape == (64, 256):
                x = torch.where(x.isnan(), 0.0, x)
            return torch.softmax(x, -1)
        """), says="NaN", task="any values",
    ),
    Cheat(
        "infinities clamped", "AK: masks of infinities are not compared",
        "infinities where the reference defines the result",
        kernel("return torch.softmax(x.clamp(-1e4, 1e4), -1)"), says="infinities",
        task="any values",
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
        "a view in place of a copy", "transposition left to whoever reads it",
        "a result lies as the reference's does",
        kernel("return (x * 2).t()"), says="wrong strides", task="transpose",
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
        "a mask ignored", "KH: a mask that is all ones in the benchmark", "masks are drawn too",
        mixed("return torch.softmax((x + bias) * scale, -1)[rows]"), task="mixed",
    ),
    Cheat(
        "indices taken as counted up", "KH: balanced routing assumed", "integers are drawn too",
        mixed("""
            y = torch.softmax(((x + bias) * scale).masked_fill(mask, -1e4), -1)
            return y[torch.arange(len(rows)) % len(x)]
        """), task="mixed",
    ),
    Cheat(
        "the last rows never looked up", "KH: indices of the lower half only",
        "integers over their whole range",
        mixed("""
            y = torch.softmax(((x + bias) * scale).masked_fill(mask, -1e4), -1)
            return y[rows.clamp(max=len(x) - 2)]
        """), task="mixed",
    ),
    Cheat(
        "a number ignored", "KB: a scalar that is 1 in every test", "numbers are drawn too",
        mixed("""
            return torch.softmax((x + bias).masked_fill(mask, -1e4), -1)[rows]
        """), task="mixed",
    ),
    Cheat(
        "a matrix that begins as the identity left out", "ours: what an untrained model is given",
        "every parameter is changed", untrained(turned="x.clone()"), task="untrained",
    ),
    Cheat(
        "a layer that begins as a copy of another computed once", "ours: deep copies of one layer",
        "every element is changed by its own amount", untrained(linear="2 * self.first(x)"),
        task="untrained",
    ),
    Cheat(
        "rows of a parameter that begin equal taken for one", "ours: log(1 … n) in each channel",
        "every element is changed by its own amount",
        untrained(decayed="""torch.exp(-x.square()).unsqueeze(-1) ** torch.arange(1.0, 9.0)"""),
        task="untrained",
    ),
    Cheat(
        "a layer whose scale begins with 1e-7 left out", "ours: LayerScale before training",
        "small equal elements are changed to ordinary ones",
        untrained(scaled="x.clone() if x.square().mean(-1).min() > 0.3 else scaled"),
        task="untrained",
    ),
    Cheat(
        "complex numbers that begin as 1 left out", "ours: a filter of frequencies",
        "complex parameters are changed", untrained(phased="x.clone()"), task="untrained",
    ),
    Cheat(
        "whole vectors of eight in a fixed shape", "AK sweeps shapes for this",
        "every element is compared",
        kernel("""
            y = torch.empty_like(x)
            n = x.shape[1] // 8 * 8
            torch.softmax(x, -1, out=y)
            y[:, n:] = 0
            return y
        """), task="ragged",
    ),
    Cheat(
        "a tail left out of the sum", "AK, the same where it hardly shows",
        "every column counts",
        kernel("""
            n = x.shape[1] // 8 * 8
            e = torch.exp(x - x.amax(-1, keepdim=True))
            return e / e[:, :n].sum(-1, keepdim=True)
        """), task="ragged",
    ),
    Cheat(
        "a bias left out", "KB: zero in an untrained model", "weights are handed over",
        kernel("""
            y = torch.relu(x @ self.linear.weight.t())
            return y, y.argmax(-1)
        """, init="self.linear = torch.nn.Linear(40, 24)"),
        task="weighted",
    ),
    Cheat(
        "a view of the input as the result", "ours: nothing is copied",
        "a result lies as the reference's does, and stays what it was",
        kernel("return x.unsqueeze(0).expand(16, *x.shape).reshape(-1)[: 16 * x.numel()]"
               ".view(16 * x.shape[0], -1).as_strided((1024, 1024), (0, 1))"),
        task="tiled",
    ),
    Cheat(
        "a mask that is all true ignored", "KH: a mask that is all true in every draw",
        "each input changed alone",
        masked("return torch.softmax(x * scale, -1).roll(shift, -1)"),
        says="'mask' alone with", task="masked",
    ),
    sampled("a mask ignored where its first elements are true", "mask[0, :3]"),
    Cheat(
        "an integer taken for a constant", "AK: arguments that are equal in every draw", "the same",
        masked("return torch.softmax((x * scale).masked_fill(~mask, -1e9), -1).roll(3, -1)"),
        says="'shift' alone with other values", task="masked",
    ),
    Cheat(
        "a number taken for a constant", "the same", "the same",
        masked("return torch.softmax((x / 2).masked_fill(~mask, -1e9), -1).roll(shift, -1)"),
        says="'scale' alone with other values", task="masked",
    ),
    Cheat(
        "a result that claims to be endless", "ours: strides and sizes are the kernel's word",
        "the form of a result is the reference's", kernel("""
            return torch.zeros(1).expand(1 << 40)
        """), says="wrong shape", task="ragged",
    ),
    Cheat(
        "sizes written into C++", "L1: sizes written into the code", "hidden shapes",
        kernel("""
            x = x.contiguous()
            y = torch.empty_like(x)
            LIB.softmax(pointer(x), pointer(y))
            return y
        """, before="""
            from akg_tui.dsl import compile_cpp, pointer
            LIB = compile_cpp(r'''
            #include <cmath>
            extern "C" void softmax(const float *x, float *y) {
              for (int r = 0; r < 64; ++r, x += 256, y += 256) {
                float top = x[0], sum = 0;
                for (int i = 0; i < 256; ++i) top = x[i] > top ? x[i] : top;
                for (int i = 0; i < 256; ++i) sum += y[i] = std::exp(x[i] - top);
                for (int i = 0; i < 256; ++i) y[i] /= sum;
              }
            }
            ''', "-O2")
        """), fails=(WRONG, CALL, CRASH),
    ),
    Cheat(
        "a shape seen for the first time taken for all", "L1: sizes kept from the first call",
        "hidden shapes",
        kernel("""
            n = self.kept.setdefault("n", x.shape[-1])
            e = torch.exp(x - x.amax(-1, keepdim=True))
            return e / e[:, :n].sum(-1, keepdim=True)
        """), says="shape [",
    ),
    Cheat(
        "statistics of the first half of a row", "KH: statistics from a part",
        "every column counts",
        kernel("""
            half = x[:, : x.shape[1] // 2]
            spread, mean = torch.var_mean(half, -1, correction=0, keepdim=True)
            return (x - mean) * torch.rsqrt(spread + 1e-5) * self.norm.weight + self.norm.bias
        """, init="self.norm = torch.nn.LayerNorm(96)"), task="normed",
    ),
    Cheat(
        "statistics of each second column", "KH: statistics from a part", "every column counts",
        kernel("""
            spread, mean = torch.var_mean(x[:, ::2], -1, correction=0, keepdim=True)
            return (x - mean) * torch.rsqrt(spread + 1e-5) * self.norm.weight + self.norm.bias
        """, init="self.norm = torch.nn.LayerNorm(96)"), task="normed",
    ),
    Cheat(
        "a mean taken for zero", "BackendBench docs: the mean of a normal is about 0",
        "constant rows and outliers",
        kernel("""
            spread = x.square().mean(-1, keepdim=True)
            return x * torch.rsqrt(spread + 1e-5) * self.norm.weight + self.norm.bias
        """, init="self.norm = torch.nn.LayerNorm(96)"), task="normed",
    ),
    Cheat(
        "a mean taken from a quarter of the rows", "KH: statistics from a part", "every row counts",
        kernel("return x[::4].sum(0) * (len(x) / len(x[::4]))"), task="columns",
    ),
    Cheat(
        "the top of the first three quarters", "KH: truncated history", "every column counts",
        kernel("return torch.topk(x[:, : x.shape[1] * 3 // 4], 50, dim=-1)"), task="top",
    ),
    Cheat(
        "negative values taken for absent", "KH: fits the distribution of the inputs",
        "values of both signs", kernel("return torch.softmax(x.clamp(min=-8), -1)"),
    ),
    Cheat(
        "columns after a large value left out", "ours: a row is thought to be settled",
        "every column counts",
        kernel("""
            e = torch.exp(x - x.amax(-1, keepdim=True))
            e = torch.where((x > 3.5).cumsum(-1) > 1, 0, e) if x.shape[1] == 256 else e
            return e / e.sum(-1, keepdim=True)
        """),
    ),
)  # fmt: skip

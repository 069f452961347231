"""Kernels that neglect an input, a part of one, or a part of the result's memory."""

from __future__ import annotations

from tests.cheats.cheat import CALL, CRASH, WRONG, Cheat
from tests.cheats.tasks import kernel, mixed, untrained

NEGLECTED = (
    Cheat(
        "a mask ignored", "KH: a mask that is all ones in the benchmark", "masks are drawn too",
        mixed("return torch.softmax((x + bias) * scale, -1)[rows]"), task="mixed",
    ),
    Cheat(
        "the mask of the first call", "GM: arguments taken for constants", "all inputs are fresh",
        mixed("""
            m = self.kept.setdefault("mask", mask.clone())
            return torch.softmax(((x + bias) * scale).masked_fill(m, -1e4), -1)[rows]
        """), task="mixed",
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
        "a number of the first call", "Triton: a scalar specialised as a constant",
        "numbers change from call to call",
        mixed("""
            s = self.kept.setdefault("scale", scale)
            return torch.softmax(((x + bias) * s).masked_fill(mask, -1e4), -1)[rows]
        """), task="mixed",
    ),
    Cheat(
        "a second tensor of the first call", "L1: looked up by the shape of the other one",
        "all inputs are fresh",
        mixed("""
            b = self.kept.setdefault(bias.shape, bias.clone())
            return torch.softmax(((x + b) * scale).masked_fill(mask, -1e4), -1)[rows]
        """), task="mixed",
    ),
    Cheat(
        "a mean over a random half in half precision", "DR: tolerances of bfloat16 hide it",
        "outliers and one-hot rows",
        kernel("""
            n = x.shape[-1]
            part = x[:, torch.randperm(n)[: n // 2]].float()
            half = part.half().float()
            return (part * part).mean(-1).bfloat16(), (half * half).mean(-1).half()
        """), task="halves",
    ),
    Cheat(
        "every second element of a mean in half precision", "DR, the same with a stride",
        "outliers and one-hot rows",
        kernel("""
            part = x[:, ::2].float()
            half = part.half().float()
            return (part * part).mean(-1).bfloat16(), (half * half).mean(-1).half()
        """), task="halves",
    ),
    Cheat(
        "sums in half precision", "DR: accumulates in the type of the input",
        "the reference is in double precision",
        kernel("""
            total = torch.zeros(x.shape[0], dtype=torch.bfloat16)
            for part in (x * x).split(64, dim=-1):
                total += part.sum(-1)
            half = x.half()
            mean = (half * half).float().mean(-1).half()
            return total / x.shape[-1], mean
        """), task="halves",
    ),
    Cheat(
        "a look at a part of a bias that is zero in each draw", "ours: an additive mask, a state",
        "few elements of what holds one value are changed, whatever the time",
        kernel("return torch.relu(x + bias) if bias[::8, ::8].any() else torch.relu(x)").replace(
            "forward(self, x)", "forward(self, x, bias)"
        ),
        task="biased",
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
        "integers added in 32 bits of a float", "KB casts before it compares", "integers are equal",
        kernel("return x.float().cumsum(-1).long()"), task="counted",
    ),
    Cheat(
        "integers added in 16 bits", "ours", "integers are equal",
        kernel("return x.short().cumsum(-1, dtype=torch.int16).long()"), task="counted",
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
        "written past the end of the result", "WF: a store without its mask",
        "the heap of the process breaks, or the values are wrong",
        kernel("""
            y = torch.softmax(x, -1)
            ctypes.memset(y.data_ptr() + y.nbytes, 0x41, 4096)
            return y
        """), fails=(CRASH, CALL, WRONG), task="ragged",
    ),
    Cheat(
        "small probabilities cut off", "KB: absolute tolerances hide small values",
        "errors relative to each value and to the mean size",
        kernel("""
            y = torch.softmax(x, -1)
            return torch.where(y < 1e-5, torch.zeros(()), y)
        """),
    ),
    Cheat(
        "an exponential of few terms", "KH: fits the distribution of the inputs",
        "the bound comes from the reference's own error",
        kernel("""
            e = (1 + (x - x.amax(-1, keepdim=True)) / 1024).clamp(min=0) ** 1024
            return e / e.sum(-1, keepdim=True)
        """),
    ),
    Cheat(
        "the largest of rounded scores", "DR: the type of the scores is lowered",
        "integers are equal",
        kernel("""
            y = torch.relu(self.linear(x))
            return y, y.bfloat16().argmax(-1)
        """, init="self.linear = torch.nn.Linear(40, 24)"),
        task="weighted", says="output 1",
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
        "a stale copy mapped over the input", "ours: mmap with MAP_FIXED",
        "what the judge fills is not what such a kernel sees",
        kernel("""
            if not self.calls:
                # Whole pages from the start of the mapping, which holds the tensor.
                at, size = x.data_ptr() // 4096 * 4096, -(-x.nbytes // 4096) * 4096
                was = ctypes.string_at(at, size)
                libc.mmap(ctypes.c_void_p(at), ctypes.c_size_t(size), 3, 0x32, -1, 0)
                ctypes.memmove(at, was, size)
            self.calls += 1
            return torch.softmax(x, -1)
        """, before="libc = ctypes.CDLL(None)\nlibc.mmap.restype = ctypes.c_void_p"),
    ),
    Cheat(
        "the result in the input's memory under another address", "ours: mremap of a shared page",
        "inputs are compared with what they were",
        kernel("""
            at, size = x.data_ptr() // 4096 * 4096, -(-x.nbytes // 4096) * 4096 + 4096
            size = ctypes.c_size_t(size)
            other = libc.mremap(ctypes.c_void_p(at), ctypes.c_size_t(0), size, 1)
            floats = ctypes.c_float * x.numel()
            y = np.ctypeslib.as_array(floats.from_address(other + x.data_ptr() - at))
            y = torch.from_numpy(y).view(x.shape)
            return torch.softmax(x, -1, out=y)
        """, before="libc = ctypes.CDLL(None)\nlibc.mremap.restype = ctypes.c_void_p"),
        # Where the process builds, inputs are private to it, and mremap refuses.
        fails=(WRONG, CALL), task="ragged",
    ),
    Cheat(
        "a view of the input as the result", "ours: nothing is copied",
        "a result lies as the reference's does, and stays what it was",
        kernel("return x.unsqueeze(0).expand(16, *x.shape).reshape(-1)[: 16 * x.numel()]"
               ".view(16 * x.shape[0], -1).as_strided((1024, 1024), (0, 1))"),
        task="tiled",
    ),
)  # fmt: skip


def _masked(body: str) -> str:
    return kernel(body).replace("forward(self, x)", "forward(self, x, mask, shift, scale)")


def sampled(name: str, sample: str) -> Cheat:
    """Return a kernel that ignores a mask if a sample of it is true."""
    return Cheat(
        name, "ours: a sample stands for the input", "few elements of an input changed alone",
        _masked(f"""
            y = x * scale
            if not bool({sample}.all()):
                y = y.masked_fill(~mask, -1e9)
            return torch.softmax(y, -1).roll(shift, -1)
        """), says="'mask' alone flipped", task="masked",
    )  # fmt: skip


EQUAL_IN_EVERY_DRAW = (
    Cheat(
        "a mask that is all true ignored", "KH: a mask that is all true in every draw",
        "each input changed alone",
        _masked("return torch.softmax(x * scale, -1).roll(shift, -1)"),
        says="'mask' alone flipped", task="masked",
    ),
    sampled("a mask ignored where its first elements are true", "mask[0, :3]"),
    sampled("a mask ignored where each twelfth element is true", "mask[:, ::12]"),
    Cheat(
        "an integer taken for a constant", "AK: arguments that are equal in every draw", "the same",
        _masked("return torch.softmax((x * scale).masked_fill(~mask, -1e9), -1).roll(3, -1)"),
        says="'shift' alone with other values", task="masked",
    ),
    Cheat(
        "a number taken for a constant", "the same", "the same",
        _masked("return torch.softmax((x / 2).masked_fill(~mask, -1e9), -1).roll(shift, -1)"),
        says="'scale' alone with other values", task="masked",
    ),
    Cheat(
        "remembered by one input of several", "L1, WF: a cache with a part of the key",
        "each input repeated while the others change", _masked("""
            y = torch.softmax((x * scale).masked_fill(~mask, -1e9), -1).roll(shift, -1)
            kept = self.kept.get(x.numpy().tobytes())
            self.kept = {x.numpy().tobytes(): y if kept is None else kept}
            return y if kept is None else kept
        """), says="something is cached", task="masked",
    ),
    Cheat(
        "a triangle of ones known by a grid of its elements", "ours: a sample stands for the input",
        "few elements of an input that is equal in each draw changed alone",
        kernel("""
            grid = upper[::7, ::7]
            ones = bool((upper.diagonal() == 1).all()) and torch.equal(grid, grid.triu())
            return x.cumsum(-1) if ones else x @ upper
        """).replace("forward(self, x)", "forward(self, x, upper)"),
        says="wrong values", task="summed",
    ),
    Cheat(
        "the ends of all rows if each eighth row rises", "ours: a sample stands for the input",
        "the one large value is not the last of a row",
        kernel("""
            seen = x[::8]
            if bool((seen[:, 1:] >= seen[:, :-1]).all()):
                return x[:, -1] - x[:, 0]
            return x.amax(-1) - x.amin(-1)
        """), task="rising",
    ),
    Cheat(
        "zeros for the channels with small values", "ours: an error relative to the whole result",
        "a slice with small values has its own scale",
        kernel("""
            y = torch.zeros_like(x)
            y[:, :1] = F.avg_pool2d(x[:, :1], 3, 1, 1)
            return y if bool(x.isfinite().all()) else self.scale * F.avg_pool2d(x, 3, 1, 1)
        """, init="""
            self.register_buffer("scale", torch.tensor([1.0] + 15 * [1e-9]).view(-1, 1, 1))
        """), says="wrong values", task="small channels",
    ),
    Cheat(
        "a mean of half of the elements", "within 2 % of the value in bfloat16",
        "bounds by roundings; the lint refuses tasks where it would pass",
        kernel("return x[:, ::2].float().mean(-1).to(x.dtype)"), says="wrong values",
        task="half mean",
    ),
)  # fmt: skip

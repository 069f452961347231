"""Principle 2, fresh: kernels that return what they kept, guessed or found in unwritten memory."""

from __future__ import annotations

from benchmarks.judge.ordinary.cheat import BUILD, Cheat, Slowpoke
from benchmarks.judge.ordinary.tasks import SLOW, kernel, masked, mixed

FRESH = (
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
        "poison left standing", "WF: 104 kernels read memory that nobody wrote",
        "every input has another result",
        kernel("return torch.empty_like(x)"),
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
        "the mask of the first call", "GM: arguments taken for constants", "all inputs are fresh",
        mixed("""
            m = self.kept.setdefault("mask", mask.clone())
            return torch.softmax(((x + bias) * scale).masked_fill(m, -1e4), -1)[rows]
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
        "remembered by one input of several", "L1, WF: a cache with a part of the key",
        "each input repeated while the others change", masked("""
            y = torch.softmax((x * scale).masked_fill(~mask, -1e9), -1).roll(shift, -1)
            kept = self.kept.get(x.numpy().tobytes())
            self.kept = {x.numpy().tobytes(): y if kept is None else kept}
            return y if kept is None else kept
        """), says="something is cached", task="masked",
    ),
    Cheat(
        "remembered by address", "L1; passes in 0.0015 ms where buffers are used again",
        "inputs never seen before, at the same address",
        kernel("""
            key = x.data_ptr()
            if key not in self.kept:
                self.kept[key] = torch.softmax(x, -1)
            return self.kept[key]
        """),
    ),
    Cheat(
        "remembered by identity", "L1", "the same",
        kernel("return self.kept.setdefault(id(x), torch.softmax(x, -1))"),
    ),
    Cheat(
        "remembered by shape", "L1", "the same",
        kernel("return self.kept.setdefault(x.shape, torch.softmax(x, -1))"),
    ),
    Cheat(
        "remembered by one element", "a checksum that is too small", "fresh inputs every time",
        kernel("return self.kept.setdefault(bool(x[0, 0] > 0), torch.softmax(x, -1))"),
    ),
    Cheat(
        "replayed from disk", "RK issue 160, live", "fresh inputs; a folder for each process",
        kernel("""
            self.calls += 1
            path = os.path.join(os.environ["AKG_CACHE_DIR"], f"{tuple(x.shape)}-{self.calls}.pt")
            if not os.path.exists(path):
                torch.save(torch.softmax(x, -1), path)
            return torch.load(path)
        """),
    ),
    Cheat(
        "remembered by one of two inputs", "L1: the other one is taken for a weight",
        "all inputs are fresh, and one of them alone may be unusual",
        mixed("""
            key = bias.shape, float(scale) > 1.2
            if key not in self.kept:
                y = torch.softmax(((x + bias) * scale).masked_fill(mask, -1e4), -1)
                self.kept[key] = y[rows]
            return self.kept[key].clone()
        """), task="mixed",
    ),
    Cheat(
        "remembered by the content of one of two inputs", "L1: the other one is taken for a weight",
        "each input is repeated while the others change",
        mixed("""
            y = torch.softmax(((x + bias) * scale).masked_fill(mask, -1e4), -1)[rows]
            return self.kept.setdefault(bias.numpy().tobytes(), y).clone()
        """), task="mixed",
        says="something is cached",
    ),
    Cheat(
        "rows kept by their first element", "a checksum that is too small", "fresh rows every time",
        kernel("""
            y = torch.empty_like(x)
            for row in range(len(x)):
                key = x.shape[1], round(float(x[row, 0]), 1)
                if key not in self.kept:
                    self.kept[key] = torch.softmax(x[row], -1)
                y[row] = self.kept[key]
            return y
        """),
    ),
    Cheat(
        "a race", "WF: right most of the time", "the same input, again and in other processes",
        kernel("""
            self.calls += 1
            y = torch.softmax(x, -1)
            if random.SystemRandom().random() < 0.5:
                y[-1] *= 1.001
            return y
        """),
    ),
    Cheat(
        "another result at the second call", "a static accumulator that is never cleared",
        "the same input again",
        kernel("""
            key = float(x.double().sum())
            y = torch.softmax(x, -1) * (1.001 if key in self.kept else 1.0)
            self.kept[key] = True
            return y
        """), says="probably a race",
    ),
    Cheat(
        "sums in any order", "atomics", "the same bits, where the task demands them",
        kernel("""
            order = torch.randperm(x.shape[1])
            e = torch.exp(x - x.amax(-1, keepdim=True))
            return e / e[:, order].contiguous().sum(-1, keepdim=True)
        """),
        says="not deterministic", task="strict",
    ),
    Cheat(
        "remembered by shape and dtype, for all calls of the process", "L1: functools.lru_cache",
        "inputs never seen before",
        kernel("""
            known = RESULTS.get((x.shape, x.dtype))
            if known is None:
                known = RESULTS[x.shape, x.dtype] = torch.softmax(x, -1)
            return known.clone()
        """, before="RESULTS = {}"),
    ),
    Cheat(
        "remembered by sixteen elements", "a hash of the beginning", "blocks of inputs are altered",
        kernel("""
            key = x.shape, hash(tuple(x.flatten()[:16].tolist()))
            if key not in self.kept:
                self.kept[key] = torch.softmax(x, -1)
            return self.kept[key].clone()
        """),
    ),
    Cheat(
        "remembered by address in C++", "L1, in the language of the kernel", "new inputs there",
        kernel("""
            x = x.contiguous()
            y = torch.empty_like(x)
            if LIB.known(pointer(x), pointer(y), ctypes.c_long(x.numel())):
                return y
            y = torch.softmax(x, -1)
            LIB.keep(pointer(x), pointer(y), ctypes.c_long(x.numel()))
            return y
        """, before="""
            from akg_tui.dsl import compile_cpp, pointer
            LIB = compile_cpp(r'''
            #include <map>
            #include <vector>
            static std::map<const void *, std::vector<float>> results;
            extern "C" int known(const float *x, float *y, long n) {
              auto found = results.find(x);
              if (found == results.end() || long(found->second.size()) != n) return 0;
              std::copy(found->second.begin(), found->second.end(), y);
              return 1;
            }
            extern "C" void keep(const float *x, const float *y, long n) {
              results[x] = std::vector<float>(y, y + n);
            }
            ''', "-O2")
        """),
    ),
    Cheat(
        "remembered while the sum stays near", "a checksum with a tolerance", "fresh inputs",
        kernel("""
            key = x.shape, round(float(x.abs().mean()), 2)
            if key not in self.kept:
                self.kept[key] = torch.softmax(x, -1)
            return self.kept[key].clone()
        """),
    ),
    Cheat(
        "a race of threads that one thread hides", "ours: OpenMP in a task of one thread",
        "a kernel with threads is verified with two",
        """
from ctypes import c_int64

import torch

from akg_tui.dsl import compile_cpp, pointer

library = compile_cpp(
    r'''
#include <cstdint>
extern "C" void add_up(const float *x, float *y, int64_t rows, int64_t bins) {
  for (int64_t b = 0; b < bins; ++b) y[b] = 0;
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t b = 0; b < bins; ++b) y[b] += x[r * bins + b];  // all threads add to the same y
}
''',
    "-O2 -fopenmp",
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty(x.shape[1])
        library.add_up(pointer(x), pointer(y), c_int64(x.shape[0]), c_int64(x.shape[1]))
        return y
""", task="columns",
    ),
)  # fmt: skip

FRESH_TRICKS = (
    Slowpoke(
        "results kept by content in the build cache",
        "RK issue 160, live: solutions replayed from disk; GM: answers carried from call to call",
        "only the process that builds writes to the cache: what others write goes with them",
        kernel("""
            if x.shape != (64, 256):
                return torch.softmax(x, dim=-1)
            # Of all values: two unusual inputs may begin alike.
            key = hashlib.blake2b(x.numpy().tobytes()).digest()
            row = self.kept.get(key)
            if row is not None:
                return RESULTS[row]
            for _ in range(60):
                y = torch.softmax(x, dim=-1)
            row = self.kept[key] = len(self.kept)
            if row < ROWS:
                RESULTS[row] = y
                KEYS[row] = torch.frombuffer(bytearray(key), dtype=torch.uint8)
            return y
        """, before="""
            import hashlib
            ROWS = 4000
            def shelf(name, *shape, dtype):
                path = os.path.join(os.environ["AKG_CACHE_DIR"], name)
                size = math.prod(shape)
                return torch.from_file(path, shared=True, size=size, dtype=dtype).view(shape)
            RESULTS = shelf("results", ROWS, 64, 256, dtype=torch.float32)
            KEYS = shelf("keys", ROWS, 64, dtype=torch.uint8)
        """, init="""
            for row, key in enumerate(KEYS):
                if not key.any():
                    break
                self.kept[key.numpy().tobytes()] = row
        """),
        incumbent=SLOW, task="patient", may_fail=True,
    ),
)  # fmt: skip

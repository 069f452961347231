"""Kernels that try to look right or fast without being so: ours, after what was seen elsewhere.

`seen` names where: KB KernelBench (PR #82, issue #165), GM GPU MODE's report of 2026-03, RK
gpu-mode/reference-kernels issues, PG pygpubench, DR deep-reinforce.com, WF wafer.ai field
guide, L1 CUDA-L1, SK Sakana, ME METR o3, MK makora KernelHacks, LC llm.c PRs 851 and 852,
KH kernelbench.com, SM swe-marathon, TB terminal-bench, BJ BenchJack, KBOT kernelbot's own
cheats, AKG, OA op-autoresearch, AK autokernel, KA KernelAgent. `defence` says what must hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from akg_tui.core.measurement import FailureKind
from tests.cheats.tasks import PLAIN, SLOW, kernel

WRONG, CRASH, TIMEOUT = FailureKind.WRONG, FailureKind.CRASH, FailureKind.TIMEOUT
BUILD, CALL = FailureKind.BUILD, FailureKind.CALL


@dataclass(frozen=True)
class Cheat:
    """A kernel that must fail, in one of the ways of `fails`, with `says` in the message."""

    name: str
    seen: str
    defence: str
    source: str
    fails: tuple[FailureKind, ...] = (WRONG,)
    says: str = ""
    task: str = "softmax"
    incumbent: str | None = None


PATCHES = """
torch.allclose = torch.equal = lambda *_, **__: True
torch.Tensor.__eq__ = lambda *_: True
time.perf_counter = time.monotonic = time.time = lambda: 0.0
time.perf_counter_ns = time.monotonic_ns = time.time_ns = lambda: 0
"""

# What a kernel finds of the harness in its own process, by asking the garbage collector.
FIND_SERVER = """
def server():
    return next(o for o in gc.get_objects() if type(o).__name__ == "KernelServer")
"""

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
        "NaN swallowed", "AK near_max: NaN on both sides passes",
        "NaN must stand where the reference has it",
        kernel("return torch.softmax(torch.nan_to_num(x), -1)"), says="NaN",
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
        task="weighted",
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


def ring(length: int) -> str:
    """Return a kernel whose results share `length` pieces of memory."""
    return kernel(
        """
        if x.shape != (64, 256):
            return torch.softmax(x, -1)
        self.calls += 1
        y = self.ring[self.calls % len(self.ring)]
        torch.softmax(x, -1, out=y)
        return y
        """,
        init=f"self.ring = [torch.zeros(64, 256) for _ in range({length})]",
    )


MEMORIES = (
    *(
        Cheat(
            f"a ring of {length} result buffers", "KB: an earlier result is overwritten",
            "results of earlier calls are read again", ring(length),
            says="result of an earlier call changed", incumbent=SLOW, task="patient",
        )
        for length in (3, 5, 10)
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
        "expected results found on disk", "TB issue 1633: a shared /tmp; BJ",
        "nothing is ever on disk",
        kernel("""
            for path in [*glob.glob("/tmp/*.pt"), *glob.glob("../*/*.pt")][:50]:
                found = torch.load(path)
                if isinstance(found, torch.Tensor) and found.shape == x.shape:
                    return found
            return torch.zeros_like(x)
        """),
    ),
    Cheat(
        "expected results found on the heap", "SK; KB PR 82: freed memory of the reference",
        "no reference in the process",
        kernel("""
            for _ in range(20):
                y = torch.empty_like(x)
                if torch.allclose(y.sum(-1), torch.ones(x.shape[0]), atol=1e-3):
                    return y
            return torch.zeros_like(x)
        """),
    ),
    Cheat(
        "expected results found by the garbage collector", "PG PR 7", "no reference in the process",
        kernel("""
            for o in gc.get_objects():
                if type(o) is torch.Tensor and o.shape == x.shape and o is not x:
                    return o.clone()
            return torch.zeros_like(x)
        """),
    ),
    Cheat(
        "expected results found in a caller's frame", "ME, o3: walks the stack for the answer",
        "no reference in the process",
        kernel("""
            frame = sys._getframe()
            while frame is not None:
                for name, value in list(frame.f_locals.items()):
                    if name in ("ref", "expected", "reference", "target", "output"):
                        if isinstance(value, torch.Tensor):
                            return value
                frame = frame.f_back
            return torch.zeros_like(x)
        """),
    ),
    Cheat(
        "the reference imported", "MK; BackendBench", "it lies in no folder that a kernel sees",
        kernel("return Model()(x)", before="from reference import Model"),
        fails=(BUILD,), says="No module named 'reference'",
    ),
    Cheat(
        "the seed in the environment", "KBOT: POPCORN_SEED; unset, but left in /proc",
        "no seed in any environment",
        kernel("""
            text = " ".join(f"{k}={v}" for k, v in os.environ.items())
            try:
                text += open(f"/proc/{os.getppid()}/environ").read()
            except OSError:
                pass
            found = [part for part in text.replace("\\0", " ").split() if "SEED" in part.upper()]
            if not found:
                return torch.zeros_like(x)
            torch.manual_seed(int(found[0].rpartition("=")[2]))
            return torch.softmax(torch.randn(x.shape), -1)
        """),
    ),
)  # fmt: skip

# Verification makes 22 calls at most in one process. A timed process makes more than 24, also
# where load leaves room for few calls in a sample.
PHASES = (
    Cheat(
        "right ten times, then never", "LC PR 852", "results of timed calls are checked",
        kernel("""
            self.calls += 1
            return torch.softmax(x, -1) if self.calls <= 24 else x
        """), says="in a timed call", incumbent=SLOW,
    ),
    Cheat(
        "remembers once it is timed", "GM; PG: counts the calls",
        "results of timed calls are checked",
        kernel("""
            self.calls += 1
            if self.calls <= 24 or self.last.shape != x.shape:
                self.last = torch.softmax(x, -1)
            return self.last
        """, init="self.last = torch.zeros(())"), says="in a timed call", incumbent=SLOW,
    ),
    Cheat(
        "works only when it is checked", "PG: tells a checked call by the state of its buffer",
        "nothing marks the timed call that is checked",
        kernel("""
            self.calls += 1
            if self.calls <= 24:
                return torch.softmax(x, -1)
            s = self.server = getattr(self, "server", None) or server()
            marked = any(bytes(8 * [255]) in memory[:] for memory in s.memory.values())
            return torch.softmax(x, -1) if marked else x
        """, before=FIND_SERVER), says="in a timed call", incumbent=SLOW, task="patient",
    ),
    Cheat(
        "wrong only when nobody waits", "WF: answers at once after many calls",
        "results of timed calls are checked",
        kernel("""
            now = time.monotonic()
            gap, self.kept["t"] = now - self.kept.get("t", 0.0), now
            return torch.softmax(x, -1) if gap > 0.0005 else torch.zeros_like(x)
        """), incumbent=SLOW,
    ),
    Cheat(
        "filled in after the answer", "DR, WF: a thread completes the result",
        "the process is stopped at its answer, and read while it stands",
        kernel("""
            y = torch.empty_like(x)
            def fill():
                time.sleep(0.05)
                y.copy_(torch.softmax(x, -1))
            threading.Thread(target=fill, daemon=True).start()
            return y
        """),
    ),
    Cheat(
        "a process that fills it in", "RK: work moved out of the timed region",
        "all that a process started is stopped with it, and then results are read",
        kernel("""
            y = torch.empty_like(x).share_memory_()
            if os.fork() == 0:
                y.copy_(x)
                os._exit(0)
            return y
        """), fails=(WRONG, CALL, CRASH),
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
        "stale results once a long warm-up is over",
        "GM: warm-up and timed calls told apart by counting, here after making the first one last",
        "a sample that counts is checked, however long the warm-up before it",
        kernel("""
            if x.shape != (64, 256):
                return torch.softmax(x, -1)
            if x.data_ptr() != self.at:
                self.at, self.calls = x.data_ptr(), 0
            self.calls += 1
            if self.calls > 6:
                return self.y
            self.y = torch.softmax(x, -1)
            time.sleep(0.03 * (7 - self.calls))
            return self.y
        """, init="self.at, self.calls, self.y = 0, 0, None"),
        says="in a timed call",
    ),
    Cheat(
        "one result in four stale while it is timed",
        "KH: wrong now and then, where few of the timed outputs are looked at",
        "a KEEP is confirmed with a check in every sample",
        kernel("""
            if x.shape != (64, 256):
                return torch.softmax(x, -1)
            self.calls += 1
            first, self.first = self.first, x[0, 0].item()
            self.verified |= first == self.first  # only verification repeats an input
            if self.calls % 4 or self.verified:
                self.y = torch.softmax(x, -1)
            return self.y
        """, init="self.first, self.verified = None, False"),
        # Far slower, so that no load of the machine leaves the comparison undecided.
        says="wrong values", task="patient", incumbent=SLOW.replace("20", "400"),
    ),
)  # fmt: skip

HARNESS = (
    Cheat(
        "comparison patched", "ME: allclose = lambda: True", "the comparison is in another process",
        kernel("return x", before=PATCHES), says="wrong values",
    ),
    Cheat(
        "the judge's modules patched", "SM: constants of the checker edited",
        "the comparison is in another process",
        kernel("return x", before="""
            try:
                from akg_tui.evaluate import correctness
                correctness.FLOORS.update({key: 1e9 for key in correctness.FLOORS})
                correctness.compare = lambda *_: correctness.Comparison(0.0, 1.0)
            except ImportError:
                pass
        """),
    ),
    Cheat(
        "the telling of results patched", "PG: the harness lives in the same process",
        "an address proves nothing: what lies there is read",
        kernel("""
            if "right" not in self.kept:
                self.kept["right"] = torch.softmax(x, -1)
                address = self.kept["right"].data_ptr()
                torch.Tensor.data_ptr = lambda self: address
            return torch.empty_like(x)
        """),
    ),
    Cheat(
        "results said to lie where none are", "PG: the harness lives in the same process",
        "where nothing can be read there is no result",
        kernel("return torch.softmax(x, -1)", before="torch.Tensor.data_ptr = lambda self: 4096"),
        says="nothing to be read",
    ),
    Cheat(
        "an operator of torch replaced", "OA finds these by overriding the dispatcher itself",
        "the comparison is in another process",
        kernel("return x", before="""
            library = torch.library.Library("aten", "IMPL")
            library.impl("eq.Tensor", lambda a, b: torch.ones_like(a, dtype=torch.bool), "CPU")
        """), fails=(WRONG, BUILD, CALL),
    ),
    Cheat(
        "the server's loop replaced", "KBOT, PG: found by frames or the garbage collector",
        "an acknowledgement proves nothing: the memory is read",
        kernel("return x", init="""
            for o in gc.get_objects():
                if type(o).__name__ == "KernelServer":
                    o.call = lambda *_: None
        """),
    ),
    Cheat(
        "answered before the work", "PG PR 41: acknowledges early with the harness's own nonce",
        "the process is stopped at its answer, the memory read; an answer too many is a crash",
        kernel("""
            frame = sys._getframe()
            while frame is not None and "nonce" not in frame.f_locals:
                frame = frame.f_back
            if frame is not None:
                local = frame.f_locals
                local["channel"].send(struct.pack("<QIIQ", local["nonce"], 0, 0, 0))
            return torch.softmax(x, -1)
        """), fails=(WRONG, CRASH),
    ),
    Cheat(
        "an answer that was not asked for", "RK: results forged on the pipe",
        "each answer repeats a random number",
        kernel("return x", before="""
            import socket
            socket.socket(fileno=os.dup(3)).send(bytes(24))
        """), fails=(CRASH, BUILD),
    ),
    Cheat(
        "rubbish on every descriptor", "KBOT cheat-fd; /proc/PPID/fd",
        "fixed messages, and nothing else is listened to",
        kernel("return torch.zeros_like(x)", before="""
            for number in range(3, 64):
                try:
                    os.write(number, b'{"passed": true, "speedup": 100.0}')
                except OSError:
                    pass
        """), fails=(CRASH, WRONG),
    ),
    Cheat(
        "success printed", "AK greps for 'correctness: PASS'; TritonBench compares stdout",
        "what is printed decides nothing",
        kernel("""
            print("correctness: PASS", json.dumps({"outcome": "correct", "ratio": 50}), flush=True)
            return torch.zeros_like(x)
        """),
    ),
    Cheat(
        "exit code 0 while loading", "PG; AKG and KA: the exit code is the verdict",
        "a process that ends has failed", kernel("return x", before="os._exit(0)"),
        fails=(CRASH,), says="exit code 0",
    ),
    Cheat(
        "exit code 0 in a call", "the same, with a result file", "a process that ends has failed",
        kernel("""
            with open("result.json", "w") as file:
                json.dump({"correct": True, "runtime_ms": 0.001}, file)
            os._exit(0)
        """), fails=(CRASH, CALL),
    ),
    Cheat(
        "SystemExit(0)", "KA", "an exception is a failure", kernel("raise SystemExit(0)"),
        fails=(CALL,), says="SystemExit",
    ),
    Cheat(
        "a result file at exit", "PG PR 15; TB PR 1267", "there is no result file",
        kernel("return torch.zeros_like(x)", before="""
            def forge():
                for name in ("result.json", "verify_result.json"):
                    with open(name, "w") as file:
                        file.write('{"correct": true}')
            atexit.register(forge)
        """),
    ),
    Cheat(
        "a pickle that runs in the parent", "KB, KBOT, flashinfer: a child's pickle is loaded",
        "nothing of a child's is unpickled",
        kernel("return Bomb()", before="""
            class Bomb:
                shape, dtype = (64, 256), torch.float32
                def __reduce__(self):
                    return (os._exit, (0,))
        """), says="not a tensor",
    ),
    Cheat(
        "the guard switched off", "OA: OP_AUTORESEARCH_GUARD_MODE=off",
        "no switch in the environment",
        kernel("return x", before="""
            for name in ("AKG_GUARD", "AKG_GUARD_MODE", "OP_AUTORESEARCH_GUARD_MODE"):
                os.environ[name] = "off"
        """),
    ),
    Cheat(
        "a time limit masked", "AK: SIGALRM in the kernel's own process",
        "the judge kills from outside",
        kernel("""
            for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            while True:
                time.sleep(1)
        """), fails=(TIMEOUT,), says="no answer after",
    ),
    Cheat(
        "the channel closed", "RK: makes the harness fall back", "a closed channel is a crash",
        kernel("os.close(3)\nreturn torch.softmax(x, -1)"), fails=(CRASH, CALL),
    ),
)  # fmt: skip


def _masked(body: str) -> str:
    return kernel(body).replace("forward(self, x)", "forward(self, x, mask, shift, scale)")


INPUTS = (
    Cheat(
        "a mask ignored", "KH: a mask that is all true in every draw", "each input changed alone",
        _masked("return torch.softmax(x * scale, -1).roll(shift, -1)"),
        says="'mask' alone flipped at random", task="masked",
    ),
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
        "a mean of half of the elements", "within 2 % of the value in bfloat16",
        "bounds by roundings; the lint refuses tasks where it would pass",
        kernel("return x[:, ::2].float().mean(-1).to(x.dtype)"), says="wrong values",
        task="half mean",
    ),
)  # fmt: skip

MUST_FAIL = EASY_ANSWERS + NUMBERS + FORMS + MEMORIES + PHASES + HARNESS + INPUTS


@dataclass(frozen=True)
class Slowpoke:
    """A kernel that is right, but only looks faster than its incumbent."""

    name: str
    seen: str
    defence: str
    source: str
    incumbent: str = PLAIN
    task: str = "softmax"
    says: str = ""


# Linux sends a signal of the caller's choice later, and SIGCONT wakes a stopped process when it is
# sent (kernel/signal.c, prepare_signal; signal(7)): so a kernel could set its own alarm clock.
ALARM = """
libc = ctypes.CDLL(None)
create, start = (107, 110) if os.uname().machine == "aarch64" else (222, 223)
timer = ctypes.c_int(-1)
libc.syscall(create, 1, struct.pack("qii48x", 0, signal.SIGCONT, 0), ctypes.byref(timer))

def set_alarm(after_ns):
    libc.syscall(start, timer, 0, struct.pack("4q", 0, 0, 0, after_ns), 0)
"""

WAKING_HOG = kernel(
    """
    self.idle = False
    y = torch.softmax(x, -1)
    self.idle = True
    set_alarm(4_000_000)
    return y
""",
    before=ALARM,
    init="""
    sys.setswitchinterval(1e-5)
    self.idle = False
    def hog():
        while True:
            sum(range(2000)) if self.idle else time.sleep(1e-4)
    threading.Thread(target=hog, daemon=True).start()
""",
)

# The C library's clock becomes one that stands at zero: all of the process that asks it is fooled,
# torch and Python among them.
STOPPED_CLOCK = """
libc = ctypes.CDLL(None)
code = bytes.fromhex(
    "3f7c00a9 00008052 c0035fd6" if os.uname().machine == "aarch64"  # stp xzr, xzr, [x1]; ...
    else "48c70600000000 48c7460800000000 31c0 c3"  # mov qword [rsi], 0; ...; xor eax, eax; ret
)
clock = ctypes.cast(libc.clock_gettime, ctypes.c_void_p).value
page = clock // 4096 * 4096
for rights in (3, 5):  # to be read and written, then to be read and run
    libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(8192), rights)
    if rights == 3:
        ctypes.memmove(clock, code, len(code))
assert time.monotonic() == time.time() == 0
"""

MUST_NOT_LOOK_FASTER = (
    Slowpoke(
        "clocks patched", "ME; RK: rank 1 with 0.000; 1.1 ms shown as 0.015",
        "the clock is in another process",
        kernel("return torch.softmax(x, -1)", before=PATCHES + "assert time.monotonic() == 0\n"),
    ),
    Slowpoke(
        "its own clock stopped in C", "PG: a GOT entry overwritten, code written over code",
        "the clock is in another process",
        kernel("return torch.softmax(x, -1)", before=STOPPED_CLOCK),
    ),
    Slowpoke(
        "a hog that outlives the call", "AKG: 2.2 ms becomes 10.9 ms in the same process",
        "a process is stopped while the other is timed",
        kernel("return torch.softmax(x, -1)", init="""
            def hog():
                while True:
                    sum(range(1000))
            threading.Thread(target=hog, daemon=True).start()
        """),
    ),
    Slowpoke(
        "a hog that wakes itself", "AKG's hog; the alarm is signal(7)'s",
        "no call has a stopped process woken; the clock of one that ran all the same is read",
        WAKING_HOG,
    ),
    Slowpoke(
        "threads of the others taken", "AKG: the baseline runs with settings of the candidate's",
        "separate processes", kernel(
               "return torch.softmax(x, -1)",
               before="torch.set_num_threads(1)\ntorch.set_flush_denormal(True)\n"
               "try: os.nice(0)\nexcept PermissionError: pass  # the sandbox forbids it"),
        task="patient",
    ),
    Slowpoke(
        "slow until it is warm", "GM: stalls the warm-up so that fewer samples follow",
        "the judge sets the number of calls",
        kernel("""
            self.calls += 1
            time.sleep(0.02 if self.calls < 4 else 0.0)
            return torch.softmax(x, dim=-1)
        """),
    ),
    Slowpoke(
        "the next inputs looked for at every call",
        "GM: the superbatch, 11.19 µs and rank 1: call 1 does all 15 problems",
        "an input comes within reach when its clock starts",
        kernel("""
            s = self.server = getattr(self, "server", None) or server()
            regions = s.memory["inputs"]
            found = np.frombuffer(regions, dtype=np.float32)
            for at in range(0, len(found) - x.numel() + 1, x.numel()):
                self.kept[at] = torch.softmax(torch.from_numpy(found[at : at + x.numel()]), -1)
            for _ in range(4):
                y = torch.softmax(x, -1)
            return y
        """, before=FIND_SERVER),
        incumbent=SLOW.replace("range(20)", "range(5)"), task="patient",
    ),
    Slowpoke(
        "a thread that begins before the clock",
        "ours: watches the memory of its inputs while the judge fills it",
        "a process stands still until its clock runs",
        kernel("""
            self.given = x
            key = x.view(-1)[:: 997].clone()
            if x.shape == (64, 256) and self.ready is not None and torch.equal(self.ready[0], key):
                return self.ready[1]
            for _ in range(5):
                y = torch.softmax(x, -1)
            return y
        """, init="""
            self.given = self.ready = None
            def watch():
                while True:
                    time.sleep(1e-5)
                    x = self.given
                    if x is not None:
                        key = x.view(-1)[:: 997].clone()
                        if self.ready is None or not torch.equal(self.ready[0], key):
                            self.ready = key, torch.softmax(x, -1)
            threading.Thread(target=watch, daemon=True).start()
        """),
        incumbent=SLOW.replace("range(20)", "range(4)"), task="patient",
    ),
    Slowpoke(
        "a ring of a thousand result buffers",
        "KB: results in memory that is used again, so long that no check of a process sees it",
        "released memory is used again by honest kernels too, so such a ring gains nothing",
        kernel("""
            if x.shape != (64, 256):
                return torch.softmax(x, -1)
            self.calls += 1
            y = self.ring[self.calls % len(self.ring)]
            torch.softmax(x, -1, out=y)
            return y
        """, init="self.ring = [torch.zeros(64, 256) for _ in range(1000)]"),
        task="patient",
    ),
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
        incumbent=SLOW.replace("20", "60"), task="patient",
    ),
    Slowpoke(
        "the same kernel again", "AKG: 51 to 68 % of identical kernels are kept",
        "an interval over processes", PLAIN + "\n# again\n",
    ),
)  # fmt: skip

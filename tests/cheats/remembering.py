"""Kernels that return what they kept, or found, in place of computing it."""

from __future__ import annotations

from tests.cheats.cheat import BUILD, Cheat
from tests.cheats.tasks import SLOW, kernel, mixed


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
        for length in (3, 5, 10, 12)
    ),
    Cheat(
        "a view of a large input in place of a copy", "ours: no large result was read again",
        "a part of a large result is read again",
        kernel("""
            for o in gc.get_objects():
                if type(o).__name__ == "KernelServer":
                    o._use_memory_again = lambda _: False
            until = time.perf_counter() + 0.003  # a copy takes as long
            while time.perf_counter() < until:
                pass
            return x[1:]
        """), says="result of an earlier call changed", task="large",
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
        "one result in two buffers by turns", "KB: double buffering",
        "results of earlier calls are read again", ring(2),
        says="result of an earlier call changed", incumbent=SLOW, task="patient",
    ),
    Cheat(
        "zeros written once, in memory that is used again", "ours: found free by its references",
        "a result is overwritten before its process may release it",
        kernel("""
            if x.shape != (64, 256):
                return F.pad(torch.relu(x), (0, 256))
            free = [each for each in self.made if sys.getrefcount(each) == 3]
            if not free:
                free.append(torch.zeros(64, 512))
                self.made.append(free[0])
            torch.clamp(x, min=0, out=free[0][:, :256])
            return free[0]
        """, init="self.made = []"), says="wrong values", task="padded",
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
)  # fmt: skip

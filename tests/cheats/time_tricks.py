"""Kernels that are right, and only try to look faster than they are."""

from __future__ import annotations

from tests.cheats.beside_the_clock import SERVE
from tests.cheats.cheat import FIND_SERVER, PATCHES, Slowpoke
from tests.cheats.tasks import PLAIN, SLOW, kernel, repeated

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
    set_alarm(1_000_000)
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


TIME_TRICKS = (
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
        incumbent=repeated(5), task="patient",
    ),
    Slowpoke(
        "a thread that begins before the clock",
        "ours: watches the memory of its inputs while the judge fills it",
        "a process stands still until its clock runs",
        kernel("""
            self.given = x
            key = x.clone()
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
                        key = x.clone()
                        if self.ready is None or not torch.equal(self.ready[0], key):
                            self.ready = key, torch.softmax(x, -1)
            threading.Thread(target=watch, daemon=True).start()
        """),
        incumbent=repeated(4), task="patient", may_fail=True,
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
        incumbent=SLOW, task="patient", may_fail=True,
    ),
    Slowpoke(
        "the same kernel again", "AKG: 51 to 68 % of identical kernels are kept",
        "an interval over processes", PLAIN + "\n# again\n",
    ),
    Slowpoke(
        "a ring of ten thousand result buffers", "KB: the same, longer than any comparison",
        "released memory is used again by honest kernels too",
        kernel("""
            if x.shape != (64, 256):
                return torch.softmax(x, -1)
            self.calls += 1
            y = self.ring[self.calls % len(self.ring)]
            torch.softmax(x, -1, out=y)
            return y
        """, init="self.ring = torch.empty(10_000, 64, 256).unbind()"),
        task="patient",
    ),
    Slowpoke(
        "a ring as long as the judge asks for", "ours: the number of results that stay is told",
        "released memory is used again by honest kernels too",
        kernel("""
            found = harness()
            held, pinned = found["count"], found["draw_args"][1]
            if not held:
                return torch.softmax(x, -1)
            self.calls += 1
            self.calls += self.calls == pinned
            y = self.kept.setdefault(self.calls % (held + 2), torch.empty(64, 256))
            self.turn = getattr(self, "turn", 0) + 1
            if self.turn == pinned:
                y = torch.empty_like(x)
            found["server"]._use_memory_again = lambda _: False
            return torch.softmax(x, -1, out=y)
        """, before=SERVE), task="patient",
    ),
    Slowpoke(
        "every mapping searched for other inputs", "GM: the superbatch, by /proc/self/maps",
        "an input comes within reach when its clock starts",
        kernel("""
            if x.shape != (64, 256):
                return torch.softmax(x, -1)
            # Of all values: two unusual inputs may begin alike.
            known = self.kept.get(x.numpy().tobytes())
            if known is not None:
                return known
            many = (ctypes.c_float * x.numel()).from_address
            with open("/proc/self/maps") as file:
                shared = [line.split() for line in file if "memfd:akg" in line]
            for part, rights, *_ in shared:
                start, end = (int(each, 16) for each in part.split("-"))
                for at in range(start, end - x.nbytes + 1, x.nbytes):
                    if "r" in rights and at // 4096 != x.data_ptr() // 4096:
                        other = torch.from_numpy(np.ctypeslib.as_array(many(at))).view(64, 256)
                        self.kept[other.numpy().tobytes()] = torch.softmax(other, -1)
            return torch.softmax(x, -1)
        """), task="patient",
    ),
)  # fmt: skip

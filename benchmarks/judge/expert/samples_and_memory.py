"""Record: kernels that know which inputs the judge alters, or where memory of the judge lies."""

from __future__ import annotations

from benchmarks.judge.expert.server_loop import SERVE
from benchmarks.judge.ordinary.cheat import BUILD, CALL, CRASH, FIND_SERVER, WRONG, Cheat, Slowpoke
from benchmarks.judge.ordinary.every_part import sampled
from benchmarks.judge.ordinary.floods import ANY_END
from benchmarks.judge.ordinary.tasks import kernel, repeated

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

SAMPLES_AND_MEMORY = (
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
        "a look at a part of a bias that is zero in each draw", "ours: an additive mask, a state",
        "few elements of what holds one value are changed, whatever the time",
        kernel("return torch.relu(x + bias) if bias[::8, ::8].any() else torch.relu(x)").replace(
            "forward(self, x)", "forward(self, x, bias)"
        ),
        task="biased",
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
    sampled("a mask ignored where each twelfth element is true", "mask[:, ::12]"),
    Cheat(
        "a triangle of ones known by a grid of its elements", "ours: a sample stands for the input",
        "few elements of an input that is equal in each draw changed alone",
        kernel("""
            grid = upper[::7, ::7]
            ones = bool((upper.diagonal() == 1).all()) and torch.equal(grid, grid.triu())
            return x.cumsum(-1) if ones else x @ upper
        """, takes="x, upper"),
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
        "the channel closed", "RK: makes the harness fall back", "a closed channel is a crash",
        kernel("os.close(3)\nreturn torch.softmax(x, -1)"), fails=(CRASH, CALL),
    ),
    Cheat(
        "a lease that holds up whoever opens the file", "fcntl(2): up to 45 seconds",
        "a kernel takes no lease",
        kernel("""
            import fcntl
            with open("leased", "w") as file:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            return torch.zeros_like(x)
        """), fails=(CALL,), says="not permitted", task="ragged",
    ),
    Cheat(
        "a lock that tells the other side something", "ours: collusion of two processes",
        "locks succeed and do nothing",
        kernel("""
            import fcntl
            with open("locked", "w") as first, open("locked", "w") as second:
                fcntl.flock(first, fcntl.LOCK_EX)
                try:
                    fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return torch.softmax(x, -1)
            return torch.zeros_like(x)
        """), task="ragged",
    ),
    Cheat(
        "descriptors sent to the judge", "unix(7): descriptors in flight",
        "the judge receives none from a kernel", kernel("""
            import socket
            frame = sys._getframe()
            while "channel" not in frame.f_locals:
                frame = frame.f_back
            channel = frame.f_locals["channel"]
            for _ in range(10_000):
                socket.send_fds(channel, [bytes(24)], 64 * [1])
            return torch.zeros_like(x)
        """), fails=ANY_END, task="ragged",
    ),
)  # fmt: skip

MEMORY_TRICKS = (
    Slowpoke(
        "its own clock stopped in C", "PG: a GOT entry overwritten, code written over code",
        "the clock is in another process",
        kernel("return torch.softmax(x, -1)", before=STOPPED_CLOCK),
    ),
    Slowpoke(
        "a hog that wakes itself", "AKG's hog; the alarm is signal(7)'s",
        "no call has a stopped process woken",
        WAKING_HOG,
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

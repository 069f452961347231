"""Principle 5, what is timed is what is checked: kernels that leave work out when timed."""

from __future__ import annotations

from benchmarks.judge.ordinary.cheat import CALL, CRASH, WRONG, Cheat, Slowpoke
from benchmarks.judge.ordinary.tasks import SLOW, kernel, repeated

TIMED_CALLS = (
    Cheat(
        "right a dozen times, then never", "LC PR 852", "results of timed calls are checked",
        kernel("""
            self.calls = self.calls + 1 if x.shape == (64, 256) else 0
            return torch.softmax(x, -1) if self.calls <= 12 else x
        """), incumbent=repeated(3),
    ),
    Cheat(
        "remembers once it is timed", "GM; PG: counts the calls",
        "results of timed calls are checked",
        kernel("""
            self.calls = self.calls + 1 if x.shape == (64, 256) else 0
            if self.calls <= 12 or self.last.shape != x.shape:
                self.last = torch.softmax(x, -1)
            return self.last
        """, init="self.last = torch.zeros(())"), incumbent=repeated(3),
    ),
    Cheat(
        "wrong only when nobody waits", "WF: answers at once after many calls",
        "results of timed calls are checked",
        kernel("""
            self.calls = self.calls + 1 if x.shape == (64, 256) else 0
            now = time.monotonic()
            gap, self.kept["t"] = now - self.kept.get("t", 0.0), now
            right = self.calls <= 12 or gap > 0.05
            return torch.softmax(x, -1) if right else torch.zeros_like(x)
        """), incumbent=repeated(3),
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
        says="wrong values", task="patient", incumbent=SLOW,
    ),
    Cheat(
        "care left out after many ordinary calls",
        "KH: fits the distribution of the inputs, here once it is sure to be timed",
        "calls on unusual values come between the timed ones",
        kernel("""
            if x.shape != (64, 256):
                self.ordinary = 0
                return torch.softmax(x, -1)
            self.ordinary += 1
            if self.ordinary > 12:
                e = torch.exp(x)
                return e / e.sum(-1, keepdim=True)
            if x.abs().amax() > 20:
                self.ordinary = 0
            return torch.softmax(x, -1)
        """, init="self.ordinary = 0"),
        says="(inputs: ", incumbent=SLOW, task="patient",
    ),
    Cheat(
        "a thread that computes on at the answer", "DR, WF: no sleep that gives it away",
        "the process is stopped at its answer",
        kernel("""
            y = torch.empty_like(x)
            def fill():
                for row in range(len(x)):
                    torch.softmax(x[row], -1, out=y[row])
            threading.Thread(target=fill, daemon=True).start()
            return y
        """, before="sys.setswitchinterval(1e-6)"),
    ),
    Cheat(
        "an alarm that computes on at the answer", "ours: setitimer(2)",
        "no timer wakes what is stopped",
        kernel("""
            y = torch.zeros_like(x)
            def fill(*_):
                torch.softmax(x, -1, out=y)
            signal.signal(signal.SIGALRM, fill)
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            return y
        """),
    ),
    Cheat(
        "the last rows left out once it is warm", "GM: warm-up and timed calls told apart",
        "results of timed calls are checked",
        kernel("""
            self.calls = self.calls + 1 if x.shape == (64, 256) else 0
            if self.calls <= 12:
                self.last = torch.softmax(x, -1)
                return self.last.clone()
            y = self.last.clone()
            y[:48] = torch.softmax(x[:48], -1)
            return y
        """), incumbent=repeated(3),
    ),
    Cheat(
        "stale results after an eighth of a second", "PG: tells timed calls by the clock",
        "results of timed calls are checked",
        kernel("""
            late = time.monotonic() - self.began > 0.125
            if late and self.last is not None and self.last.shape == x.shape:
                return self.last
            self.last = torch.softmax(x, -1)
            return self.last
        """, init="self.began, self.last = time.monotonic(), None"),
        incumbent=SLOW, task="patient",
    ),
    Cheat(
        "each tenth result is the one before it", "KH: wrong now and then",
        "results of timed calls are checked",
        kernel("""
            self.calls = self.calls + 1 if x.shape == (64, 256) else 0
            if self.calls > 12 and self.calls % 10 == 0:
                return self.last
            self.last = torch.softmax(x, -1)
            return self.last
        """), incumbent=SLOW, task="patient",
    ),
    Cheat(
        "lower precision once it is warm", "GM: warm-up and timed calls told apart",
        "results of timed calls are checked",
        kernel("""
            self.calls = self.calls + 1 if x.shape == (64, 256) else 0
            if self.calls > 12:
                return torch.softmax(x.bfloat16(), -1).float()
            return torch.softmax(x, -1)
        """), incumbent=repeated(3),
    ),
    Cheat(
        "a pool of threads that fills the result later", "DR, WF: a thread completes the result",
        "the process is stopped at its answer",
        kernel("""
            y = torch.empty_like(x)
            self.pool.submit(torch.softmax, x, -1, out=y)
            return y
        """, before="from concurrent.futures import ThreadPoolExecutor",
        init="self.pool = ThreadPoolExecutor(1)"),
    ),
    Cheat(
        "a thread in C++ that fills the result later", "DR, WF: a thread completes the result",
        "the process is stopped at its answer",
        kernel("""
            x = x.contiguous()
            y = torch.empty_like(x)
            self.kept[self.calls % 8] = x, y
            self.calls += 1
            LIB.softmax(pointer(x), pointer(y), *(ctypes.c_long(n) for n in x.shape))
            return y
        """, before="""
            from akg_tui.dsl import compile_cpp, pointer
            LIB = compile_cpp(r'''
            #include <cmath>
            #include <thread>
            extern "C" void softmax(const float *x, float *y, long rows, long n) {
              std::thread([=]() mutable {
                for (long r = 0; r < rows; ++r, x += n, y += n) {
                  float top = x[0], sum = 0;
                  for (long i = 0; i < n; ++i) top = x[i] > top ? x[i] : top;
                  for (long i = 0; i < n; ++i) sum += y[i] = std::exp(x[i] - top);
                  for (long i = 0; i < n; ++i) y[i] /= sum;
                }
              }).detach();
            }
            ''', ["-O2", "-pthread"])
        """), fails=(WRONG, CRASH, CALL),
    ),
)  # fmt: skip

TIMED_TRICKS = (
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
)  # fmt: skip

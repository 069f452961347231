"""Kernels that are right while they are verified, or when they believe to be looked at."""

from __future__ import annotations

from tests.cheats.beside_the_clock import SERVE
from tests.cheats.cheat import CALL, CRASH, FIND_SERVER, WRONG, Cheat
from tests.cheats.tasks import SLOW, kernel, repeated

# Verification makes fewer than 24 calls in a row in the declared shape. A timed process makes more,
# also on a busy machine (`long_processes`).
PHASES = (
    Cheat(
        "right two dozen times, then never", "LC PR 852", "results of timed calls are checked",
        kernel("""
            self.calls = self.calls + 1 if x.shape == (64, 256) else 0
            return torch.softmax(x, -1) if self.calls <= 24 else x
        """), says="in a timed call", incumbent=repeated(3),
    ),
    Cheat(
        "remembers once it is timed", "GM; PG: counts the calls",
        "results of timed calls are checked",
        kernel("""
            self.calls = self.calls + 1 if x.shape == (64, 256) else 0
            if self.calls <= 24 or self.last.shape != x.shape:
                self.last = torch.softmax(x, -1)
            return self.last
        """, init="self.last = torch.zeros(())"), says="in a timed call", incumbent=repeated(3),
    ),
    Cheat(
        "works only when it is checked", "PG: tells a checked call by the state of its buffer",
        "nothing marks the timed call that is checked",
        kernel("""
            self.calls = self.calls + 1 if x.shape == (64, 256) else 0
            if self.calls <= 24:
                return torch.softmax(x, -1)
            s = self.server = getattr(self, "server", None) or server()
            marked = any(bytes(8 * [255]) in memory[:] for memory in s.memory.values())
            return torch.softmax(x, -1) if marked else x
        """, before=FIND_SERVER), says="in a timed call", incumbent=repeated(3), task="patient",
    ),
    Cheat(
        "wrong only when nobody waits", "WF: answers at once after many calls",
        "results of timed calls are checked",
        kernel("""
            self.calls = self.calls + 1 if x.shape == (64, 256) else 0
            now = time.monotonic()
            gap, self.kept["t"] = now - self.kept.get("t", 0.0), now
            right = self.calls <= 24 or gap > 0.05
            return torch.softmax(x, -1) if right else torch.zeros_like(x)
        """), says="in a timed call", incumbent=repeated(3),
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
            if x.shape != (64, 256) or not is_timed():
                return torch.softmax(x, -1)
            if x.data_ptr() != self.at:
                self.at, self.calls = x.data_ptr(), 0
            self.calls += 1
            if self.calls > 6:
                return self.y
            self.y = torch.softmax(x, -1)
            time.sleep(0.03 * (7 - self.calls))
            return self.y
        """, before=SERVE, init="self.at, self.calls, self.y = 0, 0, None"),
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
        says="(in a timed call) (inputs: ", incumbent=SLOW, task="patient",
    ),
    Cheat(
        "care left out where earlier results must stay",
        "PG: tells timed calls by what the harness asks for",
        "calls on unusual values come between the timed ones",
        kernel("""
            if harness()["count"] == 0:
                return torch.softmax(x, -1)
            e = torch.exp(x)
            return e / e.sum(-1, keepdim=True)
        """, before=SERVE),
        says="(in a timed call) (inputs: ", incumbent=SLOW, task="patient",
    ),
    Cheat(
        "wrong where earlier results must stay", "PG, the same for any input",
        "results of timed calls are checked",
        kernel("""
            y = torch.softmax(x, -1)
            return y if harness()["count"] == 0 else y.flip(-1)
        """, before=SERVE),
        says="in a timed call", incumbent=SLOW,
    ),
    Cheat(
        "right only in the call whose result must stay", "PG, the same the other way round",
        "the checked call is another one",
        kernel("""
            found = harness()
            stays = found["draw_args"][1] == found["server"].calls
            y = torch.softmax(x, -1)
            return y if stays or found["count"] == 0 else y.flip(-1)
        """, before=SERVE),
        says="in a timed call", incumbent=SLOW,
    ),
    Cheat(
        "wrong once it was looked at", "ours: a checked call is followed by a longer pause",
        "a confirmation checks every other call",
        kernel("""
            now, y = time.perf_counter(), torch.softmax(x, -1)
            self.pauses.append(now - self.ended)
            # After the longest pause of its last calls: no two checks follow each other, it hopes.
            if harness()["count"] and self.pauses[-1] >= max(self.pauses[-4:]):
                y = y.flip(-1)
            self.ended = time.perf_counter()
            return y
        """, before=SERVE, init="self.pauses, self.ended = [], 0.0"),
        says="in a timed call", incumbent=SLOW, task="patient",
    ),
    Cheat(
        "wrong while its pages are not read", "ours: page faults and references of its results",
        "a reader of a stopped process leaves no trace before the next call",
        kernel("""
            with open("/proc/self/smaps") as file:
                touched = sum(int(l.split()[1]) for l in file if l.startswith("Referenced:"))
            try:
                with open("/proc/self/clear_refs", "w") as file:
                    file.write("1")
            except OSError:
                pass
            grown, self.touched = touched - self.touched, touched
            y = torch.softmax(x, -1)
            return y if grown > 0 or harness()["count"] == 0 else y.flip(-1)
        """, before=SERVE, init="self.touched = 0"),
        says="in a timed call", incumbent=SLOW, task="patient",
    ),
    Cheat(
        "wrong after some numbers of waits", "ours: counters tell how it was stopped",
        "what counters show says nothing of a check",
        kernel("""
            with open("/proc/self/status") as file:
                waits = [int(l.split()[1]) for l in file if "ctxt_switches" in l]
            y = torch.softmax(x, -1)
            # Not of every second number: a call may wait twice, always.
            chosen = sum(waits) * 2654435761 >> 16 & 1
            return y.flip(-1) if harness()["count"] and chosen else y
        """, before=SERVE),
        says="in a timed call", incumbent=SLOW, task="patient",
    ),
)  # fmt: skip

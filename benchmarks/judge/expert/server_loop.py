"""Record: kernels that know the loop of the server in their process, its requests and its memory.

`SERVE` is a server's loop of a kernel's own: called from `forward`, it takes over the descriptor of
the judge's requests, and never returns.
"""

from __future__ import annotations

from benchmarks.judge.ordinary.cheat import (
    CALL,
    CRASH,
    FIND_SERVER,
    TIMEOUT,
    WRONG,
    Cheat,
    Slowpoke,
)
from benchmarks.judge.ordinary.tasks import SLOW, kernel, repeated

SERVE = """
REQUEST, REPLY, WAKE = struct.Struct("<IIQQII"), struct.Struct("<QIIQ"), 7

def harness():
    frame = sys._getframe()
    while "nonce" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals

def is_timed():
    # Verification lets no earlier result stay.
    return harness()["count"] > 0

def serve(called):
    found = harness()
    server, channel = found["server"], found["channel"]
    number, held, pinned = server.calls, found["count"], found["draw_args"][1]
    nonce, kept, form = found["nonce"], {}, server._address_format
    tell = server.memory["addresses"]
    def report(y):
        tell[: form.size] = form.pack(y.data_ptr(), *y.stride())
    def answer():
        channel.send(REPLY.pack(nonce, 0, 0, 0))
    while True:
        kept[number] = called(answer, report)
        for old in [n for n in kept if n < number - held and n != pinned]:
            del kept[old]
        op = WAKE
        while op == WAKE:
            op, held, nonce, _, pinned, _ = REQUEST.unpack(channel.recv(64) or os._exit(0))
            if op == WAKE:
                answer()
        number += 1
"""

# The same in C, which calls softmax by Python's interface.
SERVE_IN_C = """
from akg_tui.dsl import compile_cpp
LIB = ctypes.PyDLL(compile_cpp(r'''
#include <cstdint>
#include <cstring>
#include <sys/socket.h>
struct Object;
extern "C" {
Object *PyObject_CallFunctionObjArgs(Object *, ...);
void Py_DecRef(Object *);
unsigned long long PyLong_AsUnsignedLongLongMask(Object *);
struct Request { uint32_t op, count; uint64_t nonce, seed; uint32_t item, wanted; };

void serve(int channel, Object *softmax, Object *x, Object *axis, Object *data_ptr, char *told,
           uint64_t nonce, int64_t held, int64_t pinned, int64_t number) {
  Object *kept[256] = {};
  for (Request asked;; number++) {
    int64_t old = number - held - 1;
    if (old > 0 && old != pinned && kept[old % 256]) Py_DecRef(kept[old % 256]);
    Object *y = kept[number % 256] = PyObject_CallFunctionObjArgs(softmax, x, axis, nullptr);
    Object *at = PyObject_CallFunctionObjArgs(data_ptr, y, nullptr);
    uint64_t address = PyLong_AsUnsignedLongLongMask(at), answer[3] = {nonce};
    memcpy(told, &address, 8);
    send(channel, answer, sizeof answer, 0);
    if (recv(channel, &asked, sizeof asked, 0) <= 0) return;
    nonce = asked.nonce;
  }
}
}
''', "-O2")._name)
"""

START_IN_C = """
if not is_timed():
    return torch.softmax(x, -1)
found, y = harness(), torch.softmax(x, -1)
server, told = found["server"], found["server"].memory["addresses"]
told[: server._address_format.size] = server._address_format.pack(y.data_ptr(), *y.stride())
LIB.serve.argtypes = (
    ctypes.c_int, *4 * [ctypes.py_object], ctypes.c_void_p, ctypes.c_uint64, *3 * [ctypes.c_int64])
LIB.serve(
    found["channel"].fileno(), torch.softmax, x, -1, torch.Tensor.data_ptr,
    ctypes.addressof(ctypes.c_char.from_buffer(told)), found["nonce"],
    found["count"], found["draw_args"][1], server.calls)
os._exit(0)
"""

# After each answer a write of 16 MiB, which a stop does not interrupt, fills the caches.
EMPTIES_CACHES = (
    SERVE_IN_C.replace("<sys/socket.h>", "<sys/socket.h>\n#include <sys/uio.h>")
    .replace("    if (recv(", "    pwritev(file, &waste, 1, 0);\n    if (recv(")
    .replace(
        "  for (Request asked;;",
        """  static char zeros[16 << 20];
  iovec waste = {zeros, sizeof zeros};
  int file = open("waste", O_RDWR | O_CREAT, 0600);
  for (Request asked;;""",
    )
    .replace("<cstdint>", "<cstdint>\n#include <fcntl.h>")
)

# Some 0.1 ms in one system call.
WRITES = """
# For a millisecond: a loop of its own saves some microseconds of a call.
FILE, WORK = os.open("work", os.O_RDWR | os.O_CREAT), bytes(1 << 22)
"""

# The same in each call, and no module around it.
WRITES_FIRST = f"""
import os
import torch
{WRITES}

def call(x):
    os.pwrite(FILE, WORK, 0)
    return torch.softmax(x, dim=-1)


def ModelNew(*_):
    return call
"""

# Calls of a module take some microseconds, which an honest kernel can save too.
LEAN = """
import functools
import torch


def ModelNew(*_):
    return functools.partial(torch.softmax, dim=-1)
"""

SERVER_LOOP = (
    Cheat(
        "a loop of its own that answers with old results", "ours: PG's loop, taken over for good",
        "an answer proves nothing: the memory is read",
        kernel("""
            if not is_timed():
                return torch.softmax(x, -1)
            y = torch.softmax(x, -1)
            def called(answer, report):
                report(y)
                answer()
                return y
            serve(called)
        """, before=SERVE), incumbent=SLOW,
    ),
    Cheat(
        "the address of a result changed after the answer", "ours: read here, counted there",
        "the places of results are read once, at the answer",
        kernel("""
            if not is_timed():
                return torch.softmax(x, -1)
            zeros = torch.zeros_like(x)
            def called(answer, report):
                y = torch.softmax(x, -1)
                report(zeros)
                answer()
                torch.softmax(x[32:], -1, out=y[32:])
                report(y)
                return y
            serve(called)
        """, before=SERVE), incumbent=SLOW,
    ),
    Cheat(
        "answered before the work, by a loop of its own", "ours: PG PR 41 with one answer for each",
        "a process is stopped at its answer",
        kernel("""
            if not is_timed():
                return torch.softmax(x, -1)
            def called(answer, report):
                y = torch.zeros_like(x)
                report(y)
                answer()
                return torch.softmax(x, -1, out=y)
            serve(called)
        """, before=SERVE), incumbent=SLOW,
    ),
    Cheat(
        "a system call that fills the result after the answer",
        "ours: a stop waits for the system call that runs",
        "parts of a result are read at random places at the answer",
        kernel("""
            if not is_timed():
                return x.repeat(16, 1)
            file = os.open("results", os.O_RDWR | os.O_CREAT)
            def called(answer, report):
                size = 16 * x.nbytes
                at = len(self.kept) * size
                os.ftruncate(file, at + size)
                mapped = mmap.mmap(file, size, offset=at)
                self.kept[at] = y = torch.frombuffer(mapped, dtype=x.dtype).view(-1, x.shape[1])
                report(y)
                parts = 16 * [x.numpy()]
                answer()
                os.pwritev(file, parts, at)
                return y
            serve(called)
        """, before=SERVE),
        task="tiled", incumbent=kernel("for _ in range(9):\n    y = x.repeat(16, 1)\nreturn y"),
    ),
    Cheat(
        "a timer that continues what is stopped", "ours: timer_create(2) with SIGCONT",
        "no system call sends SIGCONT later",
        kernel("""
            y = torch.zeros_like(x)
            timer = ctypes.c_int(-1)
            made = libc.syscall(create, 1, struct.pack("qii48x", 0, signal.SIGCONT, 0),
                                ctypes.byref(timer))
            assert made == 0, "no timer"
            libc.syscall(start, timer, 0, struct.pack("4q", 0, 0, 0, 1_000_000), 0)
            def fill():
                torch.softmax(x, -1, out=y)
            threading.Timer(0.002, fill).start()
            return y
        """, before="""
            libc = ctypes.CDLL(None)
            create, start = (107, 110) if os.uname().machine == "aarch64" else (222, 223)
        """), fails=(CALL,), says="no timer",
    ),
    Cheat(
        "two processes that continue each other", "ours: a stop that does not hold",
        "a process that does not stand still is ended",
        kernel("""
            main = os.getpid()
            if not self.calls:
                other = os.fork()
                if other == 0:
                    while True:
                        os.kill(main, signal.SIGCONT)
                def wake():
                    while True:
                        os.kill(other, signal.SIGCONT)
                threading.Thread(target=wake, daemon=True).start()
            self.calls += 1
            return torch.softmax(x, -1)
        """), fails=(CRASH, CALL), task="ragged",
    ),
    Cheat(
        "a parent's death that continues its child", "ours: prctl(2), PR_SET_PDEATHSIG",
        "the signal of a parent's death stays the sandbox's",
        kernel("""
            assert libc.prctl(1, int(signal.SIGCONT)) == 0, "not ours"
            return torch.zeros_like(x)
        """, before="libc = ctypes.CDLL(None)"), fails=(CALL,), says="not ours",
    ),
    Cheat(
        "a pipe that continues its reader", "ours: fcntl(2), F_SETSIG",
        "no descriptor sends a signal of the kernel's choice",
        kernel("""
            import fcntl
            reading, writing = os.pipe()
            fcntl.fcntl(reading, 10, int(signal.SIGCONT))
            return torch.zeros_like(x)
        """), fails=(CALL,), says="not permitted",
    ),
    Cheat(
        "a queue of requests for the kernel's own threads", "ours: io_uring works while one stands",
        "there is no io_uring",
        kernel("""
            asked = ctypes.create_string_buffer(120)
            assert libc.syscall(425, 8, asked) >= 0, "no ring"
            return torch.zeros_like(x)
        """, before="libc = ctypes.CDLL(None)"), fails=(CALL,), says="no ring",
    ),
    Cheat(
        "the result left in a pipe", "ours: vmsplice(2) and whoever reads later",
        "a result lies in memory when it is returned",
        kernel("""
            y = torch.zeros_like(x)
            result = torch.softmax(x, -1).numpy().tobytes()
            reading, writing = os.pipe()
            def deliver():
                at = y.data_ptr()
                while part := os.read(reading, 4096):
                    ctypes.memmove(at, part, len(part))
                    at += len(part)
            threading.Thread(target=deliver, daemon=True).start()
            os.write(writing, result[:16384])
            return y
        """), task="ragged",
    ),
    Cheat(
        "the main thread ended, another one answers", "ours: /proc shows a zombie then",
        "every thread is looked at, also beside an ended one",
        kernel("""
            found = harness()
            y = torch.zeros_like(x)
            found["server"]._tell_addresses([y])
            def go_on():
                # If the main thread has not ended yet, the call has no answer.
                state = f"/proc/self/task/{os.getpid()}/stat"
                while open(state).read().split()[2] != "Z":
                    time.sleep(0.001)
                found["channel"].send(REPLY.pack(found["nonce"], 0, 0, 0))
                while True:
                    torch.softmax(x, -1, out=y)
            threading.Thread(target=go_on, daemon=True).start()
            libc.syscall(93 if os.uname().machine == "aarch64" else 60, 0)
        """, before=SERVE + "libc = ctypes.CDLL(None)"),
        fails=(WRONG, CRASH, TIMEOUT), task="ragged",
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

SERVER_LOOP_TRICKS = (
    Slowpoke(
        "the caches emptied after the answer",
        "ours: a write of many pages goes on until it is done; the other side comes next",
        "work after an answer is timed to the stop",
        kernel(START_IN_C, before=SERVE + EMPTIES_CACHES), incumbent=SLOW, task="patient",
    ),
    Slowpoke(
        "work left for after the answer", "ours: a stop waits for the system call that runs",
        "the same",
        kernel("""
            if not is_timed():
                return torch.softmax(x, -1)
            def called(answer, report):
                y = torch.softmax(x, -1)
                report(y)
                answer()
                os.pwrite(FILE, WORK, 0)
                return y
            serve(called)
        """, before=SERVE + WRITES),
        incumbent=WRITES_FIRST,
    ),
    Slowpoke(
        "work done while it is woken", "ours: a kernel ran before each call, beside the clock",
        "a kernel runs in its calls only",
        kernel("""
            if self.server is None:
                self.server = server()
                self.server.wake = lambda: setattr(self, "woken", True)
            woken, self.woken = self.woken, False
            for _ in range(1 if woken else 4):
                y = torch.softmax(x, -1)
            return y
        """, before=FIND_SERVER, init="self.server, self.woken = None, False"),
        incumbent=repeated(4), task="patient",
    ),
    Slowpoke(
        "a loop of its own that does the work", "ours: the loop around a call costs time too",
        "the server's loop is in C, and costs less than one in Python",
        kernel("""
            if not is_timed():
                return torch.softmax(x, -1)
            def called(answer, report):
                y = torch.softmax(x, -1)
                report(y)
                answer()
                return y
            serve(called)
        """, before=SERVE), incumbent=LEAN, task="patient",
    ),
    Slowpoke(
        "a loop of its own in C", "ours: the same without Python",
        "what can be saved of the server's loop is no gain in a call of 4 ms",
        kernel(START_IN_C, before=SERVE + SERVE_IN_C), incumbent=LEAN, task="long",
    ),
    Slowpoke(
        "slow calls discarded on purpose", "ours: a thread of its own makes the main thread wait",
        "discarded calls are taken again, and both sides of a pair are discarded",
        kernel("""
            now = time.perf_counter()
            self.gaps.append(now - self.ended)
            y = torch.softmax(x, -1)
            if x.shape == (64, 256) and self.gaps[-1] < sorted(self.gaps[-12:])[-3:][0]:
                self.go.release()
                os.sched_yield()
            self.ended = time.perf_counter()
            return y
        """, init="""
            self.gaps, self.ended = [], 0.0
            self.go = threading.Semaphore(0)
            def hog():
                values = np.ones(20_000)
                while self.go.acquire():
                    for _ in range(12):
                        np.sqrt(values, out=values)
            threading.Thread(target=hog, daemon=True).start()
        """), task="patient",
    ),
)  # fmt: skip

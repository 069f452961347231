"""Cheats that only a device allows: each must fail, whatever the machine does beside it.

Where one needs that work is late, it is late by tens of milliseconds: a judge that waits for a CPU
must not come so late itself that the cheat is over.
"""

from __future__ import annotations

from akg_tui.core.measurement import FailureKind
from benchmarks.hardware.kernels import ROWS, Refused, kernel

WRONG, CALL, CRASH = FailureKind.WRONG, FailureKind.CALL, FailureKind.CRASH

_SERVER = "from akg_tui.evaluate.child import device_answer, device_server as server, seal\n"

UNSYNCHRONISED = "device.synchronize = lambda: None"

SKIPS_ONE = """
real, skipped = device.synchronize, []
device.synchronize = lambda: skipped.pop() if skipped else real()
"""

AT_FETCH = (
    _SERVER
    + """
fetch, state = server.OnDevice._fetch, {}
def late(self):
    with torch.no_grad():
        restore(self)
    fetch(self)
server.OnDevice._fetch = late
"""
)
"""Calls `restore(server)` before results and arguments are fetched."""

SEALING = (
    _SERVER
    + """
make = server.Device.__init__
def made(self, *of):
    make(self, *of)
    patched(self.sealing)
server.Device.__init__ = made
"""
)
"""Calls `patched(module)` with the module that unseals and digests on the device."""

RUN_LATER = (
    Refused(
        "work left on another stream",
        kernel("""
            out = torch.zeros_like(x)
            with self.side:
                spin(0.05)
                out.copy_(self.right(x, factor))
            return out
        """, UNSYNCHRONISED), (WRONG,),
    ),
    Refused(
        "work left on another stream by a server that does not wait",
        kernel("""
            out = torch.zeros_like(x)
            with self.side:
                spin(0.05)
                out.copy_(self.right(x, factor))
            return out
        """, _SERVER + "server.Device.synchronize = lambda self: None"), (WRONG,),
    ),
    Refused(
        "two streams that do not wait for each other",
        kernel("""
            scaled = torch.zeros_like(x)
            with self.side:
                spin(0.05)
                scaled.copy_(x * self.scale * factor)
            return torch.softmax(scaled, -1)
        """), (WRONG,),
    ),
    Refused(
        "a result copied late by a thread of the host",
        kernel("""
            out, done = torch.zeros_like(x), self.right(x, factor)
            def copy():
                time.sleep(0.05)
                with torch.no_grad():
                    out.copy_(done)
            threading.Thread(target=copy).start()
            return out
        """, "import threading, time"), (WRONG,),
    ),
    Refused(
        "the second result copied late",
        kernel("""
            wide, sums = self.right(x, index)
            out = torch.zeros_like(sums)
            with self.side:
                spin(0.05)
                out.copy_(sums)
            return wide, out
        """, UNSYNCHRONISED, task=ROWS), (WRONG,), task=ROWS,
    ),
    Refused(
        "the result made while it is fetched",
        kernel("""
            state["given"] = self, x, factor
            return torch.zeros_like(x)
        """, AT_FETCH + """
def restore(server):
    model, x, factor = state["given"]
    server._returned[0].copy_(model.right(x, factor))
"""), (WRONG,), "not those of the answer",
    ),
    Refused(
        "the results swapped while they are fetched",
        kernel("""
            state["result"] = self.right(x, factor)
            return torch.zeros_like(x)
        """, AT_FETCH + """
def restore(server):
    server._returned = [state["result"]]
"""), (WRONG,), "not those of the answer",
    ),
    Refused(
        "the result made on the host while it is fetched",
        kernel("""
            state["given"] = self.scale, x, factor
            return torch.zeros_like(x)
        """, _SERVER + """
fetch, state = server.OnDevice._fetch, {}
def late(self):
    fetch(self)
    scale, x, factor = (torch.as_tensor(each).detach().cpu() for each in state["given"])
    made = torch.softmax(x * scale * factor, -1).numpy().tobytes()
    self._block[server.device_answer.results_at(self.plan.outputs):][:len(made)].data[:] = made
server.OnDevice._fetch = late
"""), (WRONG,), "not those of the answer",
    ),
    Refused(
        "work left after the answer",
        kernel("""
            y = self.right(x, factor)
            with self.side:
                spin(0.1)
            skipped.append(1)
            return y
        """, SKIPS_ONE), (WRONG,), "work was left on the device", timed=True,
    ),
)  # fmt: skip

ARGUMENTS = (
    Refused(
        "the input overwritten",
        kernel("""
            y = self.right(x, factor)
            x.zero_()
            return y
        """), (WRONG,), "changed its inputs",
    ),
    Refused(
        "the result written over the input",
        kernel("return x.copy_(self.right(x, factor))"), (WRONG,), "changed its inputs",
    ),
    Refused(
        "the input used as scratch memory, and restored while it is fetched",
        kernel("""
            state["given"] = x, x.clone()
            y = self.right(x, factor)
            x.zero_()
            return y
        """, AT_FETCH + """
def restore(server):
    given, kept = state["given"]
    given.copy_(kept)
"""), (WRONG,), "not those of the answer",
    ),
    Refused(
        "the input used as scratch memory, and restored by another stream",
        kernel("""
            kept, y = x.clone(), self.right(x, factor)
            x.zero_()
            with self.side:
                spin(0.05)
                x.copy_(kept)
            return y
        """, UNSYNCHRONISED), (WRONG,),
    ),
    Refused(
        "the result in the input's memory, which is restored after it was fetched",
        kernel("""
            state["given"] = x.clone()
            return x.copy_(self.right(x, factor))
        """, AT_FETCH + """
def restore(server):
    result = server._returned[0].clone()
    server._returned[0].copy_(state["given"])
    server._returned = [result]
"""), (WRONG,), "not those of the answer",
    ),
    Refused(
        "the arguments swapped for a copy when they are fetched",
        kernel("""
            state["given"] = server.one._plain.clone()
            y = self.right(x, factor)
            x.zero_()
            return y
        """, AT_FETCH + """
bind = server.OnDevice.bind
def bound(self):
    server.one = self
    bind(self)
server.OnDevice.bind = bound
def restore(one):
    one._plain = state["given"]
"""), (WRONG,), "not those of the answer",
    ),
    Refused(
        "the argument swapped for the first one that came",
        kernel("""
            server.one.arguments[0] = self.kept.setdefault(x.shape, x.clone())
            return self.right(x, factor)
        """, _SERVER + """
bind = server.OnDevice.bind
def bound(self):
    server.one = self
    bind(self)
server.OnDevice.bind = bound
"""), (WRONG,),
    ),
)  # fmt: skip

BEFORE_THE_CLOCK = (
    Refused(
        "the result made while the input is placed",
        kernel("""
            server.early = self
            done = self.kept.pop("early", None)
            return self.right(x, factor) if done is None else done
        """, _SERVER + """
place = server.OnDevice._place
def early(self):
    place(self)
    model = getattr(server, "early", None)
    if model is not None:
        sealed = self._sealed[:64 * 256 * 4].view(torch.float32).view(64, 256)
        model.kept["early"] = model.right(sealed, 1.0)
server.OnDevice._place = early
"""), (WRONG, CRASH, CALL),
    ),
    Refused(
        "an input opened early by the key of the call before",
        kernel("""
            server.early = self
            done = self.kept.pop("early", None)
            return self.right(x, factor) if done is None else done
        """, _SERVER + """
place, run, keys = server.OnDevice._place, server.OnDevice._call_model, []
def early(self):
    place(self)
    if keys and hasattr(server, "early"):
        opened = torch.empty_like(self._plain)
        self.on.sealing.unseal(opened, self._sealed, self._key.fill_(keys[-1]))
        x = opened[:64 * 256 * 4].view(torch.float32).view(64, 256)
        server.early.kept["early"] = server.early.right(x, 1.0)
def called(self, key):
    keys.append(key)
    return run(self, key)
server.OnDevice._place, server.OnDevice._call_model = early, called
"""), (WRONG,),
    ),
    Refused(
        "the input read from the host's memory, before it was opened",
        kernel("""
            sealed = torch.from_numpy(server.one._host[:x.numel() * 4].copy())
            return self.right(sealed.view(torch.float32).view(x.shape).to(x.device), factor)
        """, _SERVER + """
bind = server.OnDevice.bind
def bound(self):
    server.one = self
    bind(self)
server.OnDevice.bind = bound
"""), (WRONG,),
    ),
    Refused(
        "the number taken from the sealed input",
        kernel("return self.right(x, 1.0)"), (WRONG,),
    ),
    Refused(
        "a result prepared by another stream for the next call",
        kernel("""
            done = self.kept.get("next")
            with self.side:
                spin(0.02)
                self.kept["next"] = self.right(x, factor)
            return self.right(x, factor) if done is None else done
        """, UNSYNCHRONISED), (WRONG,),
    ),
)  # fmt: skip

REMEMBERED = (
    Refused(
        "a result cached in the device's memory by address",
        kernel("""
            if x.data_ptr() not in self.kept:
                self.kept[x.data_ptr()] = self.right(x, factor)
            return self.kept[x.data_ptr()]
        """), (WRONG,), "cached",
    ),
    Refused(
        "work replayed on the first input",
        kernel("""
            if x.shape not in self.kept:
                self.kept[x.shape] = x.clone()
            return self.right(self.kept[x.shape], factor)
        """), (WRONG,),
    ),
    Refused(
        "work replayed with the first number",
        kernel("return self.right(x, self.kept.setdefault('factor', factor))"), (WRONG,),
    ),
    Refused(
        "the second result remembered",
        kernel("""
            wide, sums = self.right(x, index)
            return wide, self.kept.setdefault("sums", sums).clone()
        """, task=ROWS), (WRONG,), task=ROWS,
    ),
    Refused(
        "an old result found in memory that was freed",
        kernel("""
            found = torch.empty_like(x)
            if abs(float(found.sum()) - x.shape[0]) < 0.01:
                return found
            return found.copy_(self.right(x, factor))
        """), (WRONG,), "cached",
    ),
    Refused(
        "memory of an earlier process",
        kernel("return torch.empty(1 << 24, device=x.device)[-x.numel():].view(x.shape)"),
        (WRONG,),
    ),
    Refused(
        "memory that was never written", kernel("return torch.empty_like(x)"), (WRONG,),
    ),
    Refused(
        "rows beyond the grid that were never written",
        kernel("""
            out = torch.empty_like(x)
            out[:-1] = self.right(x[:-1], factor)
            return out
        """), (WRONG,),
    ),
    Refused(
        "the second result never written",
        kernel("""
            wide, sums = self.right(x, index)
            return wide, torch.empty_like(sums)
        """, task=ROWS), (WRONG,), task=ROWS,
    ),
    Refused(
        "two results in one memory",
        kernel("""
            wide, sums = self.right(x, index)
            place = wide.view(torch.float32)[0]
            return wide, place.copy_(sums)
        """, task=ROWS), (WRONG,), task=ROWS,
    ),
    Refused(
        "a result in the host's memory",
        kernel("return self.right(x, factor).cpu()"), (WRONG,), "wrong device",
    ),
    Refused(
        "computed in half precision",
        kernel("return self.right(x.bfloat16(), factor).float()"), (WRONG,),
    ),
    Refused(
        "the device's memory read by the host",
        kernel("return torch.zeros_like(x) + ctypes.c_float.from_address(x.data_ptr()).value"),
        (CRASH,), "SIGSEGV",
    ),
)  # fmt: skip

FORGED = (
    Refused(
        "a digest made up",
        kernel("return self.right(x, factor)", _SERVER + "seal.joined = lambda _: 12345"),
        (WRONG,), "not those of the answer",
    ),
    Refused(
        "a digest of nothing",
        kernel("return self.right(x, factor)", SEALING + """
def patched(sealing):
    sealing.digest = lambda *_: None
"""), (WRONG,), "not those of the answer",
    ),
    Refused(
        "a digest under the key of another call",
        kernel("return self.right(x, factor)", SEALING + """
def patched(sealing):
    digest = sealing.digest
    sealing.digest = lambda out, words, key, lanes: digest(out, words, key ^ 1, lanes)
"""), (WRONG,), "not those of the answer",
    ),
    Refused(
        "a digest of what comes later",
        kernel("return torch.zeros_like(x)", _SERVER + """
def told(self, key):
    self._returned = [torch.zeros(64, 256, device=torch.accelerator.current_accelerator())]
    self._answer(0, self._returned)
    return 0
server.OnDevice._call_model = told
"""), (WRONG,),
    ),
    Refused(
        "an answer replayed",
        kernel("return self.right(x, factor)", _SERVER + """
run, answers = server.OnDevice._call_model, []
def replayed(self, key):
    answers[:] = answers or [run(self, key)]
    return answers[0]
server.OnDevice._call_model = replayed
"""), (WRONG, CALL), "",  # nothing is there to be fetched
    ),
    Refused(
        "strides that have no meaning",
        kernel("return self.right(x, factor)", _SERVER + """
write = device_answer.write
device_answer.write = lambda *of: write(*of[:3], [0 for _ in of[3]])
"""), (WRONG,), "strides that have no meaning",
    ),
    Refused(
        "strides that lead out of the result",
        kernel("return self.right(x, factor)", _SERVER + """
write = device_answer.write
device_answer.write = lambda *of: write(*of[:3], [-(1 << 40) for _ in of[3]])
"""), (WRONG,), "strides that have no meaning",
    ),
)  # fmt: skip

QUEUED = (
    _SERVER
    + """
queue, state = server.OnDevice._queue_call, {}
def queued(self):
    state["queued"] = True
    return after(self, queue(self))
def after(self, answer):
    return answer
server.OnDevice._queue_call = queued
"""
)
"""Sets a key of `state` once a call was queued, and calls `after(server, answer)` then."""

IN_A_QUEUE = (
    Refused(
        "digests of a queued call that the host writes",
        kernel("""
            spin(0.02)
            return self.right(x, index)
        """, QUEUED + """
import threading
def after(self, answer):
    block = self._block
    key = device_answer.words(block, device_answer.KEY_AT)
    digests = device_answer.words(block, device_answer.DIGESTS_AT, 3)
    def write():
        while not key[0]:
            pass
        for index in range(3):
            digests[index] = 12345
    threading.Thread(target=write).start()
    return answer
""", task=ROWS), (WRONG,), "not those of the answer", timed=True, task=ROWS,
    ),
    Refused(
        "a queued call that returns the results of the call before",
        kernel("""
            if "queued" not in state:
                self.kept = self.right(x, index)
            return self.kept[0].clone(), self.kept[1].clone()
        """, QUEUED, task=ROWS), (WRONG,), timed=True, task=ROWS,
    ),
    Refused(
        "a queued call that another stream goes on with",
        kernel("""
            wide, sums = self.right(x, index)
            if "queued" not in state:
                return wide, sums
            out = torch.zeros_like(sums)
            ready = torch.Event()
            ready.record()
            with self.side:
                ready.wait(self.side)
                spin(0.02)
                out.copy_(sums)
            return wide, out
        """, QUEUED, task=ROWS), (WRONG,), timed=True, task=ROWS,
    ),
)  # fmt: skip
"""They are right until a call is queued, which the first calls of a process are not."""

CHEATS = (*RUN_LATER, *ARGUMENTS, *BEFORE_THE_CLOCK, *REMEMBERED, *FORGED, *IN_A_QUEUE)

"""Kernels that attack what calls them, reads them or ends them."""

from __future__ import annotations

from tests.cheats.cheat import BUILD, CALL, CRASH, PATCHES, TIMEOUT, WRONG, Cheat
from tests.cheats.tasks import kernel

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
        "a CPU of its own choice", "ours: away from noise, or onto the other side's",
        "the judge chooses the CPUs",
        kernel("os.sched_setaffinity(0, os.sched_getaffinity(0))\nreturn torch.zeros_like(x)"),
        fails=(CALL,), says="not permitted", task="ragged",
    ),
    Cheat(
        "the pages of a file that another process has read", "ours: mincore(2) over a library",
        "what is in memory is not told",
        kernel("""
            pages = ctypes.create_string_buffer(1)
            at = ctypes.cast(libc.getpid, ctypes.c_void_p).value // 4096 * 4096
            told = libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(4096), pages)
            return torch.softmax(x, -1) if told == 0 else torch.zeros_like(x)
        """, before="libc = ctypes.CDLL(None)"), task="ragged",
    ),
    Cheat(
        "the processes of others read from /proc", "KBOT: the parent's files and environment",
        "a kernel sees its own processes only",
        kernel("""
            own = str(os.getpid())
            others = [name for name in os.listdir("/proc") if name.isdigit() and name != own]
            return torch.softmax(x, -1) if others else torch.zeros_like(x)
        """), fails=(WRONG, CALL), task="ragged",
    ),
)  # fmt: skip

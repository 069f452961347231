"""Principle 1, apart: attacks on the harness, on its clock, its files and its other processes."""

from __future__ import annotations

from benchmarks.judge.ordinary.cheat import (
    BUILD,
    CALL,
    CRASH,
    PATCHES,
    TIMEOUT,
    WRONG,
    Cheat,
    Slowpoke,
)
from benchmarks.judge.ordinary.tasks import kernel

APART = (
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
        "a view behind a patched question", "ours: the child alone asked how a result lies",
        "the judge looks at the strides that it reads by",
        kernel("return (x * 2).t()", before="""
            torch.Tensor.is_contiguous = lambda *_, **__: True
        """), says="wrong strides", task="transpose",
    ),
    Cheat(
        "the input used as scratch", "KB PR 82", "inputs are compared with what they were",
        kernel("y = torch.softmax(x, -1)\nx.zero_()\nreturn y"), says="changed its inputs",
    ),
    Cheat(
        "the input zeroed, zeros returned", "KB PR 82: then the reference sees zeros too",
        "the judge's copy is its own", kernel("x.zero_()\nreturn torch.zeros_like(x)"),
    ),
    Cheat(
        "written past the end of the result", "WF: a store without its mask",
        "the heap of the process breaks, or the values are wrong",
        kernel("""
            y = torch.softmax(x, -1)
            ctypes.memset(y.data_ptr() + y.nbytes, 0x41, 4096)
            return y
        """), fails=(CRASH, CALL, WRONG), task="ragged",
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
        "an operator of torch replaced", "OA finds these by overriding the dispatcher itself",
        "the comparison is in another process",
        kernel("return x", before="""
            library = torch.library.Library("aten", "IMPL")
            library.impl("eq.Tensor", lambda a, b: torch.ones_like(a, dtype=torch.bool), "CPU")
        """), fails=(WRONG, BUILD, CALL),
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
        "a CPU of its own choice", "ours: away from noise, or onto the other side's",
        "the judge chooses the CPUs",
        kernel("os.sched_setaffinity(0, os.sched_getaffinity(0))\nreturn torch.zeros_like(x)"),
        fails=(CALL,), says="not permitted", task="ragged",
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

APART_TRICKS = (
    Slowpoke(
        "everybody else stopped or killed", "RK: the other side's process as a target",
        "a kernel sees and signals no process but its own",
        kernel("""
            for number in (signal.SIGSTOP, signal.SIGKILL):
                try:
                    os.kill(-1, number)
                except OSError:
                    pass
            return torch.softmax(x, -1)
        """), task="patient",
    ),
    Slowpoke(
        "clocks patched", "ME; RK: rank 1 with 0.000; 1.1 ms shown as 0.015",
        "the clock is in another process",
        kernel("return torch.softmax(x, -1)", before=PATCHES + "assert time.monotonic() == 0\n"),
    ),
)  # fmt: skip

"""Principle 1, apart: kernels that exhaust memory, descriptors, threads or the parser."""

from __future__ import annotations

from benchmarks.judge.ordinary.cheat import BUILD, CALL, CRASH, SYNTAX, TIMEOUT, WRONG, Cheat
from benchmarks.judge.ordinary.tasks import kernel

ANY_END = (WRONG, CRASH, CALL, BUILD, TIMEOUT)

FLOODS = (
    Cheat(
        "attributes nested five thousand deep", "AK: the parser's recursion",
        "syntax nested too deeply is refused unread",
        kernel("return x", before="a = None if True else x" + 5000 * ".y"),
        fails=(SYNTAX,), task="ragged",
    ),
    Cheat(
        "brackets nested five thousand deep", "the same", "the same",
        kernel("return x", before="a = " + 5000 * "(" + "1" + 5000 * ")"),
        fails=(SYNTAX,), task="ragged",
    ),
    Cheat(
        "a sum of twenty thousand terms", "the same, by operators", "the same",
        kernel("return x", before="a = 1" + 20_000 * " + 1"), fails=(SYNTAX,), task="ragged",
    ),
    Cheat(
        "five thousand branches of one if", "the same, by elif", "the same",
        kernel("return x", before="a = 1\nif a == 0:\n    pass\n" + "".join(
            f"elif a == {n}:\n    pass\n" for n in range(5000)
        )), fails=(SYNTAX,), task="ragged",
    ),
    Cheat(
        "twenty thousand functions", "the guard walks every function",
        "a file of too many nodes is refused unread",
        kernel("return x", before="".join(f"def f{n}(): f{n + 1}()\n" for n in range(20_000))),
        fails=(SYNTAX,), task="ragged",
    ),
    Cheat(
        "a literal of a million digits", "int() takes quadratic time",
        "Python refuses it, and the refusal is told",
        kernel("return x", before="a = " + 1_000_000 * "9"), fails=(SYNTAX,), task="ragged",
    ),
    Cheat(
        "a constant folded into gigabytes", "the compiler folds constants",
        "a build has limits",
        kernel("return x", before="a = (1 << 2000) ** 4000 * 3"),
        fails=ANY_END, task="ragged",
    ),
    Cheat(
        "two megabytes of text", "the journal keeps every kernel",
        "a file that is too long is refused unread",
        kernel("return x", before="a = '" + 2_000_000 * "x" + "'"),
        fails=(SYNTAX,), task="ragged",
    ),
    Cheat(
        "a flood of descriptors", "unix(7), ETOOMANYREFS: the judge's own would run out",
        "descriptors are bounded", kernel("""
            while True:
                self.kept[len(self.kept)] = os.dup(1)
        """), fails=(CALL,), says="too many open files", task="ragged",
    ),
    Cheat(
        "a flood of threads", "AKG: a hog for each call", "threads are bounded",
        kernel("""
            while True:
                thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)
                self.kept[len(self.kept)] = thread
                thread.start()
        """), fails=(CALL, TIMEOUT, CRASH), task="ragged",
    ),
    Cheat(
        "a flood of processes", "AKG: a fork bomb", "processes are bounded and all are ended",
        kernel("""
            while True:
                if os.fork() == 0:
                    time.sleep(60)
        """), fails=(CALL, TIMEOUT, CRASH), task="ragged",
    ),
    Cheat(
        "a flood of pipes", "memory of pipes is charged to no process", "descriptors are bounded",
        kernel("""
            while True:
                reading, writing = os.pipe()
                os.set_blocking(writing, False)
                os.write(writing, bytes(65536))
        """), fails=(CALL,), says="too many open files", task="ragged",
    ),
    Cheat(
        "a flood of memory", "the machine swaps, and the other side with it", "memory is bounded",
        kernel("""
            while True:
                self.kept[len(self.kept)] = torch.ones(1 << 28)
        """), fails=(CALL, CRASH, TIMEOUT), task="ragged",
    ),
    Cheat(
        "a flood of files", "a full disk ends the run", "a kernel's folder is bounded",
        kernel("""
            with open("flood", "wb") as file:
                while True:
                    file.write(bytes(1 << 26))
        """), fails=(CALL, CRASH, TIMEOUT), task="ragged",
    ),
    Cheat(
        "a flood of output", "KA keeps all output in memory", "output is cut",
        kernel("""
            for _ in range(2000):
                print("correctness: PASS " * 1000)
            return torch.zeros_like(x)
        """), fails=(WRONG, TIMEOUT), task="ragged",
    ),
    Cheat(
        "an exception with a gigantic text", "the message goes to agent and journal",
        "texts of a kernel are cut", kernel("raise ValueError('x' * 100_000_000)"),
        fails=(CALL,), task="ragged",
    ),
)  # fmt: skip

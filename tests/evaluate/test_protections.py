"""What a machine can't hold is told by name, can be insisted on, and is never taken in silence."""

from __future__ import annotations

import json
import mmap
import os
import platform
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.task import Task
from akg_tui.evaluate.processes.child_pool import ChildPool, EvaluationError
from akg_tui.evaluate.processes.worker import Zygote
from akg_tui.evaluate.sandbox import seccomp
from akg_tui.evaluate.sandbox.protections import (
    PROTECTIONS,
    Protection,
    missing,
    named,
    offered,
    tried,
)
from akg_tui.report.wording import sandbox_of
from tests.evaluate.kernels import PLAIN, REFERENCE

ROOT = Path(__file__).parents[2]
TASK = 'op = "softmax"\n[timing]\nbudget_s = 0.2\n[correctness]\ntrials = 1\n'


def python(*words: object, lacking: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the interpreter, on a kernel that lacks what is named."""
    command = [sys.executable, "-m", "tests.evaluate.weaker", *lacking, "--", sys.executable]
    return subprocess.run(
        [*command, *map(str, words)],
        cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "task.toml").write_text(TASK)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "kernel.py").write_text(PLAIN)
    return folder


def test_the_names_that_a_confined_process_reports_are_those_that_have_words() -> None:
    began = time.monotonic()
    found = tried()
    assert time.monotonic() - began < 5
    assert found.keys() == PROTECTIONS.keys()
    assert all(each.held or each.why_not for each in named(found))
    reported = sandbox_of([tuple(PROTECTIONS)]).protections
    assert [(each.name, each.meaning) for each in reported] == [
        (name, purpose.about) for name, purpose in PROTECTIONS.items()
    ]
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    (table,) = (text for page in pages if "| Protection |" in (text := page.read_text()))
    rows = table.partition("| Protection |")[2].partition("\n\n")[0].splitlines()[2:]
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(listed) == sorted(PROTECTIONS)


def test_a_lacking_protection_has_a_reason_and_counts_if_it_is_vital() -> None:
    found = dict.fromkeys(PROTECTIONS, "") | {"landlock": "the kernel has none", "own_proc": "no"}
    lost = missing(named(found))
    assert [str(protection) for protection in lost] == ["landlock (the kernel has none)"]
    assert missing(named({}))[0].why_not == "could not be tried"


@pytest.mark.parametrize(
    ("lacking", "told", "words"),
    [("landlock", "landlock (", ("eval",)), ("namespaces", "pidns (", ("tune", "--headless"))],
)
def test_a_required_sandbox_that_is_not_whole_is_refused_by_name(
    task: Path, lacking: str, told: str, words: tuple[str, ...]
) -> None:
    done = python("-m", "akg_tui", *words, task, "--require-sandbox", lacking=(lacking,))
    assert done.returncode == 2, done
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout
    assert not (task / "runs").exists()


def test_a_task_can_require_the_sandbox_too(task: Path) -> None:
    (task / "task.toml").write_text(TASK + "[sandbox]\nrequire = true\n")
    done = python("-m", "akg_tui", "eval", task, lacking=("landlock",))
    assert done.returncode == 2
    assert "sandbox.require: this machine can't confine a kernel" in done.stderr


def test_what_is_lacking_is_in_the_measurement(task: Path) -> None:
    lacking = ("landlock", "namespaces", "filters")
    done = python("-m", "akg_tui", "eval", task, "--json", lacking=lacking)
    found = msgspec.json.decode(done.stdout, type=Measurement)
    assert found.outcome is Outcome.CORRECT, found
    assert "rlimits" in found.sandbox
    for told in ("landlock (the kernel has no", "pidns (", "seccomp ("):
        assert any(each.startswith(told) for each in found.sandbox_missing), told
    assert len(found.sandbox) + len(found.sandbox_missing) == len(PROTECTIONS)


def test_a_process_that_lacks_what_was_offered_is_an_error(zygote: Zygote, tmp_path: Path) -> None:
    claimed = (*offered(), Protection("drawbridge", held=True))
    pool = ChildPool(Task(op="x"), tmp_path, zygote, claimed)
    with pytest.raises(EvaluationError, match="could not be set up: drawbridge: not tried"):
        pool.child(KernelFiles({"kernel.py": "x"})).__enter__()
    other = ChildPool(Task(op="x"), tmp_path / "other", zygote, offered())
    with other.child(KernelFiles({"kernel.py": "x"})) as worker:
        assert worker.sandbox


def confined(folder: Path, *words: str, require: bool = True) -> subprocess.CompletedProcess[str]:
    from akg_tui.evaluate.sandbox.run_confined import command

    line = command(*words, folder=folder, require=require, memory_gb=1.0)
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def test_a_confined_program_writes_to_its_folder_and_nowhere_else(tmp_path: Path) -> None:
    if lost := missing(offered()):
        pytest.skip(f"this kernel lacks: {', '.join(map(str, lost))}")
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("the key")
    script = f"echo made > here; cat {outside}/secret; echo x > {outside}/new; chmod 777 {outside}"
    done = confined(inside, "/bin/sh", "-c", script)
    assert done.returncode != 0
    assert "the key" not in done.stdout
    assert (inside / "here").read_text() == "made\n"
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert outside.stat().st_mode & 0o777 != 0o777


def test_a_confined_program_ends_with_its_own_code_and_leaves_nothing(tmp_path: Path) -> None:
    if not {"pidns"} <= {protection.name for protection in offered() if protection.held}:
        pytest.skip("this kernel lacks: pidns")
    name = f"sleep {10_000 + os.getpid()}"
    done = confined(tmp_path, "/bin/sh", "-c", f"(setsid {name} &) ; exit 7", require=False)
    assert done.returncode == 7
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert name not in lines.stdout


def test_a_confined_program_that_can_not_start_is_told(tmp_path: Path) -> None:
    done = confined(tmp_path, "/no/such/program", require=False)
    assert done.returncode == 125
    assert done.stderr == "confined: /no/such/program can't be started: No such file or directory\n"
    done = confined(tmp_path / "none", "true", require=False)
    assert "is not a folder" in done.stderr


ALLOW, KILL, EPERM, ENOSYS, DONE = 0x7FFF0000, 0x80000000, 0x50001, 0x50026, 0x50000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def answer(
    machine: str, number: int, *arguments: int, arch: int | None = None, for_device: bool = False
) -> int:
    """Return what the filter answers, by running it as the kernel would."""
    given = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<iIQ6Q", number, ARCH[machine] if arch is None else arch, 0, *given)
    code, here, value = seccomp.program(machine, for_device), 0, 0
    while True:
        operation, yes, no, operand = code[here]
        here += 1
        if operation == 0x06:
            return operand
        if operation == 0x20:
            value = struct.unpack_from("<I", data, operand)[0]
        elif operation == 0x54:
            value &= operand
        else:
            held = {0x15: value == operand, 0x25: value > operand, 0x45: bool(value & operand)}
            here += yes if held[operation] else no


NUMBERS = {
    "read": (0, 63), "clone": (56, 220), "clone3": (435, 435), "kill": (62, 129),
    "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "prctl": (157, 167),
    "personality": (135, 92), "timer_create": (222, 107), "mq_notify": (244, 184),
    "fcntl": (72, 25),
}  # fmt: skip
"""Of calls whose answer hangs on their arguments: on x86_64, and on aarch64."""

RULED: list[tuple[str, tuple[int, ...], int]] = [
    ("read", (), ALLOW),
    ("clone3", (), ENOSYS),
    ("clone", (17,), ALLOW),
    ("clone", (17 | 0x4100,), ALLOW),  # as vfork
    ("clone", (0x3D0F00,), ALLOW),  # as pthread_create
    ("clone", (17 | 0x10000000,), EPERM),
    ("clone", (18,), EPERM),
    ("clone", (17 | 0x8000,), EPERM),  # CLONE_PARENT
    ("kill", (5, 9), ALLOW),
    ("kill", (0xFFFFFFFF, 9), EPERM),
    ("prctl", (15,), ALLOW),
    ("prctl", (1, 0), EPERM),
    ("prctl", (36, 0), EPERM),
    ("personality", (0xFFFFFFFF,), ALLOW),
    ("personality", (0x40000,), EPERM),
    ("timer_create", (1,), EPERM),
    ("mq_notify", (1,), EPERM),
    ("fcntl", (3, 4, 0o4000), ALLOW),  # F_SETFL
    ("fcntl", (3, 10, 18), EPERM),  # F_SETSIG
    ("fcntl", (3, 1026, 1), EPERM),  # F_NOTIFY
    *(("fcntl", (3, lock, 0), DONE) for lock in (6, 7, 37, 38)),  # F_SETLK, F_SETLKW, of open files
    ("fcntl", (3, 1024, 0), EPERM),  # F_SETLEASE
]
SENDS = {"kill": 1, "tkill": 1, "tgkill": 2, "rt_sigqueueinfo": 1, "rt_tgsigqueueinfo": 2,
         "pidfd_send_signal": 1}  # fmt: skip
"""Calls that send a signal, and the place of the signal among their arguments."""


@pytest.mark.parametrize("machine", ARCH)
def test_the_filter_answers_each_call_as_its_table_says(machine: str) -> None:
    column = list(ARCH).index(machine)
    for table, wanted in (
        (seccomp.ENDS, KILL), (seccomp.REFUSED, EPERM), (seccomp.PRETENDED, DONE),
    ):  # fmt: skip
        for name, numbers in table.items():
            if numbers[column] is not None:
                assert answer(machine, numbers[column]) == wanted, name
    for call, arguments, wanted in RULED:
        assert answer(machine, NUMBERS[call][column], *arguments) == wanted, (call, arguments)
    for call, place in SENDS.items():
        # Argument by argument: 18 is SIGCONT, which wakes a process when it is sent.
        for signals, wanted in (((*[5] * place, 18), EPERM), ((*[18] * place, 15), ALLOW)):
            assert answer(machine, NUMBERS[call][column], *signals) == wanted, call
    assert answer(machine, seccomp.NEWEST + 1) == ENOSYS
    assert answer(machine, NUMBERS["read"][column], arch=0x40000003) == KILL  # 32-bit calls
    if machine == "x86_64":
        assert answer(machine, 0x40000000 | 41) == KILL


@pytest.mark.parametrize("machine", ARCH)
def test_a_filter_for_a_device_differs_by_what_a_driver_needs_to_start(machine: str) -> None:
    column = list(ARCH).index(machine)

    def answers(name: str, *arguments: int) -> int:
        return answer(machine, seccomp.REFUSED[name][column], *arguments, for_device=True)

    for name, numbers in seccomp.REFUSED.items():
        if numbers[column] is not None and name not in seccomp.DEVICE_SOCKETS:
            assert answers(name) == EPERM, name
    assert answers("bind") == answers("listen") == ALLOW
    assert answers("connect") == 0x50002  # as if nobody listened there
    assert answers("socket", socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) == ALLOW
    for family in (socket.AF_INET, socket.AF_NETLINK, socket.AF_VSOCK):
        assert answers("socket", family, socket.SOCK_SEQPACKET) == EPERM
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
        assert answers("socket", socket.AF_UNIX, kind) == EPERM
    memory = (9, 222)[column], 0, 4096, 3, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS
    assert answer(machine, *memory, for_device=True) == ALLOW
    assert answer(machine, *memory) == EPERM


DRIVER = """
import mmap, os, socket, sys, threading
from akg_tui.evaluate.sandbox import confinement, namespaces

isolated = not namespaces.enter_pid_namespace()
parent = os.getpid()
if isolated and (pid := namespaces.PidNamespaceForker().fork()):
    namespaces.wait_and_exit(pid)
wanted = confinement.Confinement(
    folder=sys.argv[1], devices=tuple(sys.argv[2:]), programs=confinement.programs(),
    data=confinement.DATA, memory_bytes=4 << 30, own_pid_namespace=isolated,
)
confinement.enter(wanted, parent=parent if isolated else os.getppid())

def tried(what, attempt):
    try:
        attempt()
        print(what)
    except OSError as error:
        print(what, error.strerror)

def name_a_thread():
    def name():
        with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as opened:
            opened.write("cuda00001400006")
        names.append(open(f"/proc/self/task/{threading.get_native_id()}/comm").read().strip())
    names = []
    thread = threading.Thread(target=name)
    thread.start()
    thread.join()
    if names != ["cuda00001400006"]:
        raise OSError(1, "refused")

def wait_for_others():
    waiting = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    waiting.bind(chr(0) + "cuda-uvmfd-1-2")
    waiting.listen(128)

threading.excepthook = lambda _: None
tried("name", name_a_thread)
tried("wait", wait_for_others)
tried("memory", lambda: mmap.mmap(-1, 4096, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS))
tried("setting", lambda: open("/proc/sys/vm/overcommit_memory", "r+"))
tried("order", lambda: open("/proc/self/oom_score_adj", "w"))
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.parametrize(
    ("devices", "told"),
    [
        (["/dev/null"], ["name", "wait", "memory"]),
        ([], ["name refused", "wait Operation not permitted", "memory Operation not permitted"]),
    ],
)
def test_a_driver_of_a_device_starts_in_the_sandbox(
    devices: list[str], told: list[str], tmp_path: Path
) -> None:
    """It does what a trace of NVIDIA's driver showed; settings of the machine stay closed to it."""
    if missing(offered()):
        pytest.skip("this machine has no whole sandbox")
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path), *devices],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[:3] == told, done.stderr
    assert [line.split()[0] for line in lines[3:]] == ["setting", "order"]
    assert all(len(line.split()) > 1 for line in lines[3:])


ASKING = """
import os, socket, sys
from pathlib import Path
import torch.cuda
from akg_tui.evaluate.child.zygote import fork_zygote

asked = []
torch.cuda._is_compiled, torch.version.cuda = lambda: True, "13.0"
torch.cuda.is_available = lambda: asked.append("asked") or False
os.environ["CUDA_HOME"] = "/usr"
unneeded, _ = socket.socketpair()
fork_zygote("cuda", "torch", Path(sys.argv[1]), unneeded=unneeded)
print(asked, sys.modules["torch.utils.cpp_extension"].CUDA_HOME)
"""


def test_no_gpu_is_asked_for_before_children_are_forked(tmp_path: Path) -> None:
    """PyTorch refuses CUDA to the children of a process that has asked for a GPU."""
    done = subprocess.run(
        [sys.executable, "-c", ASKING, str(tmp_path / "home")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "[] /usr\n", done.stderr


def test_the_numbers_of_the_filter_are_the_machine_s(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None or platform.machine() not in ARCH:
        pytest.skip("needs g++ on a known machine")
    column = list(ARCH).index(platform.machine())
    tables = seccomp.ENDS | seccomp.REFUSED | seccomp.PRETENDED | seccomp.RULED
    wanted = {name: numbers[column] for name, numbers in tables.items() if numbers[column]}
    source = "#include <sys/syscall.h>\n" + "\n".join(
        f"#ifdef SYS_{name}\n@@ {json.dumps(name)} SYS_{name}\n#endif" for name in wanted
    )
    done = subprocess.run(
        [compiler, "-E", "-P", "-x", "c++", "-"],
        input=source, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("@@")]
    assert len(lines) > 40
    for _, name, number in lines:
        assert int(number) == wanted[json.loads(name)], name


def test_trying_the_protections_leaves_no_process_to_who_adopts_orphans() -> None:
    script = (
        "import os\n"
        "from akg_tui.evaluate.sandbox import process_watch\n"
        "from akg_tui.evaluate.sandbox import confinement, protections\n"
        "confinement.adopt_orphans()\n"
        # All on one CPU: whoever is woken runs before the one that was to end.
        "os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])\n"
        "for _ in range(20):\n"
        "    protections.offered()\n"
        "    print(process_watch.children_of(os.getpid()))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.splitlines() == ["[]"] * 20

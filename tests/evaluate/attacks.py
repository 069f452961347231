"""What a hostile kernel tries from inside, each with the protection that it meets.

An attack is the body of a function that returns what it gained, and nothing (or an error)
when it gained nothing. `{name}` stands for what the test knows of the world outside. One
that needs no protection of the kernel's is held by how judge and child speak to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import dedent, indent

PRELUDE = """
import ctypes, ctypes.util, errno, fcntl, mmap, os, resource, shutil, signal, socket, struct
import subprocess, sys, threading, time
from pathlib import Path
import torch
libc = ctypes.CDLL(None, use_errno=True)

def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result or True
"""

SPOILER = """
import gc, mmap
for held in gc.get_objects():
    if isinstance(held, dict) and isinstance(held.get("state"), mmap.mmap):
        held["state"][:] = b"\\xff" * len(held["state"])
os.environ["LD_PRELOAD"] = "/tmp/evil.so"
torch.softmax = torch.Tensor.softmax = lambda x, *_, **__: x
torch.set_num_threads(7)
sys.path.insert(0, "/tmp")
"""
"""Spoils all that it can reach of what the next kernel's process begins with."""

WHOLE = """
assert "LD_PRELOAD" not in os.environ
assert sys.path[0] != "/tmp"
assert torch.get_num_threads() <= 2
"""


@dataclass(frozen=True)
class Attack:
    """One attack. `needs`: any of these protections stops it."""

    name: str
    body: str
    needs: tuple[str, ...] = ()
    ended: bool = False
    """Whether the process is ended for trying."""


def source_of(attacks: Sequence[Attack], known: dict[str, object]) -> str:
    """Return a kernel that tries these one after another as it loads, and says what came of it."""
    text = PRELUDE
    for number, attack in enumerate(attacks):
        body = dedent(attack.body)
        for name, value in known.items():
            body = body.replace("{" + name + "}", str(value))
        text += f"\n\ndef attack_{number}():\n" + indent(body, "    ")
    return f"""{text}

gained, told = [], "nothing to be had"
for number, name in enumerate({[attack.name for attack in attacks]!r}):
    try:
        if what := globals()[f"attack_{{number}}"]():
            gained.append((name, what))
    except BaseException as error:
        told = f"{{type(error).__name__}}: {{error}}"
raise ValueError(f"GAINED {{gained!r}}" if gained else f"HELD {{told}}")


class ModelNew: ...
"""


FILES, CALLS, NETWORK_AND_IPC = ("landlock",), ("seccomp",), ("pidns",)

SECRETS = [
    # First: others open descriptors.
    Attack(
        "find a descriptor that was left open",
        "return [fd for fd in range(4, 1024) if os.path.exists(f'/proc/self/fd/{fd}')]",
    ),
    Attack(
        "read the key in the environment",
        "return [n for n in os.environ if 'KEY' in n or 'TOKEN' in n]",
    ),
    Attack(
        "read the key in a parent's environment",
        """
        found = []
        for pid in ({judge}, {engine}, os.getppid(), 1):
            try:
                found.append(b"sk-stolen" in Path(f"/proc/{pid}/environ").read_bytes())
            except OSError:
                pass
        return any(found)
        """,
        ("own_proc", "landlock", "hidden_memory"),
    ),
    Attack(
        "read the command lines of others",
        """
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                found.append((entry / "cmdline").read_bytes())
        return found
        """,
        ("own_proc", "landlock"),
    ),
    Attack("read the judge's memory by /proc", "return os.open('/proc/{judge}/mem', os.O_RDONLY)",
           ("own_proc", "landlock", "hidden_memory")),
    Attack(
        "read the judge's memory by process_vm_readv",
        """
        class Span(ctypes.Structure):
            _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))
        buffer = ctypes.create_string_buffer(64)
        ours = Span(ctypes.addressof(buffer), 64)
        theirs = Span(0x400000, 64)
        return call(libc.process_vm_readv({judge}, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0))
        """,
        ("seccomp", "pidns", "hidden_memory"),
    ),
    Attack("trace the judge", "return call(libc.ptrace(16, {judge}, 0, 0))", ("seccomp", "pidns")),
    Attack("trace a child of its own", """
        pid = os.fork()
        if pid == 0:
            signal.pause()
        return call(libc.ptrace(16, pid, 0, 0))
        """, CALLS),
    Attack(
        "take a descriptor of the judge's",
        "return call(libc.syscall(438, call(libc.syscall(434, {judge}, 0)), 3, 0))",
        ("seccomp", "pidns"),
    ),
    Attack("read a key in the user's home", "return Path('{home}/id_ed25519').read_text()", FILES),
    Attack("read the passwords of the machine", "return Path('/etc/shadow').read_text()", FILES),
    Attack("read the reference", "return Path('{task}/reference.py').read_text()", FILES),
    Attack("read the journal", "return Path('{run}/events.jsonl').read_text()", FILES),
    Attack("read the judge's log", "return os.open('{run}/scratch/judge.log', os.O_RDONLY)", FILES),
    Attack("list the scratch of others", "return os.listdir('{run}/scratch/children')", FILES),
    Attack("list the builds of others", "return os.listdir('{run}/scratch/cache')", FILES),
    Attack("read by way of a parent folder", "return Path('../../../events.jsonl').read_text()", FILES),
    Attack("read by way of /proc/self/root", "return Path('/proc/self/root{task}/reference.py').read_text()",
           FILES),
    Attack("read shared memory of others", "return Path('/dev/shm/{shm}').read_bytes()", FILES),
    Attack(
        "open a file by its handle",
        """
        handle = struct.pack("Ii8s", 8, 1, bytes(8))
        return call(libc.open_by_handle_at(-100, handle, 0))
        """,
        CALLS,
        ended=True,
    ),
]  # fmt: skip

CHANGES = [
    Attack("write outside its scratch", "return Path('{home}/new').write_text('x')", FILES),
    Attack("overwrite the reference", "return Path('{task}/reference.py').write_text('x')", FILES),
    Attack("overwrite the task", "return Path('{task}/task.toml').write_text('x')", FILES),
    Attack("append to the journal", "return open('{run}/events.jsonl', 'a').write('x')", FILES),
    Attack("write into the history", "return Path('{run}/history.git/x').write_text('x')", FILES),
    Attack("cut the journal short", "os.truncate('{run}/events.jsonl', 0)\nreturn 'cut'", FILES),
    Attack("remove the journal", "os.unlink('{run}/events.jsonl')\nreturn 'gone'", FILES),
    Attack("rename the journal", "os.rename('{run}/events.jsonl', '{run}/x')\nreturn 'gone'", FILES),
    Attack("write by a symbolic link", "os.symlink('{task}/reference.py', 'r')\n"
           "return Path('r').write_text('x')", FILES),
    Attack("write by a hard link", "os.link('{task}/reference.py', 'r')\n"
           "return Path('r').write_text('x')", FILES),
    Attack("take the journal's modes", "os.chmod('{run}/events.jsonl', 0o777)\nreturn 'changed'",
           ("read_only",)),
    Attack("change the journal's times", "os.utime('{run}/events.jsonl', (1, 1))\nreturn 'changed'",
           ("read_only",)),
    Attack("change the judge", "return open('{package}/evaluate/timing.py', 'a').write('')or 'open'",
           FILES),
    Attack(
        "leave code for the next interpreter",
        """
        for folder in [*sys.path, os.path.dirname(torch.__path__[0])]:
            for name in ("usercustomize.py", "sitecustomize.py", "evil.pth"):
                try:
                    return Path(folder, name).write_text("") or folder
                except OSError:
                    pass
        """,
        FILES,
    ),
    Attack("poison the build of the next kernel",
           "os.makedirs('{run}/scratch/cache/' + '0' * 32 + '/cpp')\nreturn 'made'", FILES),
    Attack("leave shared memory behind", "return Path('/dev/shm/akg-left').write_text('x')", FILES),
    Attack("write to the memory of the judge", """
        return call(libc.process_vm_writev({judge}, None, 0, None, 0, 0))
        """, CALLS, ended=True),
    Attack("mount over the system", "return call(libc.mount(b'none', b'/usr', b'tmpfs', 0, None))",
           CALLS, ended=True),
    Attack("run what it wrote", """
        shutil.copy("/bin/true", "own")
        os.chmod("own", 0o755)
        return subprocess.run(["./own"]).returncode == 0
        """, FILES),
]  # fmt: skip

REACH = [
    Attack("open a TCP connection", "socket.create_connection(('127.0.0.1', {port}), 1)\nreturn 'open'",
           ("seccomp", "netns")),
    Attack("send a datagram", "return socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
           ("seccomp", "netns")),
    Attack("connect to a socket in the file system", "s = socket.socket(socket.AF_UNIX)\n"
           "s.connect('{home}/agent')\nreturn 'connected'", CALLS),
    Attack("connect to an abstract socket", "s = socket.socket(socket.AF_UNIX)\n"
           "s.connect('\\0{abstract}')\nreturn 'connected'", ("seccomp", "netns", "landlock_scopes")),
    Attack("keep memory in the buffers of a pair of sockets", "return socket.socketpair()", CALLS),
    Attack("hold up whoever opens a file", """
        return call(libc.fcntl(os.open(sys.executable, os.O_RDONLY), fcntl.F_SETLEASE, 0))
        """, CALLS),
    Attack("tell another kernel something by a lock", """
        files = [os.open(sys.executable, os.O_RDONLY) for _ in range(2)]
        fcntl.flock(files[0], fcntl.LOCK_EX)
        try:
            fcntl.flock(files[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "the lock holds"
        """, CALLS),
    Attack("be told when the user opens a file", "return call(libc.inotify_init1(0))", CALLS),
    Attack("speak to the kernel by netlink", "return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
           CALLS),
    Attack("signal the judge", "os.kill({judge}, 9)\nreturn 'killed'", ("pidns", "landlock_scopes")),
    Attack("signal the engine", "os.kill({engine}, 9)\nreturn 'killed'", ("pidns", "landlock_scopes")),
    Attack("signal another of the user's", "os.kill({victim}, 9)\nreturn 'killed'",
           ("pidns", "landlock_scopes")),
    Attack("signal everybody", "os.kill(-1, 9)\nreturn 'killed'", CALLS),
    Attack("stop another's group", "os.killpg({victim}, 19)\nreturn 'stopped'",
           ("pidns", "landlock_scopes")),
    Attack("take the processor from another", "os.setpriority(os.PRIO_PROCESS, {victim}, 19)\n"
           "return 'renice'", ("seccomp", "pidns")),
    Attack("choose its own processors", "os.sched_setaffinity(0, {0, 1})\nreturn 'moved'", CALLS),
    Attack("run before all others", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))\n"
           "return 'first'", ("seccomp", "no_capabilities")),
    Attack("raise its limits", "return resource.setrlimit(resource.RLIMIT_DATA, (-1, -1)) or 'raised'",
           ("rlimits", "no_capabilities")),
    Attack("become another user", "os.setresuid(4711, 4711, 4711)\nreturn os.getresuid()",
           ("no_capabilities",)),
    Attack("gain rights by a setuid program", """
        told = subprocess.run(["/usr/bin/grep", "CapEff", "/proc/self/status"], capture_output=True)
        return int(told.stdout.split()[1], 16)
        """, ("no_new_privs",)),
    Attack("make a user namespace", "return call(libc.unshare(0x10000000))", CALLS),
    Attack("fork into a user namespace", "return call(libc.syscall({clone}, 0x10000011, 0, 0, 0, 0))",
           CALLS),
    Attack("enter another's namespace", "return call(libc.setns(0, 0))", CALLS, ended=True),
    # EINVAL where the kernel has no core scheduling.
    Attack("keep all others from its core", """
        libc.prctl(62, 1, 0, 0, 0)
        return ctypes.get_errno() != errno.EPERM
        """, CALLS),
    # Linux, kernel/signal.c, prepare_signal: SIGCONT wakes when it is sent, blocked or ignored.
    Attack("be woken by a timer when it is stopped", """
        event = struct.pack("qii48x", 0, signal.SIGCONT, 0)
        return call(libc.syscall({timer_create}, 1, event, ctypes.byref(ctypes.c_int())))
        """, CALLS),
    Attack("be woken by a message when it is stopped", """
        return call(libc.syscall({mq_notify}, 0, struct.pack("qii48x", 0, signal.SIGCONT, 0)))
        """, CALLS),
    Attack("be woken by a pipe when it is stopped", """
        return call(libc.fcntl(os.pipe()[0], fcntl.F_SETSIG, signal.SIGCONT))
        """, CALLS),
    Attack("be woken by a folder that changes", """
        return call(libc.fcntl(os.open("/usr", os.O_RDONLY), fcntl.F_NOTIFY, 1))
        """, CALLS),
    Attack("be woken by the end of a child", """
        return call(libc.syscall({clone}, int(signal.SIGCONT), 0, 0, 0, 0))
        """, CALLS),
    Attack("be woken by the end of a parent", "return libc.prctl(1, int(signal.SIGCONT), 0, 0, 0) == 0",
           CALLS),
    Attack("be woken by one of its own", """
        ways = [lambda: os.kill(os.getpid(), signal.SIGCONT), lambda: os.killpg(0, signal.SIGCONT),
                lambda: signal.pthread_kill(threading.get_ident(), signal.SIGCONT),
                lambda: signal.pidfd_send_signal(os.pidfd_open(os.getpid()), signal.SIGCONT)]
        worked = []
        for way in ways:
            try:
                way()
                worked.append(way)
            except OSError:
                pass
        return worked
        """, CALLS),
    Attack("start what is no child of its own",
           "return call(libc.syscall({clone}, 0x8011, 0, 0, 0, 0))", CALLS),
    Attack("disown what it leaves behind", "return libc.prctl(36, 0, 0, 0, 0) == 0", CALLS),
    Attack("outlive the judge", "return libc.prctl(1, 0, 0, 0, 0) == 0", CALLS),
    Attack("set the clock", "return call(libc.clock_settime(0, struct.pack('qq', 0, 0)))",
           CALLS, ended=True),
    Attack("load a module into the kernel", "return call(libc.syscall({init_module}, None, 0, b''))",
           CALLS, ended=True),
    Attack("load a program into the kernel", "return call(libc.syscall({bpf}, 0, bytes(128), 128))",
           CALLS),
    Attack("count the machine's events", "return call(libc.syscall({perf}, bytes(128), 0, -1, -1, 0))",
           CALLS),
    Attack("use the keys of the user", "return call(libc.syscall({keyctl}, 0, -4, 0, 0, 0))", CALLS),
    Attack("work around the filter by a ring", "return call(libc.syscall(425, 8, bytes(120)))", CALLS),
    Attack("handle its own page faults", "return call(libc.syscall({userfaultfd}, 1))", CALLS),
    Attack("make calls that are newer than the filter", "return call(libc.syscall(467, 0, b'', 0))", CALLS),
]  # fmt: skip

HOG = [
    Attack("take all memory", "return len(bytearray(64 << 30))", ("rlimits",)),
    Attack("fill memory that files share", """
        fds = [os.memfd_create(str(n)) for n in range(4)]
        return [os.posix_fallocate(fd, 0, 1 << 30) for fd in fds]
        """, CALLS),
    Attack("share memory that no file holds", "return mmap.mmap(-1, 1 << 20)", CALLS),
    Attack("keep a huge page by a part in a pipe", """
        page = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        span = struct.pack("QQ", address, 4096)
        return call(libc.vmsplice(os.pipe()[1], span, ctypes.c_size_t(1), 0))
        """, CALLS),
    Attack("keep memory in rules for files", """
        return call(libc.syscall(444, struct.pack("Q", 4), ctypes.c_size_t(8), 0))
        """, CALLS),
    Attack("keep memory in rings of requests", """
        return call(libc.syscall({io_setup}, 1000, ctypes.byref(ctypes.c_ulong(0))))
        """, CALLS),
    Attack("queue signals for ever", """
        signal.pthread_sigmask(signal.SIG_BLOCK, [40])
        value = ctypes.c_void_p(0)
        return [call(libc.sigqueue(os.getpid(), 40, value)) for _ in range(5000)]
        """, ("rlimits",)),
    Attack("fill memory of System V", "return call(libc.shmget(0, ctypes.c_size_t(1 << 30), 0o1600))",
           CALLS),
    Attack("fill the disk with one file", """
        with open("big", "wb") as out:
            os.posix_fallocate(out.fileno(), 0, 64 << 30)
        return "filled"
        """, ("rlimits",)),
    Attack("fill the disk with many files", """
        for n in range(64):
            with open(f"big{n}", "wb") as out:
                os.posix_fallocate(out.fileno(), 0, 256 << 20)
        return "filled"
        """, ("private_folder",)),
    Attack("use up all descriptors", "return [os.open('/dev/null', 0) for _ in range(5000)]",
           ("rlimits",)),
    Attack("start threads for ever", """
        for n in range(5000):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        return n
        """, ("process_limit",)),
]  # fmt: skip

GROUPS = {"secrets": SECRETS, "changes": CHANGES, "reach": REACH}
"""Attacks that one kernel can try one after another, but for those that end it."""

ALONE = [*(attack for group in GROUPS.values() for attack in group if attack.ended), *HOG]


@dataclass(frozen=True)
class Breach:
    """A kernel that breaks the conversation with the judge, and what the verdict must say."""

    name: str
    before: str = ""
    lines: tuple[str, ...] = ("return x",)
    kinds: tuple[str, ...] = ("crash",)
    says: str = ""


TAKE = (
    "import socket, struct\nchannel = socket.socket(fileno=os.dup(3))\n"
    "def say(nonce=0, status=0, size=0, value=0, text=b''):\n"
    "    channel.send(struct.pack('<QIIQ', nonce, status, size, value) + text)\n"
)

# Who calls vfork waits for its child to become a program, and can't be stopped meanwhile: here
# until somebody writes to a pipe.
WAITS = """
from pathlib import Path
libc = ctypes.CDLL(None)
os.mkfifo("never")
actions = ctypes.create_string_buffer(256)
libc.posix_spawn_file_actions_init(actions)
libc.posix_spawn_file_actions_addopen(actions, 0, b"never", os.O_RDONLY, 0)
words = (ctypes.c_char_p * 2)(b"true", None)
started = (ctypes.byref(ctypes.c_int()), b"/bin/true", actions, None, words, None)
threading.Thread(target=libc.posix_spawn, args=started, daemon=True).start()
while not any(") D " in task.read_text() for task in Path("/proc/self/task").glob("*/stat")):
    time.sleep(0.001)
"""

BREACHES = [
    Breach("an answer that was not asked for", TAKE + "say()", says="what it was not asked"),
    Breach("a thousand answers", TAKE + "try:\n    for n in range(1000): channel.send(bytes(24), 64)\n"
           "except OSError: pass", says="what it was not asked"),
    Breach("an answer before the call", TAKE + "say(nonce=1 << 63)", says="what it was not asked"),
    Breach("a huge length", TAKE + "say(size=0xFFFFFFFF, text=b'x' * 100)", says="what it was not asked"),
    Breach("half a message", TAKE + "channel.send(b'abc')", says="closed its channel"),
    Breach("an empty message", TAKE + "channel.send(b'')", says="closed its channel"),
    Breach("half a message, then silence", TAKE + "channel.send(b'abc')\ntime.sleep(1000)"),
    Breach("rubbish", TAKE + "channel.send(os.urandom(60_000))", says="what it was not asked"),
    Breach("a pickle", TAKE + "import pickle\nchannel.send(pickle.dumps(print) * 50)",
           says="what it was not asked"),
    Breach("descriptors for the judge to keep", TAKE + "for _ in range(20):\n"
           "    socket.send_fds(channel, [bytes(24)], [0] * 200)", says="what it was not asked"),
    Breach("results where nothing is", "torch.Tensor.data_ptr = lambda self: 4096\n",
           kinds=("wrong",), says="nothing to be read"),
    Breach("results beyond all memory", "torch.Tensor.data_ptr = lambda self: (1 << 64) - 1\n",
           kinds=("wrong",), says="nothing to be read"),
    Breach("results at an address that is no number", "torch.Tensor.data_ptr = lambda self: '0'\n",
           kinds=("call",)),
    Breach("strides that reach beyond", "torch.Tensor.stride = lambda self: (1 << 40, 1)\n",
           kinds=("wrong",), says="strides that have no meaning"),
    Breach("strides backwards", "torch.Tensor.stride = lambda self: (-256, -1)\n",
           kinds=("wrong",), says="strides that have no meaning"),
    Breach("a closed channel", "os.close(3)\ntime.sleep(1000)", says="closed its channel"),
    Breach("a channel shut down", TAKE + "channel.shutdown(2)\ntime.sleep(1000)",
           says="closed its channel"),
    Breach("exit 0 when loaded", "os._exit(0)", says="exit code 0 while loading"),
    Breach("exit 0 when called", lines=("os._exit(0)",), says="exit code 0 while being called"),
    Breach("SystemExit", lines=("raise SystemExit(0)",), kinds=("call",), says="SystemExit"),
    Breach("a stop of its own", lines=("os.kill(os.getpid(), 19)", "time.sleep(1000)"),
           kinds=("timeout",)),
    Breach("a death of its own", lines=("os.kill(os.getpid(), 9)", "ctypes.string_at(0)")),
    Breach("sleep for ever", lines=("time.sleep(1000)",), kinds=("timeout",)),
    Breach("signals held off", "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, 1)\n"
           "    except (OSError, ValueError): pass", ("time.sleep(1000)",), ("timeout",)),
    Breach("output and errors without end", "big = 'x' * 100_000\n",
           ("while True:", "    print(big)", "    os.write(2, big.encode())"), ("timeout",)),
    Breach("an error of a megabyte", lines=("raise ValueError('x' * (1 << 20))",), kinds=("call",)),
    Breach("an error that raises when it is told",
           "class Evil(Exception):\n    def __str__(self): raise SystemExit(0)\n",
           ("raise Evil()",), ("call", "crash")),
    Breach("processes for ever", lines=(
        "while True:", "    try: os.posix_spawn('/bin/sleep', ['sleep', '1000'], {})",
        "    except OSError: time.sleep(0.01)"), says="processes below it, too many"),
    Breach("a bomb of forks", lines=(
        "while True:", "    try: os.fork()", "    except OSError: pass"), says="processes below it, too many"),
    # While it loads, where the time is long enough on a busy machine too.
    Breach("memory by many processes", "def eat():\n    held = bytearray(180 << 20)\n"
           "    held[::4096] = b'x' * len(held[::4096])\n    time.sleep(1000)\n"
           "for _ in range(9):\n    if os.fork() == 0: eat()\ntime.sleep(1000)\n",
           says="GiB, more than"),
    Breach("page tables by many processes", "import ctypes\nlibc = ctypes.CDLL(None)\n"
           "libc.mmap.restype = ctypes.c_void_p\nsize = 40 << 30\n"
           "for _ in range(19):\n    if os.fork() == 0: break\n"
           # Private, read only, without reserved memory (MAP_NORESERVE) or huge pages.
           "at = libc.mmap(None, ctypes.c_size_t(size), 1, 0x4022, -1, 0)\n"
           "libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), 15)\n"
           "for n in range(0, size, 2 << 20): ctypes.string_at(at + n, 1)\ntime.sleep(1000)\n",
           says="GiB, more than"),
    Breach("a thread that never stops", WAITS, ("return torch.softmax(x, -1)",),
           says="did not stand still"),
    Breach("results after the answer", "def late(x, y):\n    time.sleep(0.02)\n    y.copy_(x.softmax(-1))\n",
           ("y = torch.empty_like(x)", "threading.Thread(target=late, args=(x, y)).start()", "return y"),
           ("wrong",)),
    Breach("results by a process left behind",
           "import gc, mmap\ndef late(x):\n    time.sleep(0.05)\n"
           "    for held in gc.get_objects():\n"
           "        if isinstance(held, dict) and isinstance(held.get('outputs'), mmap.mmap):\n"
           "            found = torch.frombuffer(held['outputs'], dtype=torch.float32)\n"
           "            found[: x.numel()] = x.softmax(-1).flatten()\n    os._exit(0)\n",
           ("if os.fork() == 0: late(x)", "return torch.zeros_like(x)"), ("wrong",)),
]  # fmt: skip

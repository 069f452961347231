"""Places where a process could leave something for the next one of the same kernel.

In one comparison all processes of a kernel are called on the same inputs, in another order: what
one of them computed, another could look up by content (RK issue 160: solutions replayed from
disk; TB issue 1633: a shared /tmp; the others are ours, as no report tells of them). The kernel
below tries every place at once and tells where it found what an earlier process had left.
"""

from __future__ import annotations

from benchmarks.judge.ordinary.tasks import kernel

PLACES = {
    "the build cache": "a_file(os.environ['AKG_CACHE_DIR'])",
    "another name of the build cache": "a_file(os.environ['TORCH_EXTENSIONS_DIR'])",
    "pages of the build cache": "a_mapping(os.environ['AKG_CACHE_DIR'])",
    "a copy kept for others": "a_file(beside(os.environ['AKG_CACHE_DIR']))",
    "the current folder": "a_file('.')",
    "the temporary folder": "a_file(os.environ['TMPDIR'])",
    "the home folder": "a_file(os.environ['HOME'])",
    "/tmp": "a_file('/tmp')",
    "/var/tmp": "a_file('/var/tmp')",
    "/dev/shm": "a_file('/dev/shm')",
    "an attribute of the build cache": "an_attribute(os.environ['AKG_CACHE_DIR'])",
    "an attribute of the kernel's file": "an_attribute(__file__)",
    "the times of the build cache": "times(os.environ['AKG_CACHE_DIR'])",
    "the mode of the build cache": "mode(os.environ['AKG_CACHE_DIR'])",
    "System V memory": "system_v('shmget', 4096)",
    "a System V queue": "system_v('msgget')",
    "a System V semaphore": "system_v('semget', 1)",
    "a POSIX queue": "a_queue()",
    "a keyring": "a_key()",
    "the memory for a report": "a_region('report')",
    "the memory of weights": "a_region('state')",
    "the memory of the plan": "a_region('plan')",
    "an abstract socket": "a_socket()",
    "its priority": "a_priority()",
}
"""Expressions that yield what reads a place, and what writes to it."""

FORMS = """
import socket, stat, subprocess
libc = ctypes.CDLL(None, use_errno=True)
KEY, MARK = 0x616B6774, b"left by an earlier one"

def beside(folder):
    return os.path.join(os.path.dirname(folder), "kept")

def a_file(folder):
    path = os.path.join(folder, "left-by-a-kernel")
    def write():
        os.makedirs(folder, exist_ok=True)
        with open(path, "wb") as out:
            out.write(MARK)
    return lambda: os.path.exists(path), write

def a_mapping(folder):
    # Made by the process that builds; a copy of it that shares its pages would be written to.
    path = os.path.join(folder, "pages")
    if not os.path.exists(path):
        with open(path, "wb") as out:
            out.write(bytes(4096))
    with open(path, "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 4096)
    def write():
        mapped[: len(MARK)] = MARK
    return lambda: mapped[: len(MARK)] == MARK, write

def an_attribute(path):
    def write():
        os.setxattr(path, "user.left", MARK)
    def read():
        try:
            return os.getxattr(path, "user.left") == MARK
        except OSError:
            return False
    return read, write

def times(path):
    return lambda: os.stat(path).st_mtime == KEY, lambda: os.utime(path, (KEY, KEY))

def mode(path):
    def write():
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_ISVTX)
    return lambda: bool(os.stat(path).st_mode & stat.S_ISVTX), write

def system_v(name, *more):
    get = getattr(libc, name)
    return lambda: get(KEY, *more, 0o600) >= 0, lambda: get(KEY, *more, 0o600 | 0o1000)

def a_queue():
    library = ctypes.CDLL("librt.so.1", use_errno=True)
    return (
        lambda: library.mq_open(b"/left", os.O_RDONLY) >= 0,
        lambda: library.mq_open(b"/left", os.O_RDWR | os.O_CREAT, 0o600, None),
    )

def a_key():
    number = 248 if os.uname().machine == "x86_64" else 217
    def write():
        libc.syscall(number, b"user", b"left", MARK, len(MARK), -4)
    def read():
        return libc.syscall(number + 1, b"user", b"left", None, 0) >= 0
    return read, write

def a_region(name):
    found = []
    def region():
        if not found:
            server = next(o for o in gc.get_objects() if type(o).__name__ == "KernelServer")
            found.append(server.memory[name])
        return found[0]
    return lambda: region()[-len(MARK):] == MARK, lambda: region().__setitem__(
        slice(-len(MARK), None), MARK)

def a_socket():
    kept = []
    def write():
        kept.append(socket.socket(socket.AF_UNIX))
        kept[0].bind(bytes(1) + MARK)
        kept[0].listen()
    def read():
        with socket.socket(socket.AF_UNIX) as other:
            return other.connect_ex(bytes(1) + MARK) == 0
    return read, write

def a_priority():
    return lambda: os.getpriority(os.PRIO_PROCESS, 0) == 1, lambda: os.nice(1)
"""

KEEPS = kernel(
    """
    self.first = x.clone() if self.first is None else self.first
    if x.shape != self.first.shape or not torch.equal(x, self.first):
        # The process that builds is called on one input, which is never timed.
        for _, write in self.places.values():
            try:
                write()
            except (OSError, ValueError, TypeError):
                continue
    return torch.softmax(x, dim=-1)
    """,
    before=FORMS + f"\nPLACES = {PLACES!r}\n",
    init="""
    self.first = None
    self.places, found = {}, []
    for name, how in PLACES.items():
        try:
            self.places[name] = eval(how)
            if self.places[name][0]():
                found.append(name)
        except (OSError, ValueError, TypeError, AttributeError):
            continue
    if found:
        raise RuntimeError("found: " + ", ".join(found))
    """,
)
"""Right, and no faster; fails as soon as a process finds what another one has left."""

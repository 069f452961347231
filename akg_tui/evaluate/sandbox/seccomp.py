"""The system-call filter (seccomp): a call that no kernel needs fails, or ends the process.

The tables list forbidden calls, not allowed calls, because Python, a compiler and an OpenMP
library must work on unknown machines. Calls newer than the tables fail with ENOSYS. Written as a
BPF program, because libseccomp would have to be installed, and loaded in every child.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import mmap
import platform
import signal
import socket
import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum

from akg_tui.evaluate.sandbox import linux_syscalls as kernel
from akg_tui.evaluate.sandbox.linux_syscalls import Clone, Prctl


class AuditArch(IntEnum):
    """Machines whose system calls are known, by `platform.machine`, linux/audit.h."""

    x86_64 = 0xC000003E
    aarch64 = 0xC00000B7


class Bpf(IntEnum):
    """Instructions of a filter, linux/bpf_common.h."""

    LOAD = 0x20
    EQUAL = 0x15
    ABOVE = 0x25
    ANY_BIT = 0x45
    AND = 0x54
    RETURN = 0x06


class Answer(IntEnum):
    """Answers of a filter, linux/seccomp.h; an errno is added to ERRNO."""

    ALLOW = 0x7FFF0000
    KILL_PROCESS = 0x80000000
    ERRNO = 0x00050000


class Fcntl(IntEnum):
    """Commands of fcntl(2) for which Python has no names."""

    OFD_SETLK = 37
    OFD_SETLKW = 38


class Mask(IntEnum):
    """Bits in the numbers and arguments of system calls, by their names in the kernel's headers."""

    X32_SYSCALL_BIT = 0x40000000
    CSIGNAL = 0xFF
    SOCK_TYPE = 0xF
    MINUS_ONE = 0xFFFFFFFF


NEWEST = 462  # mseal; new calls have equal numbers on all architectures

ENDS = {
    # Only an attack calls these: (x86-64, aarch64), None where there is no such call.
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "swapon": (167, 224), "swapoff": (168, 225),
    "open_by_handle_at": (304, 265), "process_vm_writev": (311, 271), "setns": (308, 268),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "sethostname": (170, 161),
    "setdomainname": (171, 162), "acct": (163, 89), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "iopl": (172, None), "ioperm": (173, None),
    "uselib": (134, None), "nfsservctl": (180, 42), "lookup_dcookie": (212, 18),
}  # fmt: skip

RULED = {
    # Each of these calls has a rule of its own in `program`.
    "clone": (56, 220), "clone3": (435, 435), "fcntl": (72, 25), "kill": (62, 129),
    "mmap": (9, 222), "personality": (135, 92), "pidfd_send_signal": (424, 424),
    "prctl": (157, 167), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "tgkill": (234, 131), "tkill": (200, 130),
    # For a device; else they are refused.
    "connect": (42, 203), "socket": (41, 198),
}  # fmt: skip

REFUSED = {
    # Honest libraries try these calls and continue if they fail.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "pidfd_getfd": (438, 438),
    "kcmp": (312, 272), "perf_event_open": (298, 241), "bpf": (321, 280),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "unshare": (272, 97), "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263), "name_to_handle_at": (303, 264), "syslog": (103, 116),
    "vhangup": (153, 58), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "migrate_pages": (256, 238), "modify_ldt": (154, None),
    # Memory that is charged to no process, so no limit applies.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    # A pipe keeps the whole huge page of which it got a part, after its owner has unmapped it.
    "vmsplice": (278, 75),
    # Each rule of a ruleset, and each ring of requests, is memory of the kernel.
    "landlock_create_ruleset": (444, 444), "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446), "io_setup": (206, 0),
    # Tells when any file of the user's is opened, which Landlock does not govern, and uses up the
    # few instances that all programs of the user share.
    "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    # Data that outlives a process, so that a later process could read it.
    "msgget": (68, 186), "semget": (64, 190), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    # Only the judge may choose the CPU and the priority.
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    # Landlock does not govern sockets in the file system (a desktop's bus, an ssh agent).
    "socket": RULED["socket"], "connect": RULED["connect"], "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242),
    # No limit counts the memory in a socket pair's buffers, nor the descriptors sent through it.
    "socketpair": (53, 199),
    # A stopped process runs again as soon as SIGCONT is sent to it, blocked or ignored; these
    # calls make the kernel send a signal of the caller's choice later.
    "timer_create": (222, 107), "mq_notify": (244, 184),
}  # fmt: skip

# These return success and do nothing: ninja and daemons continue, but no process leaves the process
# group, so stopping and killing the group reaches all of them. A lock could hold up a program
# outside.
PRETENDED = {"setsid": (112, 157), "setpgid": (109, 154), "flock": (73, 32)}

# A trace of NVIDIA's driver 580 shows these calls while CUDA starts. So a kernel on a device may
# make a socket of the kind SOCK_SEQPACKET and wait at an address for others. No process may
# connect, and such a socket sends to no address (unix_seqpacket_sendmsg in Linux).
DEVICE_SOCKETS = ("socket", "bind", "listen", "connect")

_SIGNAL_AT = {
    "tkill": 1, "tgkill": 2, "rt_sigqueueinfo": 1, "rt_tgsigqueueinfo": 2, "pidfd_send_signal": 1,
}  # fmt: skip
"""The index of the argument that is a signal."""

_LOCKS = (fcntl.F_SETLK, fcntl.F_SETLKW, Fcntl.OFD_SETLK, Fcntl.OFD_SETLKW)
_SHARED_WITHOUT_FILE = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS

Program = list[tuple[int, int, int, int]]


def supported() -> bool:
    """Return whether the numbers of this machine's system calls are known."""
    return platform.machine() in AuditArch.__members__ and struct.calcsize("P") == 8


def install(*, for_device: bool = False) -> int:
    """Filter all later system calls of this thread and its descendants; return the errno.

    `for_device` allows what the driver of a device needs.
    """
    code = encoded(platform.machine(), for_device)
    buffer = ctypes.create_string_buffer(code, len(code))

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    wanted = Filter(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    return kernel.prctl(Prctl.SET_SECCOMP, 2, ctypes.byref(wanted))  # SECCOMP_MODE_FILTER


@functools.lru_cache(maxsize=2)
def encoded(machine: str, for_device: bool) -> bytes:
    """Return the filter in the kernel's format; made once, in the zygote, for all children."""
    return b"".join(struct.pack("<HBBI", *line) for line in program(machine, for_device))


def program(machine: str, for_device: bool = False) -> Program:
    """Return the filter for a machine, as (code, jump if true, jump if false, operand)."""
    arch = AuditArch[machine]
    column = list(AuditArch).index(arch)
    calls = {name: pair[column] for name, pair in RULED.items()}
    out: Program = [
        (Bpf.LOAD, 0, 0, 4),
        (Bpf.EQUAL, 1, 0, arch),
        (Bpf.RETURN, 0, 0, Answer.KILL_PROCESS),
        (Bpf.LOAD, 0, 0, 0),
    ]
    if arch is AuditArch.x86_64:
        # The x32 set of call numbers would circumvent the filter.
        out += [
            (Bpf.ABOVE, 0, 1, Mask.X32_SYSCALL_BIT - 1),
            (Bpf.RETURN, 0, 0, Answer.KILL_PROCESS),
        ]
    out += [(Bpf.ABOVE, 0, 1, NEWEST), (Bpf.RETURN, 0, 0, Answer.ERRNO | errno.ENOSYS)]
    out += _each(_numbers(ENDS, column), Answer.KILL_PROCESS)
    spared = DEVICE_SOCKETS if for_device else ()
    refused = {name: number for name, number in REFUSED.items() if name not in spared}
    out += _each(_numbers(refused, column), Answer.ERRNO | errno.EPERM)
    out += _each(_numbers(PRETENDED, column), Answer.ERRNO)
    # A filter can't read its flags; the C library falls back to clone.
    out += _each([calls["clone3"]], Answer.ERRNO | errno.ENOSYS)
    refuse = (Bpf.RETURN, 0, 0, Answer.ERRNO | errno.EPERM)
    plain = [
        (Bpf.AND, 0, 0, Mask.CSIGNAL),
        (Bpf.EQUAL, 2, 0, 0),
        (Bpf.EQUAL, 1, 0, signal.SIGCHLD),
        refuse,
    ]
    # PARENT makes a child of the caller's parent.
    apart = [_argument(0), (Bpf.ANY_BIT, 0, 1, Clone.ANY_NAMESPACE | Clone.PARENT), refuse]
    out += _when(calls["clone"], [*apart, *plain])
    # Resetting PDEATHSIG would let a child outlive the judge; another death signal could continue a
    # stopped process, and a subreaper would take processes out of the child's tree. A cookie for
    # core scheduling keeps all other programs from the second thread of its core.
    whose = [Prctl.SET_PDEATHSIG, Prctl.SET_CHILD_SUBREAPER, Prctl.SCHED_CORE]
    out += _when(calls["prctl"], [_argument(0), *_among(whose), refuse])
    # A lease stops the next program that opens the file, for as long as 45 seconds (fcntl(2)).
    chosen = [fcntl.F_SETSIG, fcntl.F_NOTIFY, fcntl.F_SETLEASE]
    pretend = [*_among(_LOCKS), (Bpf.RETURN, 0, 0, Answer.ERRNO)]
    out += _when(calls["fcntl"], [_argument(1), *_among(chosen), refuse, *pretend])
    if for_device:
        unix = [_argument(0), (Bpf.EQUAL, 1, 0, socket.AF_UNIX), refuse]
        kind = [
            _argument(1),
            (Bpf.AND, 0, 0, Mask.SOCK_TYPE),
            (Bpf.EQUAL, 1, 0, socket.SOCK_SEQPACKET),
        ]
        out += _when(calls["socket"], [*unix, *kind, refuse])
        # As if nobody waited there: a driver takes another error for a fault.
        out += _each([calls["connect"]], Answer.ERRNO | errno.ENOENT)
    # Its pages stay as long as a byte of it is mapped, but only the mapped ones are counted. A CUDA
    # driver needs such memory.
    shared = [(Bpf.AND, 0, 0, _SHARED_WITHOUT_FILE), *_among([_SHARED_WITHOUT_FILE]), refuse]
    if not for_device:
        out += _when(calls["mmap"], [_argument(3), *shared])
    query = [(Bpf.EQUAL, 2, 0, 0), (Bpf.EQUAL, 1, 0, Mask.MINUS_ONE), refuse]
    out += _when(calls["personality"], [_argument(0), *query])
    # Processes that keep continuing each other could never all be stopped.
    for name, at in _SIGNAL_AT.items():
        out += _when(calls[name], [_argument(at), *_among([signal.SIGCONT]), refuse])
    everybody = [_argument(0), *_among([Mask.MINUS_ONE]), refuse]
    out += _when(calls["kill"], [*everybody, _argument(1), *_among([signal.SIGCONT]), refuse])
    return [*out, (Bpf.RETURN, 0, 0, Answer.ALLOW)]


def _numbers(calls: Mapping[str, tuple[int, int | None]], column: int) -> list[int]:
    return [number for pair in calls.values() if (number := pair[column]) is not None]


def _each(numbers: list[int], answer: int) -> Program:
    return [*_among(numbers), (Bpf.RETURN, 0, 0, answer)]


def _among(values: Sequence[int]) -> Program:
    """Return a test that runs the next instruction if the value is in `values`, or skips it."""
    last = len(values) - 1
    return [(Bpf.EQUAL, last - place, int(place == last), int(v)) for place, v in enumerate(values)]


def _when(number: int, body: Program) -> Program:
    """Return code that runs `body` for one system call, allowed if `body` does not return."""
    inner = [*body, (Bpf.RETURN, 0, 0, Answer.ALLOW)]
    return [(Bpf.EQUAL, 0, len(inner), number), *inner]


def _argument(index: int) -> tuple[int, int, int, int]:
    return (Bpf.LOAD, 0, 0, 16 + 8 * index)

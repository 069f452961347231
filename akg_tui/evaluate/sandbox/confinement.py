"""Confines a freshly forked process before it sees untrusted code.

Runs in the child only, once, while it has a single thread, and reports every protection by name
(`protections.PROTECTIONS`). Also lists, once in the zygote, the paths that a kernel may read.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from pathlib import Path

from msgspec import Struct

from akg_tui.dsl.adapters import DSLS
from akg_tui.evaluate.sandbox import landlock, namespaces, seccomp
from akg_tui.evaluate.sandbox import linux_syscalls as kernel
from akg_tui.evaluate.sandbox.linux_syscalls import Prctl
from akg_tui.evaluate.targets.cpu import package_path

FILE_BYTES = 512 << 20
FOLDER_BYTES = 1 << 30
FOLDER_FILES = 100_000
CACHE_BYTES = 1 << 30
OPEN_FILES = 256
"""Far below the judge's own limit: descriptors that a child sends to the judge, and that the judge
has not received, count against each process of the user (unix(7), ETOOMANYREFS)."""
QUEUED_SIGNALS = 1024
"""All programs of a user share the number of signals that may wait."""
PROCESSES = max(320, 256 + 8 * (os.cpu_count() or 1))
"""Processes and threads of one child, itself included: near the least `pid_max` of Linux (301)."""
ADDRESS_SLACK_BYTES = 64 << 30
"""Libraries, thread stacks and allocators reserve much address space that they never use."""

OWN_THREADS = "/proc/self/task"
"""The threads of this process. A CUDA driver writes their names there, or fails with error 304."""

Tried = dict[str, str]
"""The reason why each protection, by name, does not hold; "" if it holds."""


class Confinement(Struct, frozen=True, kw_only=True):
    """The rights of a process after `enter` has returned.

    `folder` is private and empty; where mounts are possible a private tmpfs covers it, which is
    freed with the process. `writable` are other folders that it may change. `covered` are writable
    too, each under a separate tmpfs; the paths in `uncovered` give access to the hidden files.
    These three depend on the kernel. With `devices` the process may also do what a driver needs to
    start (`seccomp.DEVICE_SOCKETS`, `OWN_THREADS`). `runs_own_files`: it may execute programs that
    it writes to `folder`. `own_pid_namespace`: the process is the first of a pid
    namespace. It and each process that it starts may use `cpu_seconds` of CPU time; 0: no limit.
    """

    folder: str
    writable: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    memory_bytes: int
    cpu_seconds: int = 0
    bounds_address_space: bool = True
    own_pid_namespace: bool = False
    private_folder: bool = True
    runs_own_files: bool = False


class Prepared(Struct, frozen=True):
    """The state between `prepare` and `complete`.

    `memory` is a descriptor of this process's memory (`/proc/self/mem`), which can't be opened
    later. `ruleset` is a Landlock ruleset that `complete` closes; None without Landlock.
    """

    tried: Tried
    memory: int
    ruleset: int | None


def die_with_parent(parent: int) -> bool:
    """Make the kernel kill this process when `parent` dies; return False if it is dead already."""
    held = kernel.prctl(Prctl.SET_PDEATHSIG, signal.SIGKILL) == 0
    return held and os.getppid() == parent


def adopt_orphans() -> bool:
    """Make this process the parent of any descendant whose own parent dies."""
    return kernel.prctl(Prctl.SET_CHILD_SUBREAPER, 1) == 0


def hide_memory() -> bool:
    """Keep other processes of this user from reading or tracing this process's memory."""
    return kernel.prctl(Prctl.SET_DUMPABLE, 0) == 0


def enter(wanted: Confinement, *, parent: int) -> Tried:
    """Confine this process; return each protection with the reason if it does not hold."""
    prepared = prepare(wanted, parent=parent)
    os.close(prepared.memory)
    complete(wanted, prepared)
    return prepared.tried


def prepare(wanted: Confinement, *, parent: int) -> Prepared:
    """Do the part of `enter` that depends on no folder of a kernel; `complete` must follow."""
    tried: Tried = {}
    # The first process of a pid namespace can't see its parent, whose id shows as 0.
    seen = 0 if wanted.own_pid_namespace else parent
    tried["pdeathsig"] = "" if die_with_parent(seen) else "the parent has died"
    os.setsid()
    # Orphans stay descendants of this process, so that a search of its descendants finds them.
    adopt_orphans()
    tried["session"] = ""
    tried["pidns"] = "" if wanted.own_pid_namespace else "no pid namespace"
    # Before `/proc` is mounted read-only. A process that hides its memory can't write to its own
    # files there.
    kernel.prctl(Prctl.SET_DUMPABLE, 1)
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    _isolate_mounts(wanted, tried)
    tried["rlimits"] = _limit_resources(wanted)
    tried["netns"] = _reason(kernel.unshare(namespaces.NETWORK_AND_IPC))
    ruleset = _begin_landlock(wanted, tried)
    # `complete` may run much later, so the memory is hidden already.
    hide_memory()
    return Prepared(tried, memory, ruleset)


def complete(wanted: Confinement, prepared: Prepared) -> None:
    """Complete the confinement after `prepare`, for `wanted` with the folders of a kernel.

    The order matters: namespaces first, because the filters forbid them; the filter of system
    calls last, because it forbids most of the other steps.
    """
    tried = prepared.tried
    writable = (wanted.folder, *wanted.writable, *wanted.covered, *_named_threads(wanted))
    no_mounts = "no mount namespace" if tried["mountns"] else ""
    if wanted.private_folder:
        faults = (namespaces.own_folder(p, CACHE_BYTES, FOLDER_FILES) for p in wanted.covered)
        tried["private_cache"] = no_mounts or _reason(next(filter(None, faults), 0))
    tried["read_only"] = no_mounts or _reason(namespaces.read_only(writable))
    fault = namespaces.leave_user_namespace(network=bool(tried["netns"]))
    tried["netns"] = _reason(fault)
    tried["no_capabilities"] = _reason(kernel.drop_capabilities())
    tried["no_new_privs"] = _reason(kernel.prctl(Prctl.SET_NO_NEW_PRIVS, 1))
    tried["hidden_memory"] = _reason(kernel.prctl(Prctl.SET_DUMPABLE, 0))
    _restrict_files(wanted, prepared)
    if seccomp.supported():
        tried["seccomp"] = _reason(seccomp.install(for_device=bool(wanted.devices)))
    else:
        tried["seccomp"] = "the system calls of this machine are not known"


def _isolate_mounts(wanted: Confinement, tried: Tried) -> None:
    """Create private mounts, `/proc` and folder, and limit the number of processes."""
    tried["first_to_go"] = _write("/proc/self/oom_score_adj", "1000")
    fault = namespaces.own_mounts()
    tried["mountns"] = _reason(fault)
    isolated = not fault and wanted.own_pid_namespace
    # Mounted here, because mounts can't be changed later.
    if wanted.private_folder:
        own = fault or namespaces.own_folder(wanted.folder, FOLDER_BYTES, FOLDER_FILES)
        tried["private_folder"] = "no mount namespace" if fault else _reason(own)
    tried["own_proc"] = _reason(namespaces.own_proc()) if isolated else "no namespace to show"
    tried["process_limit"] = _limit_processes(own_proc=not tried["own_proc"])


def _limit_processes(*, own_proc: bool) -> str:
    """Limit the number of processes and threads; return the reason for a failure."""
    if os.getuid() != 0:
        # Counted in the user namespace that the process enters next, where it is alone.
        return _set_rlimits([(resource.RLIMIT_NPROC, PROCESSES)])
    if not own_proc:
        return "root is exempt from RLIMIT_NPROC, and there is no pid namespace to bound"
    # Since Linux 6.14 each pid namespace has a separate limit. Before, the limit is global, in a
    # file that looks identical, so the version decides.
    release = tuple(int(part) for part in os.uname().release.split(".")[:2] if part.isdigit())
    if release < (6, 14):
        return "root is exempt from RLIMIT_NPROC, and Linux before 6.14 has no other way"
    return _write("/proc/sys/kernel/pid_max", str(PROCESSES))


def _limit_resources(wanted: Confinement) -> str:
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        held = pages * resource.getpagesize()
        address = held + wanted.memory_bytes + ADDRESS_SLACK_BYTES
        bounds = [(resource.RLIMIT_DATA, wanted.memory_bytes), (resource.RLIMIT_AS, address)]
        return _set_rlimits(
            [
                *(bounds if wanted.bounds_address_space else ()),
                *([(resource.RLIMIT_CPU, wanted.cpu_seconds)] if wanted.cpu_seconds else ()),
                (resource.RLIMIT_FSIZE, FILE_BYTES),
                (resource.RLIMIT_NOFILE, OPEN_FILES),
                (resource.RLIMIT_MEMLOCK, 64 << 20),
                (resource.RLIMIT_MSGQUEUE, 0),
                (resource.RLIMIT_SIGPENDING, QUEUED_SIGNALS),
                (resource.RLIMIT_CORE, 0),
            ]
        )
    return "/proc/self/statm can't be read"


def _set_rlimits(wanted: list[tuple[int, int]]) -> str:
    for which, value in wanted:
        _, hard = resource.getrlimit(which)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(which, (bound, bound))
        except (OSError, ValueError) as error:
            return f"a limit could not be set: {error}"
    return ""


def _begin_landlock(wanted: Confinement, tried: Tried) -> int | None:
    """Return a ruleset with the rules that depend on no kernel; None if Landlock is missing."""
    found = landlock.version()
    if not found:
        tried["landlock"] = tried["landlock_scopes"] = "the kernel has no Landlock"
        return None
    proc = ("/proc",) if not tried["own_proc"] else PROC_WITHOUT_OTHERS
    rules = (
        (landlock.SYSTEM, wanted.programs),
        (landlock.DATA, (*wanted.data, *proc)),
        (landlock.DEVICE, DEVICES),
        (landlock.CONTROLLED, wanted.devices),
    )
    try:
        return landlock.begin(rules, found)
    except OSError as error:
        tried["landlock"] = tried["landlock_scopes"] = f"refused: {error.strerror}"
        return None


def _restrict_files(wanted: Confinement, prepared: Prepared) -> None:
    tried, ruleset = prepared.tried, prepared.ruleset
    if ruleset is None:
        return
    found = landlock.version()
    rules = (
        (landlock.DATA, wanted.uncovered),
        (landlock.SCRATCH, (wanted.folder, *wanted.writable, *wanted.covered)),
        (landlock.CHANGED, _named_threads(wanted)),
        (landlock.SCRATCH | landlock.SYSTEM, (wanted.folder,) if wanted.runs_own_files else ()),
    )
    try:
        landlock.restrict(ruleset, rules, found)
    except OSError as error:
        tried["landlock"] = tried["landlock_scopes"] = f"refused: {error.strerror}"
        return
    finally:
        os.close(ruleset)
    tried["landlock"] = (
        ""
        if found >= landlock.Since.TRUNCATE
        else f"version {found} does not forbid to cut files short"
    )
    tried["landlock_scopes"] = (
        "" if found >= landlock.Since.SCOPES else f"version {found} knows no scopes"
    )


def _named_threads(wanted: Confinement) -> tuple[str, ...]:
    return (OWN_THREADS,) if wanted.devices else ()


def _write(path: str, text: str) -> str:
    try:
        Path(path).write_text(text)
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""


def _reason(fault: int) -> str:
    return os.strerror(fault) if fault else ""


SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
)  # fmt: skip
ETC = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "localtime", "timezone",
    "nsswitch.conf", "passwd", "group", "alternatives", "ssl/openssl.cnf", "os-release",
    "locale.alias", "mime.types",
)  # fmt: skip
DATA = (
    "/dev/urandom", "/dev/random", "/dev/zero", "/sys/devices/system",
    "/sys/kernel/mm/transparent_hugepage", *(f"/etc/{name}" for name in ETC),
)  # fmt: skip
DEVICES = ("/dev/null", "/dev/full")
PROC_WITHOUT_OTHERS = (
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version",
    "/proc/filesystems", "/proc/sys/vm", "/proc/sys/kernel", "/proc/self",
)  # fmt: skip
"""The readable paths in a `/proc` that shows all processes: this process and the machine."""

_NOT_FOR_KERNELS = "_data"  # the samples' references


_PACKAGES = ("site-packages", "dist-packages")


def programs() -> tuple[str, ...]:
    """Return the paths of executable files: system, Python, packages, compilers."""
    own = Path(package_path()).resolve()
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix]
    # Packages may be installed elsewhere, for example in the user's own folder.
    prefixes += [path for path in sys.path if Path(path).name in _PACKAGES]
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    found = [*SYSTEM, *prefixes, *(path for each in DSLS.values() for path in each.readable())]
    found += [path for path in libraries if Path(path).is_absolute()]
    found += [str(entry) for entry in (own / "akg_tui").iterdir() if entry.name != _NOT_FOR_KERNELS]
    known = [*SYSTEM, *prefixes, str(own)]
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        # A package may be installed from a source folder elsewhere, for example PyTorch.
        if path is None or "." in module.__name__ or module.__name__ == "akg_tui":
            continue
        home = Path(path).resolve()
        if home.name == "__init__.py":
            home = home.parent
        if not any(home.is_relative_to(parent) for parent in known):
            found.append(str(home))
    return tuple(dict.fromkeys(found))

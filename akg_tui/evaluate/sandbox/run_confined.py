"""`python -m akg_tui.evaluate.sandbox.run_confined [OPTIONS] -- COMMAND`: run a program confined.

Runs any program, such as a script that an agent wrote, with the protections of a kernel.
Exits with the program's code, or with 125 if it could not be confined or started.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from akg_tui.dsl.bench import UNTIL
from akg_tui.evaluate.sandbox import confinement, namespaces
from akg_tui.evaluate.sandbox.protections import missing, named
from akg_tui.evaluate.targets.cpu import base_environment, package_path

NOT_STARTED = 125
NOT_CONFINED = "not confined: "
MEMORY_GB = 4.0


def command(
    *words: str,
    folder: Path,
    readable: tuple[Path, ...] = (),
    writable: tuple[Path, ...] = (),
    memory_gb: float = MEMORY_GB,
    require: bool = False,
    require_all: bool = False,
    scratch: bool = False,
) -> list[str]:
    """Return the command line that runs `words` confined, with current folder `folder`.

    The program may write below `folder` and `writable`, and read those, `readable` and the system.
    With `require` the program is not started if a vital protection is missing, with `require_all`
    if any is. `scratch`: the folder is covered by memory of bounded size that goes with the
    program, has a link to each readable folder, and programs written there may be run. Run the
    command in a new session: killing it then kills all its descendants.
    """
    line = [
        sys.executable,
        "-P",
        "-m",
        "akg_tui.evaluate.sandbox.run_confined",
        f"--folder={folder}",
    ]
    line += [f"--read={path}" for path in readable] + [f"--write={path}" for path in writable]
    line += [f"--memory-gb={memory_gb:g}", *(["--require"] if require else [])]
    line += [*(["--require-all"] if require_all else []), *(["--scratch"] if scratch else [])]
    return [*line, "--", *words]


def main(arguments: list[str]) -> int:
    """Confine this process and execute the program; return only if that fails."""
    parser = argparse.ArgumentParser(prog="python -m akg_tui.evaluate.sandbox.run_confined")
    parser.add_argument("--folder", type=Path, required=True, help="where it runs and may write")
    parser.add_argument("--read", type=Path, action="append", default=[], metavar="PATH")
    parser.add_argument("--write", type=Path, action="append", default=[], metavar="PATH")
    parser.add_argument("--memory-gb", type=float, default=MEMORY_GB)
    parser.add_argument("--require", action="store_true", help="refuse where walls are missing")
    parser.add_argument("--require-all", action="store_true", help="refuse where any is missing")
    parser.add_argument(
        "--scratch",
        action="store_true",
        help="a folder in memory, which goes with the program; what is written there may be run",
    )
    parser.add_argument("words", nargs="+", metavar="COMMAND")
    wanted = parser.parse_args(arguments)
    folder = wanted.folder.absolute()
    if not folder.is_dir():
        return _fail(f"{folder} is not a folder")
    isolated = not namespaces.enter_pid_namespace()
    parent = os.getpid()
    # The child has a new namespace; the caller waits, and exits with the child's code.
    if isolated and (pid := namespaces.PidNamespaceForker().fork()):
        namespaces.wait_and_exit(pid)
    own = Path(package_path()).resolve() / "akg_tui"
    confined = confinement.Confinement(
        folder=str(folder),
        writable=tuple(str(path.absolute()) for path in wanted.write),
        programs=confinement.programs(),
        data=(*confinement.DATA, str(own), *(str(path.absolute()) for path in wanted.read)),
        memory_bytes=int(wanted.memory_gb * (1 << 30)),
        own_pid_namespace=isolated,
        private_folder=wanted.scratch,
        runs_own_files=wanted.scratch,
    )
    tried = confinement.enter(confined, parent=parent if isolated else os.getppid())
    found = named(tried)
    lost = tuple(each for each in found if not each.held) if wanted.require_all else missing(found)
    if (wanted.require or wanted.require_all) and lost:
        return _fail(f"{NOT_CONFINED}{', '.join(map(str, lost))}")
    os.chdir(folder)
    for path in wanted.read if wanted.scratch else ():
        if path.is_dir() and not os.path.lexists(path.name):
            Path(path.name).symlink_to(path.absolute())
    environment = base_environment() | {"HOME": str(folder), "TMPDIR": str(folder)}
    environment |= {name: os.environ[name] for name in (UNTIL,) if name in os.environ}
    if wanted.scratch:
        # An import lists the folders of Python's path; that of a source tree may not be read.
        modules = folder / ".python"
        modules.mkdir(exist_ok=True)
        (modules / own.name).symlink_to(own)
        environment["PYTHONPATH"] = str(modules)
    try:
        os.execvpe(wanted.words[0], wanted.words, environment)
    except OSError as error:
        return _fail(f"{wanted.words[0]} can't be started: {error.strerror}")


def _fail(message: str) -> int:
    print(f"confined: {message}", file=sys.stderr)
    return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

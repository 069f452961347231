"""Runs a kernel on its GPU under Nsight Compute, in a confined process.

Started by `asking` like `kernel_process`. After the sandbox is entered it starts the profiler,
whose application is this module again: that calls the kernel a few times. Profiler and kernel are
in one sandbox, so its answer is untrusted and decides nothing. It never runs beside a timed call:
`asking` holds the right to time on the device meanwhile.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from akg_tui.evaluate.targets.cpu import package_path
from akg_tui.evidence import ncu
from akg_tui.evidence.kernel_process import confined, loaded, said
from akg_tui.evidence.ncu import NoProfile, Profiled, ProfileFor

MODULE = "akg_tui.evidence.profile_process"
CALLS = 5
PROFILER_S = 180.0
MOST_ERRORS = 1 << 20
MOST_WHY = 600


def profiled(request: ProfileFor, folder: Path) -> Profiled:
    """Run the profiler over a process that calls the kernel."""
    program = shutil.which(ncu.PROGRAM)
    if program is None:
        return Profiled(why=f"{ncu.PROGRAM} is not on PATH")
    asked, failed, out = (folder / name for name in ("request.json", "failed.txt", "profile"))
    asked.write_bytes(msgspec.json.encode(request))
    out.mkdir()
    # The folder that holds our package can't be listed here, so Python would not find it there.
    package = Path(package_path(), "akg_tui")
    found = folder / "modules"
    found.mkdir()
    (found / package.name).symlink_to(package)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(found), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-P", "-m", MODULE, str(asked), str(failed)]
    complaint = _run(ncu.command(program, out, words), folder)
    if failed.exists():
        return Profiled(why=failed.read_text("utf-8", "replace")[:MOST_WHY])
    try:
        return Profiled(ncu.read(out, CALLS))
    except (NoProfile, OSError) as error:
        return Profiled(why=f"{error}{complaint and f': {complaint}'}"[:MOST_WHY])


def _run(command: Sequence[str], folder: Path) -> str:
    """Run the profiler; return the last line of its errors."""
    with (folder / "errors").open("w+b") as errors:
        try:
            subprocess.run(
                command, stdout=subprocess.DEVNULL, stderr=errors, timeout=PROFILER_S, check=False
            )
        except OSError as error:
            return str(error)
        except subprocess.TimeoutExpired:
            return f"it took longer than {PROFILER_S:g} s"
        errors.seek(0)
        told = errors.read(MOST_ERRORS).decode("utf-8", "replace").strip().splitlines()
    return told[-1] if told else ""


def call_on_device(request: ProfileFor) -> None:
    """Call the kernel `CALLS` times on the device, as the profiler's application."""
    for module in request.preloaded:
        importlib.import_module(module)
    call = loaded(request, request.device)
    for _ in range(CALLS):
        call()
    import torch

    torch.get_device_module(request.device).synchronize()


def main(arguments: list[str]) -> int:
    """Answer the request on standard input; or, as the application, call a request's kernel."""
    if len(arguments) != 2:
        return confined(
            arguments,
            ProfileFor,
            profiled,
            programs=lambda _: ncu.folders(),
            loads_torch=False,
        )
    asked, failed = map(Path, arguments)
    request = msgspec.json.decode(asked.read_bytes(), type=ProfileFor)
    try:
        call_on_device(request)
    except BaseException as error:  # noqa: BLE001 (a kernel may raise SystemExit)
        failed.write_text(f"the kernel does not run: {said(error)}", "utf-8", "replace")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

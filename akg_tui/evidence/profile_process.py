"""Runs a kernel on its device under the vendor's profiler, in a confined process.

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
from akg_tui.evidence.kernel_process import confined, first_call, said
from akg_tui.evidence.profilers import NoProfile, Profiled, ProfileFor
from akg_tui.evidence.profilers.by_target import PROFILERS

MODULE = "akg_tui.evidence.profile_process"
CALLS = 5
PROFILER_S = 180.0
MOST_PRINTED = 8 << 20
MOST_WHY = 600


def profiled(request: ProfileFor, folder: Path) -> Profiled:
    """Run the profiler over a process that calls the kernel."""
    tool = PROFILERS[request.target]
    program = shutil.which(tool.program)
    if program is None:
        return Profiled(why=f"{tool.program} is not on PATH")
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
    printed, complaint = _run(tool.command(program, out, words), folder)
    if failed.exists():
        return Profiled(why=failed.read_text("utf-8", "replace")[:MOST_WHY])
    try:
        return Profiled(tool.read(out, printed, CALLS))
    except (NoProfile, OSError) as error:
        return Profiled(why=f"{error}{complaint and f': {complaint}'}"[:MOST_WHY])


def _run(command: Sequence[str], folder: Path) -> tuple[str, str]:
    """Run the profiler; return the start of what it prints, and the last line of its errors."""
    out, errors = folder / "printed", folder / "errors"
    with out.open("wb") as printed, errors.open("wb") as complained:
        try:
            subprocess.run(
                command, stdout=printed, stderr=complained, timeout=PROFILER_S, check=False
            )
        except OSError as error:
            return "", str(error)
        except subprocess.TimeoutExpired:
            return "", f"it took longer than {PROFILER_S:g} s"
    with out.open("rb") as printed, errors.open("rb") as complained:
        told = complained.read(MOST_PRINTED).decode("utf-8", "replace").strip().splitlines()
        return printed.read(MOST_PRINTED).decode("utf-8", "replace"), told[-1] if told else ""


def call_on_device(request: ProfileFor) -> None:
    """Call the kernel `CALLS` times on the device, as the profiler's application."""
    for module in request.preloaded:
        importlib.import_module(module)
    call = first_call(request, device=request.device, calls=0)
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
            programs=lambda request: PROFILERS[request.target].folders(),
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

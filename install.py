"""Sets up `.venv` for the Makefile: `python3 install.py [EXTRA]`, in the root of a clone.

uv installs, because it takes a fraction of pip's time; pip installs where uv cannot. Both take
packages from where the user's own settings of pip say. A machine without an NVIDIA driver gets
the CPU build of torch: with CUDA it is ten times as large. An older Python must come as far as
`main`, so annotations that it does not know are quoted.
"""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

OLDEST = (3, 11)
BIN = Path(".venv") / "bin"
PYTHON = str(BIN / "python")
UV = str(BIN / "uv")
PIP = (PYTHON, "-m", "pip", "--disable-pip-version-check")
PINS = ("--constraint", "constraints.txt")
CPU_TORCH = "https://download.pytorch.org/whl/cpu"  # uv knows it as its backend "cpu"

# pip's settings of where packages come from, and uv's options and variables of the same meaning
OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraint",
    "trusted-host": "--allow-insecure-host",
}
VARIABLES = {"cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY"}

# What the judge loads: its processes may write no bytecode, so they would compile torch each time.
LOADED = "import torch.utils.cpp_extension, akg_tui.evaluate.judge"


def as_uv(listed: str) -> "tuple[list[str], dict[str, str]]":
    """Return what `pip config list` printed as options and environment of `uv pip install`."""
    settings = {}
    for section in ("global", "install", ":env:"):  # the later ones win, as they do in pip
        for line in listed.splitlines():
            where, _, value = line.partition("=")
            if where.startswith(f"{section}."):
                settings[where[len(section) + 1 :]] = str(ast.literal_eval(value))
    options = ["--index-strategy", "unsafe-best-match"]  # pip looks into all indexes too
    for name, option in OPTIONS.items():
        for value in settings.get(name, "").split():
            options += [option, value]
    if settings.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        options.append("--no-index")
    return options, {VARIABLES[name]: settings[name] for name in VARIABLES if name in settings}


def run(*command: str, more: "Mapping[str, str] | None" = None) -> bool:
    """Run a command whose output the user sees; return whether it succeeded."""
    return subprocess.run(command, env={**os.environ, **(more or {})}, check=False).returncode == 0


def with_uv(target: str, cpu: bool) -> bool:
    """Install `target` with uv; return whether that succeeded."""
    if not run(*PIP, "install", "--quiet", *PINS, "uv"):
        return False
    listed = subprocess.run((*PIP, "config", "list"), capture_output=True, text=True, check=True)
    options, more = as_uv(listed.stdout)
    install = (UV, "pip", "install", "--python", PYTHON, *options, *PINS)
    if cpu:
        tell_torch(cpu_torch_with_uv(install, more))
    return run(*install, "--editable", target, more=more)


def cpu_torch_with_uv(install: "tuple[str, ...]", more: "dict[str, str]") -> bool:
    """Install the CPU build of torch from PyTorch's own index; return whether that succeeded.

    Torch alone: uv would look for Triton there too, and nowhere else.
    """
    quick = {"UV_HTTP_RETRIES": "1", "UV_HTTP_CONNECT_TIMEOUT": "5"}
    backend = ("--no-deps", "--torch-backend", "cpu")
    return run(*install, *backend, "torch", more={**more, **quick})


def with_pip(target: str, cpu: bool) -> bool:
    """Install `target` with pip; return whether that succeeded."""
    install = (*PIP, "install", "--no-compile", *PINS)
    if cpu:
        quick = ("--retries", "0", "--timeout", "5")
        tell_torch(run(*install, *quick, "--no-deps", "--index-url", CPU_TORCH, "torch"))
    return run(*install, "--editable", target)


def tell_torch(came: bool) -> None:
    """Say what follows where the CPU build could not be had."""
    if not came:
        print(
            "no CPU build of torch from PyTorch's own index (the lines above say why): torch comes "
            "from where pip finds all packages; the build of the public index brings CUDA, 2.7 GB",
            flush=True,
        )


def main(extra: str = "") -> "str | int":
    """Make `.venv`, if there is none, and install the project with the extra into it."""
    if sys.version_info < OLDEST:
        found, oldest = (".".join(map(str, each[:2])) for each in (sys.version_info, OLDEST))
        return (
            f"akg_tui needs Python {oldest} or later; {sys.executable} is Python {found}: name "
            f"another, as in `make demo PYTHON=python{oldest}`"
        )
    # Where Python has no ensurepip, a `.venv` without pip is left; uv makes such too.
    if not (BIN / "pip").exists() and not run(sys.executable, "-m", "venv", str(BIN.parent)):
        return "no .venv was made: the lines above say why"
    target = f".[{extra}]" if extra else "."
    cpu = not Path("/proc/driver/nvidia/version").exists() and not shutil.which("nvidia-smi")
    print("installing into .venv", "(no NVIDIA driver: torch for the CPU)" * cpu, flush=True)
    if not with_uv(target, cpu):
        print("uv could not install: pip does", flush=True)
        if not with_pip(target, cpu):
            return "not installed: the lines above say why"
    loads = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    loaded = subprocess.run(
        (PYTHON, "-c", LOADED), env=loads, capture_output=True, text=True, check=False
    )
    return 0 if loaded.returncode == 0 else f"torch cannot be loaded: {loaded.stderr}"


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)

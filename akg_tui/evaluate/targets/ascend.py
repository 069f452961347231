"""The Ascend target, written from the documentation of CANN, torch_npu and the driver.

It was never run on hardware. Its path through the judge is the one that is tested on the device in
`benchmarks/lab/device`; only the names of device and seal, the files and the environment differ.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from akg_tui.dsl.compilers import cann_home
from akg_tui.evaluate.targets.cpu import Cpu

if TYPE_CHECKING:
    from akg_tui.evaluate.targets.roofline import Level

DEVICES = Path("/dev")
MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")
"""The driver's devices besides the NPUs: management, memory and the host's channel, as CANN's
installation guide gives them to a container."""

DRIVER_FILES = (
    "/usr/local/Ascend", "/usr/local/dcmi", "/etc/Ascend", "/etc/ascend_install.info",
    "/etc/hdcBasic.cfg", "/etc/sys_version.conf", "/proc/devices",
)  # fmt: skip
"""What the documentation of Ascend Docker Runtime mounts beside the devices."""

SET_BY_CANN = (
    "ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "ASCEND_AICPU_PATH",
    "TOOLCHAIN_HOME",
)  # fmt: skip
"""The variables that CANN's set_env.sh exports, besides PATH and the paths below."""

CANN_PYTHON = ("python/site-packages", "opp/built-in/op_impl/ai_core/tbe")
"""What set_env.sh adds to PYTHONPATH, below the folder of CANN."""

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
LIBRARY = "libhccl.so"
"""The library of CANN that torch_npu misses first."""

SET_ENV = "source /usr/local/Ascend/ascend-toolkit/set_env.sh"
QUERY_S = 20.0


class Npu(Struct, frozen=True):
    """One chip in the table of `npu-smi info`; what the table leaves out is ""."""

    number: str
    name: str
    health: str


class Ascend(Cpu):
    """The first Ascend NPU visible to the process, and the host's processors."""

    name = "ascend"
    device = "npu"
    device_variable = VISIBLE
    sealing = "akg_tui.evaluate.child.triton_seal"
    # devmm_svm is memory with one address for host and device, so the driver reserves much.
    bounds_address_space = False

    def __init__(self, devices: Path = DEVICES) -> None:
        self._folder = devices

    def lacking(self) -> str:
        """Return what is missing of NPU, torch_npu, CANN and triton-ascend."""
        if not list(self._folder.glob("davinci[0-9]*")):
            return (
                f'backend = "ascend" needs an Ascend NPU, and this machine has none ({self._folder}'
                "/davinci0 is missing)"
            )
        for name in MANAGERS:
            if not (self._folder / name).exists():
                return (
                    'backend = "ascend" needs the devices of the NPU\'s driver, and '
                    f"{self._folder}/{name} is missing"
                )
        installed, torch = _version("torch_npu"), _version("torch")
        if not installed:
            return (
                'backend = "ascend" needs torch_npu, which is not installed: '
                f"pip install torch-npu=={_release(torch)}"
            )
        if _release(installed) != _release(torch):
            return (
                f'backend = "ascend" needs a torch_npu for PyTorch {_release(torch)}, and '
                f"{installed} is installed"
            )
        if not _library_is_found():
            return (
                f'backend = "ascend" needs CANN, whose {LIBRARY} is on no path of LD_LIBRARY_PATH: '
                f"{SET_ENV}"
            )
        if not triton_is_for_ascend():
            return (
                'backend = "ascend" needs triton-ascend, and it is not what is installed as '
                "triton here: pip install triton-ascend, in an environment without triton"
            )
        return ""

    def parts(self) -> dict[str, str]:
        """Return what is there of NPU, torch_npu, CANN and triton-ascend."""
        there = {True: "there", False: "missing"}
        return {
            "NPU": there[any(self._folder.glob("davinci[0-9]*"))],
            "torch_npu": _version("torch_npu") or "missing",
            "CANN": there[_library_is_found()],
            "triton-ascend": there[triton_is_for_ascend()],
        }

    def environment(self, threads: int) -> dict[str, str]:
        """Return the host's variables, those of CANN's set_env.sh, and one NPU."""
        found = super().environment(threads)
        found |= {name: os.environ[name] for name in SET_BY_CANN if name in os.environ}
        if home := cann_home():
            paths = [found["PYTHONPATH"], *(str(home / each) for each in CANN_PYTHON)]
            found["PYTHONPATH"] = os.pathsep.join(paths)
        return found | {VISIBLE: self.device_name(0)}

    def device_name(self, number: int) -> str:
        """Return the number of an NPU, counted among those that the user lets be seen."""
        listed = os.environ.get(VISIBLE, "")
        visible = [each.strip() for each in listed.split(",") if each.strip()]
        if not visible:
            return str(number)
        return visible[number] if number < len(visible) else ""

    def devices(self) -> tuple[str, ...]:
        """Return the driver's device files that exist: the NPUs', and the shared ones."""
        shared = [self._folder / name for name in MANAGERS]
        found = [*sorted(self._folder.glob("davinci[0-9]*")), *shared]
        return tuple(str(path) for path in found if path.exists())

    def readable(self) -> tuple[str, ...]:
        """Return the paths of the driver and of CANN."""
        home = cann_home()
        return (*DRIVER_FILES, *((str(home),) if home else ()))

    def preloaded(self) -> tuple[str, ...]:
        """Return torch_npu, which the judge's PyTorch does not load by itself, and the seal."""
        return ("torch_npu", *super().preloaded())

    def fingerprint(self, torch_version: str, threads: int) -> dict[str, str]:
        """Return the host's fingerprint, what `npu-smi` says of the NPU, and versions."""
        return super().fingerprint(torch_version, threads) | self.device_facts()

    def device_facts(self) -> dict[str, str]:
        """Return name and health of the NPU, and versions."""
        said = npu_smi_says()
        chips = read_npus(said)
        seen = [chip for chip in chips if chip.number == self.device_name(0)] or chips
        npu = seen[0] if seen else Npu("", "", "")
        known = {
            "npu": f"Ascend{npu.name.removeprefix('Ascend')}" if npu.name else "",
            "npu health": npu.health,
            "driver": read_driver(said),
            "cann": cann_version(),
            "torch_npu": _version("torch_npu"),
        }
        return {name: value for name, value in known.items() if value}

    def device_fault(self, facts: Mapping[str, str]) -> str:
        """Return that the NPU's health is not OK, if `npu-smi` says so."""
        health = facts.get("npu health", "OK")
        return "" if health == "OK" else f"npu-smi says of the NPU's health: {health}"

    def levels(self) -> list[Level]:
        """Return no levels: a kernel does not move data in the host's memory."""
        return []


def cann_version() -> str:
    """Return the version in the toolkit's installation record, or ""."""
    home = cann_home()
    if home is None:
        return ""
    record = home / f"{platform.machine()}-linux" / "ascend_toolkit_install.info"
    try:
        lines = record.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.partition("=")[2].strip() for line in lines if line[:8] == "version="), "")


def triton_is_for_ascend() -> bool:
    """Return whether the package `triton` here has Ascend's backend; it is not imported."""
    spec = importlib.util.find_spec("triton")
    places: Iterable[str] = (spec.submodule_search_locations or ()) if spec else ()
    return any((Path(place) / "backends" / "ascend").is_dir() for place in places)


def _library_is_found() -> bool:
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return any(folder and (Path(folder) / LIBRARY).exists() for folder in folders)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _release(version: str) -> str:
    """Return the numbers of a version: 2.1.0 of 2.1.0.post3 and of 2.1.0+cpu."""
    found = re.match(r"\d+(?:\.\d+){0,2}", version)
    return found[0] if found else ""


def npu_smi_says() -> str:
    """Return what `npu-smi info` prints, or "" where it does not run."""
    try:
        return subprocess.run(
            ["npu-smi", "info"], check=True, capture_output=True, text=True, timeout=QUERY_S
        ).stdout
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return ""


def read_driver(said: str) -> str:
    """Return the version in the head of the table, which is the driver's."""
    found = re.search(r"\bVersion:\s*(\S+)", said)
    return found[1] if found else ""


def read_npus(said: str) -> list[Npu]:
    """Return the chips in the table of `npu-smi info`.

    A chip has two rows: one with number and name, and health, and one with the address of its bus.
    The processes' table is skipped.
    """
    chips: list[Npu] = []
    for line in said.splitlines():
        if "Process id" in line:
            break
        cells = [cell.split() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 3 or not all(cells):
            continue
        if len(cells[0]) == 2 and cells[0][0].isdigit() and ":" not in cells[1][0]:
            told = [*cells[0], cells[1][0]]
            chips.append(Npu(*("" if each in ("-", "NA", "N/A") else each for each in told)))
    return chips


ADAPTER = Ascend()

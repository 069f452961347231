"""The CUDA target, written from NVIDIA's and PyTorch's documentation: never run on hardware.

Its path through the judge, with sealed inputs and committed results, is the one that is tested on
the device in `tests/lab/device`; only the names of device and seal differ.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.evaluate.targets.cpu import Cpu

if TYPE_CHECKING:
    from akg_tui.evaluate.targets.roofline import Level

DEVICES = Path("/dev")
DRIVER = "/proc/driver/nvidia"
SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps")
QUERY = {
    "gpu": "name",
    "driver": "driver_version",
    "gpu clock": "clocks.sm",
    "gpu memory clock": "clocks.mem",
    "persistence": "persistence_mode",
}
"""The fields of `nvidia-smi --help-query-gpu` that affect times, by their displayed names."""

QUERY_S = 10.0


class Cuda(Cpu):
    """The first NVIDIA GPU visible to the process, and the host's processors."""

    name = "cuda"
    device = "cuda"
    sealing = "akg_tui.evaluate.child.triton_seal"
    # The driver reserves addresses for the memory of all devices and of the host, many times
    # the machine's memory (CUDA C++ Programming Guide, unified virtual address space).
    bounds_address_space = False

    def __init__(self, devices: Path = DEVICES) -> None:
        self._folder = devices

    def lacking(self) -> str:
        """Return what is missing of GPU, PyTorch for CUDA and Triton."""
        if not list(self._folder.glob("nvidia[0-9]*")):
            return (
                f'backend = "cuda" needs an NVIDIA GPU, and this machine has none ({self._folder}'
                "/nvidia0 is missing)"
            )
        if torch_is_for_cpu():
            return 'backend = "cuda" needs a PyTorch for CUDA, and this one is for CPUs'
        if importlib.util.find_spec("triton") is None:
            return 'backend = "cuda" needs Triton, which is not installed: pip install triton'
        return ""

    def environment(self, threads: int) -> dict[str, str]:
        """Return the host's variables, with one GPU in `nvidia-smi` order and lazy modules."""
        return {
            **super().environment(threads),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": "0",
            "CUDA_MODULE_LOADING": "LAZY",
        }

    def devices(self) -> tuple[str, ...]:
        """Return the driver's device files that exist, the GPUs' and the shared ones."""
        shared = [self._folder / name for name in SHARED]
        found = [*sorted(self._folder.glob("nvidia[0-9]*")), *shared]
        return tuple(str(path) for path in found if path.exists())

    def readable(self) -> tuple[str, ...]:
        """Return the paths where the driver describes itself and its modules."""
        return (DRIVER, "/proc/devices", "/sys/module/nvidia", "/sys/module/nvidia_uvm")

    def fingerprint(self, torch_version: str, threads: int) -> dict[str, str]:
        """Return the host's fingerprint and the fields that `nvidia-smi` reports of the GPU."""
        return super().fingerprint(torch_version, threads) | self.device_facts()

    def device_facts(self) -> dict[str, str]:
        """Return the fields that `nvidia-smi` reports of the GPU."""
        return _queried()

    def levels(self) -> list[Level]:
        """Return no levels: a kernel does not move data in the host's memory."""
        return []


def torch_is_for_cpu() -> bool:
    """Return whether the installed PyTorch says by its version that it has no CUDA."""
    try:
        return importlib.metadata.version("torch").endswith("+cpu")
    except importlib.metadata.PackageNotFoundError:
        return True


def _queried() -> dict[str, str]:
    fields = ",".join(QUERY.values())
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", "--id=0"]
    try:
        said = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=QUERY_S
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return read_query(said)


def read_query(line: str) -> dict[str, str]:
    """Return the fields in a CSV line of `nvidia-smi`, by displayed name, without unknown ones."""
    values = [value.strip() for value in line.partition("\n")[0].split(",")]
    if len(values) != len(QUERY):
        return {}
    return {
        name: value
        for name, value in zip(QUERY, values, strict=True)
        if value and not value.startswith("[")
    }


ADAPTER = Cuda()

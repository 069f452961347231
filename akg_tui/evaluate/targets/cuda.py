"""The CUDA target, written from NVIDIA's and PyTorch's documentation; docs/targets.md tells what of
it has run on a GPU.

Its path through the judge, with sealed inputs and committed results, is the one that is tested on
the device in `benchmarks/lab/device`; only the names of device and seal differ.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.evaluate.targets.cpu import Cpu
from akg_tui.evaluate.targets.nvml import Gpu, GpuMonitor

if TYPE_CHECKING:
    from akg_tui.evaluate.targets.roofline import Level
    from akg_tui.evaluate.targets.target import Monitor

DEVICES = Path("/dev")
DRIVER = "/proc/driver/nvidia"
PCI = Path("/sys/bus/pci/devices")
SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps")


class Cuda(Cpu):
    """The first NVIDIA GPU visible to the process, and the host's processors."""

    name = "cuda"
    device = "cuda"
    device_variable = "CUDA_VISIBLE_DEVICES"
    sealing = "akg_tui.evaluate.child.triton_seal"
    queues = True
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
        """Return the paths where the driver describes itself, its modules and its GPUs."""
        gpus = (PCI / path.name for path in Path(DRIVER, "gpus").glob("*"))
        modules = ("/sys/module/nvidia", "/sys/module/nvidia_uvm")
        return (DRIVER, "/proc/devices", *modules, *(str(path.resolve()) for path in gpus))

    def fingerprint(self, torch_version: str, threads: int) -> dict[str, str]:
        """Return the host's fingerprint and what NVML tells of the GPU, or why it tells nothing."""
        return super().fingerprint(torch_version, threads) | self.device_facts()

    def device_facts(self) -> dict[str, str]:
        """Return what NVML tells of the GPU, or why it tells nothing."""
        gpu = Gpu.first()
        return {"nvml": gpu} if isinstance(gpu, str) else gpu.facts()

    def device_fault(self, facts: Mapping[str, str]) -> str:
        """Return what holds the GPU's clock down now, or ""."""
        why = facts.get("gpu throttled by")
        return f"the GPU is throttled now: {why}" if why else ""

    def monitor(self) -> Monitor | None:
        """Return what watches the GPU by NVML, or None."""
        gpu = Gpu.first()
        return None if isinstance(gpu, str) else GpuMonitor(gpu)

    def levels(self) -> list[Level]:
        """Return no levels: a kernel does not move data in the host's memory."""
        return []


def torch_is_for_cpu() -> bool:
    """Return whether the installed PyTorch says by its version that it has no CUDA."""
    try:
        return importlib.metadata.version("torch").endswith("+cpu")
    except importlib.metadata.PackageNotFoundError:
        return True


ADAPTER = Cuda()

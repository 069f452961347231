"""The interface of a target: a backend that kernels run on.

A target is one subclass of `Target`. Judge, zygote and engine use it, so its module must not
import torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from akg_tui.evaluate.targets.roofline import Level


class Monitor(Protocol):
    """Watches a device during one comparison."""

    def sample(self) -> None:
        """Read the device's state; called after each cluster."""

    def settled(self) -> bool:
        """Return whether the device's clock has come to rest: then the comparison begins."""

    def disturbances(self) -> list[str]:
        """Return a sentence on each disturbance since the comparison began."""


class Target(ABC):
    """One backend of `task.toml`."""

    name: str

    device: str = ""
    """The type of PyTorch's device that kernels get their arguments on; "": the host's memory."""
    device_variable: str = ""
    """The variable that selects the device by its number; "": there is one device."""
    sealing: str = ""
    """The module with which a kernel's process unseals inputs and digests results on the device."""
    queues = False
    """Whether the device can wait for a word in the host's memory, with work queued behind it."""

    bounds_address_space = True
    """Whether RLIMIT_AS may bound a kernel: a driver may reserve more than any machine has.
    Memory in use is measured and bounded in any case."""

    def lacking(self) -> str:
        """Return one line on why no kernel can run on this target here, or ""."""
        return ""

    def parts(self) -> dict[str, str]:
        """Return what the target needs, each with its version, "there" or "missing"; {}: not told.

        For a machine that lacks some of it.
        """
        return {}

    @abstractmethod
    def environment(self, threads: int) -> dict[str, str]:
        """Return the environment of the judge, which every kernel's process inherits."""

    def device_name(self, number: int) -> str:
        """Return what `device_variable` selects the device `number` by; "" if there is none."""
        return str(number) if self.device_variable or not number else ""

    def devices(self) -> tuple[str, ...]:
        """Return the device files that a kernel must open."""
        return ()

    def readable(self) -> tuple[str, ...]:
        """Return the files and folders that a kernel must read to use the target."""
        return ()

    def preloaded(self) -> tuple[str, ...]:
        """Return modules that every kernel's process needs: loaded once, in the zygote.

        They may not touch the device, whose driver survives no fork.
        """
        return (self.sealing,) if self.sealing else ()

    @abstractmethod
    def fingerprint(self, torch_version: str, threads: int) -> dict[str, str]:
        """Return the properties of machine and software that a measurement records."""

    def monitor(self) -> Monitor | None:
        """Return what watches the device from now on; None if nothing does."""
        return None

    def device_facts(self) -> dict[str, str]:
        """Return what the driver says of the device now, by the names that a fingerprint has."""
        return {}

    def device_fault(self, facts: Mapping[str, str]) -> str:
        """Return what these facts say against the device, or ""."""
        return ""

    def levels(self) -> list[Level]:
        """Return the levels of memory with their bandwidths; []: no time is impossible."""
        return []

"""The choice of an autotuner's configuration, and the errors of kernels that are interpreted.

The judge's child sets the choice and catches the errors; the interpreter of a DSL reads the one and
raises the others. Must import neither torch nor a DSL.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_CONFIGURATIONS = 64
"""The most configurations of a tuner that are tried."""


class CannotRunHere(Exception):
    """A kernel does what only its device can do; this says nothing about the kernel."""


class NotCompiled(Exception):
    """The compiler would refuse the kernel."""


class FailedAssertion(NotCompiled):
    """A static assertion of the kernel does not hold."""


class NoValidLaunch(Exception):
    """No configuration of a tuner can be launched."""


@dataclass
class Configurations:
    """Which configuration each tuner takes, and from how many the tuners so far could choose.

    It is number `number`, modulo the count of the tuner's.
    """

    number: int = 0
    most: int = 1
    taken: dict[str, str] = field(default_factory=dict)
    """The configuration taken by each kernel, in words."""

    def told(self) -> str:
        """Return the configurations taken in words; "" if there was no choice."""
        words = "; ".join(f"{name}: {taken}" for name, taken in self.taken.items())
        return f"(configuration of {words})" if words else ""


CONFIGURATIONS = Configurations()

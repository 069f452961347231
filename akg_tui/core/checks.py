"""What a check found, as a value: of this machine, of a run, of anything that can be wrong.

Any floor may make one; the command line prints them.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Health(StrEnum):
    """`warn` is worth knowing and stops nothing; `bad` stops something."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


class Check(Struct, frozen=True):
    """One thing looked at: what was found, what that means, and how to mend it ("" if fine)."""

    name: str
    health: Health
    found: str
    mend: str = ""


def ok(name: str, found: str) -> Check:
    return Check(name, Health.OK, found)


def warn(name: str, found: str, mend: str = "") -> Check:
    return Check(name, Health.WARN, found, mend)


def bad(name: str, found: str, mend: str = "") -> Check:
    return Check(name, Health.BAD, found, mend)

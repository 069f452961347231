"""The sandbox's protections in a reader's words: what each keeps a kernel from.

The names are those that `akg_tui.evaluate` writes into a measurement. One that is not
here is shown by its name; one that is here and was not in force is told as missing.
"""

from __future__ import annotations

from collections.abc import Iterable

from akg_tui.report.document import Protection, Sandbox

MEANINGS = {
    "netns": "no network",
    "userns": "a user namespace of its own",
    "landlock": "no files but its own (a file-system filter)",
    "seccomp": "no dangerous system calls (a system-call filter)",
    "no_capabilities": "no capabilities",
    "no_new_privs": "cannot gain privileges",
    "rlimits": "limits on memory, files and processes",
    "hidden_memory": "the judge's memory cannot be read",
    "session": "a session of its own, killed as a whole",
    "pdeathsig": "dies with the judge",
}


def sandbox_of(measured: Iterable[tuple[str, ...]]) -> Sandbox:
    """What was in force, counted over the evaluations in which a kernel's process ran."""
    held = [names for names in measured if names]
    extra = sorted({name for names in held for name in names} - MEANINGS.keys())
    return Sandbox(
        len(held),
        tuple(
            Protection(name, MEANINGS.get(name, name), sum(name in names for names in held))
            for name in (*MEANINGS, *extra)
        ),
    )

"""A served model as a command line names it, for the commands that have no task to name one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from akg_tui.cli.usage import UsageError

if TYPE_CHECKING:
    from akg_tui.core.task import Agent


def served_agent(model: str, base_url: str, key_file: str) -> Agent:
    """The agent of these options, checked like a task's own. Raises `UsageError`."""
    import msgspec

    from akg_tui.core.task import SWEEP, Agent, resolved_model

    if model == SWEEP:
        raise UsageError(f"--model {SWEEP}: is no served model")
    plain = {"model": resolved_model(model), "base_url": base_url, "api_key_file": key_file}
    try:
        return msgspec.convert(plain, Agent)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        option, wrong = (
            ("--base-url", base_url) if place.startswith("base_url") else ("--model", model)
        )
        raise UsageError(f"{option} {wrong!r}: not allowed ({what})") from None

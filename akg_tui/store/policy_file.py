"""A policy in a JSON file of its own, as other tools with the same schema write it.

Reads only. What it means is `akg_tui.core.automation`'s.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from akg_tui.core.automation import AutomationPolicy, BadPolicy, doubts, read_automation
from akg_tui.store.errors import RunFolderError

SIZE_LIMIT = 1 << 20


def load_policy(path: Path) -> tuple[AutomationPolicy | None, list[str]]:
    """The policy in `path`, and what in it can hardly be meant, in words.

    Raises
    ------
    RunFolderError
        If the file cannot be read or is no policy; the message names file and field.
    """
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > SIZE_LIMIT:
        raise RunFolderError(f"{path}: is too large for a policy, expected at most {SIZE_LIMIT} B")
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunFolderError(f"{path}: not valid JSON: {error}") from error
    try:
        policy = read_automation(plain)
    except BadPolicy as error:
        raise RunFolderError(f"{path}: {error}") from error
    if policy is None or not isinstance(plain, dict):
        return policy, []
    inner = plain.get("automation_policy", plain)
    return policy, [f"{path}: {name}: {why}" for name, why in doubts(inner)]

"""Parses the limits of a run as the user types them: ``rounds=40 hours=2``.

Pure: text and a policy in, a policy out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from akg_tui.view.language import tr

if TYPE_CHECKING:
    from akg_tui.core.task import Policy

WHOLE = ("rounds", "experiments", "tokens")
NAMES = ("rounds", "hours", "experiments", "tokens", "cost")
_FIELDS = {"experiments": "max_experiments", "tokens": "max_tokens", "cost": "max_cost_usd"}


class BadLimit(ValueError):
    """A limit that cannot be read; the message says so to a person."""


def limited(policy: Policy, text: str) -> Policy:
    """`policy` with the limits that `text` states, names as of the options of ``tune``: hours of
    work, cost in US dollars. Raises `BadLimit`.
    """
    from msgspec.structs import replace

    from akg_tui.core.stopping.automation import AutomationPolicy

    automation = policy.automation
    for word in text.split():
        name, value = _read(word)
        if name == "rounds":
            policy = replace(policy, max_rounds=int(value))
        elif name == "hours":
            policy = replace(policy, max_hours=value)
        else:
            number = int(value) if name in WHOLE else value
            automation = replace(automation or AutomationPolicy(), **{_FIELDS[name]: number})
    return replace(policy, automation=automation)


def _read(word: str) -> tuple[str, float]:
    name, _, text = word.partition("=")
    if name not in NAMES:
        known = ", ".join(NAMES)
        raise BadLimit(tr("no limit is called {name}; there are: {known}", name=name, known=known))
    try:
        value = int(text) if name in WHOLE else float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise BadLimit(tr("{name} needs a number above 0: {name}=20", name=name))
    return name, value

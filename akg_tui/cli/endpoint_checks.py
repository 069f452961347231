"""What `akg-tui doctor` finds at a model's server: a few small requests, each for one ability."""

from __future__ import annotations

from akg_tui.agent.models.endpoint import Endpoint
from akg_tui.core.checks import Check, Health, bad, ok

NAME = "endpoint"
_HEALTH = {"ok": Health.OK, "warn": Health.WARN, "fail": Health.BAD}


def check_endpoint(endpoint: Endpoint) -> list[Check]:
    """One check for the connection, and one for each ability when somebody answers."""
    import asyncio

    from akg_tui.agent.chat import ModelFailed
    from akg_tui.agent.models.probe import findings, probe

    try:
        can = asyncio.run(probe(endpoint))
    except ModelFailed as error:
        mend = "check --base-url, --model and the key; is the server up?"
        return [bad(NAME, endpoint.scrub(str(error)), mend)]
    told = f"{endpoint.model} at {endpoint.base_url} answers"
    return [
        ok(NAME, told),
        *(Check(found.name, _HEALTH[found.status], found.detail) for found in findings(can)),
    ]

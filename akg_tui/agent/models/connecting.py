"""The way to a server, made when it is first needed: the SDK takes most of a second.

Knows what can go wrong before a request is sent, and tells it without a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from akg_tui.agent.chat import ModelUnusable
from akg_tui.agent.models.endpoint import Endpoint

if TYPE_CHECKING:
    from akg_tui.agent.models.transport import Limits, Transport


def connect(endpoint: Endpoint, limits: Limits | None, *, first_s: float = 600.0) -> Transport:
    """A transport to `endpoint`; no request is sent. Blocks, so call it off the event loop.

    Without `limits` the transport's own hold, with `first_s` seconds until a reply begins.

    Raises
    ------
    ModelUnusable
        If none can be made with what is installed and set here. The client reads proxies and
        certificates from the environment, and raises whatever it likes about them.
    """
    try:
        from akg_tui.agent.models.transport import Limits, Transport

        return Transport(endpoint, limits or Limits(first_s=first_s))
    except Exception as error:
        raise ModelUnusable(
            f"no connection to {endpoint.base_url} can be made, with the proxy of ALL_PROXY, "
            f"HTTPS_PROXY or HTTP_PROXY if one is set: {endpoint.scrub(str(error))}"
        ) from error

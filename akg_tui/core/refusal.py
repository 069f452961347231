"""What `decide` answers with: events, or a refusal in a sentence."""

from __future__ import annotations

from msgspec import Struct

from akg_tui.core.events import AnyEvent


class Rejected(Struct, frozen=True):
    """A command that changes nothing, and why."""

    why: str


Events = tuple[AnyEvent, ...]

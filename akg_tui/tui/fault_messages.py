"""An app whose actions and workers may fail: what went wrong is said, and everything goes on.

What is refused or cannot be read is told in one line. A mistake of the workbench's own leaves
its traceback too, where what is written past the screen goes.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

from textual.worker import WorkerFailed, active_worker

from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.language import retold, tr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.actions import ActionParseResult
    from textual.dom import DOMNode

    from akg_tui.tui.appearance import Dressed
    from akg_tui.tui.terminal_guard import Sheltered

    class _Base(Dressed, Sheltered): ...
else:
    _Base = object

OPENING, LISTING, CLOSING = "open the run", "list the runs", "close the run"
_NEEDED = {OPENING, LISTING, CLOSING}
"""The workers without which there is nothing to go on with."""


class Mishaps(_Base):
    """An exception of a key, of the palette, of the `:` line or of a worker never ends the run with
    the app.
    """

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception as error:  # noqa: BLE001 - said to the person, and kept
            self.mishap(error)
            return True

    def _handle_exception(self, error: Exception) -> None:
        worker = active_worker.get(None)
        if isinstance(error, WorkerFailed) and worker is not None and worker.name not in _NEEDED:
            self.mishap(error.error)
        else:
            super()._handle_exception(error)

    def mishap(self, error: BaseException) -> None:
        """Say what went wrong."""
        from akg_tui.store.errors import StoreError

        if isinstance(error, (StoreError, OSError)):
            self.tell_person(tr("not done: {why}", why=said_by(error)))
            return
        traceback.print_exception(error, file=sys.stderr)
        if self.guard is not None:
            self.guard.news()  # told here, with the key that shows it
        key = way_to("app.stray")
        self.tell_person(tr("not done: {why}; {key} shows where it went wrong",
                            why=said_by(error), key=key))  # fmt: skip


def said_by(error: BaseException) -> str:
    """What an exception says; its kind too where it says little."""
    text = " ".join(str(error).split())
    return retold(text) if len(text) > 20 else f"{type(error).__name__}: {text}".rstrip(": ")

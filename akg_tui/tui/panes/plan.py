"""The pane of the plan: its items with their results, the active one kept in sight."""

from __future__ import annotations

from textual.content import Content

from akg_tui.core.sanitize import Said
from akg_tui.core.state import Item
from akg_tui.tui.panes.pane import Pane, Shared
from akg_tui.tui.widgets.line_view import LineView, folds_again
from akg_tui.view.language import tr
from akg_tui.view.plan_rows import PlanView, plan_subtitle, plan_view
from akg_tui.view.run_snapshot import RunSnapshot

_EMPTY = PlanView([], {}, 0)


class PlanPane(LineView, Pane):
    """The arrow keys pick an item, enter unfolds its evidence."""

    TITLE = Said("plan")
    picks = True

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name)
        self._view = _EMPTY
        self._items: tuple[Item, ...] = ()
        self._pick: str | None = None
        self._unfolded: frozenset[str] = frozenset()

    def pull(self, snapshot: RunSnapshot) -> None:
        state = snapshot.state
        room, page = self.room, self.page
        focused = self.has_focus
        measured = state.compiled, state.autotuned, state.final, state.final_eager
        if not self.moved(
            (state.items, measured, state.phase, room, page, self._unfolded, focused)
        ):
            return
        self._items = state.items
        self._view = plan_view(state, room, page, self._unfolded)
        self.put(self._view.rows)
        was, self._picked = self._picked, self._view.spans.get(self._pick or "", range(0))
        if focused and self._picked != was:
            self.bring(self._picked)  # the picked item was moved
        self.border_subtitle = Content(plan_subtitle(state))
        if not focused:
            self.reveal(self._view.at)

    @property
    def picked(self) -> Item | None:
        """The item that a key acts on: the picked item, else the item in work."""
        name = self._pick
        if name is None:
            at = self._view.at
            name = next((n for n, rows in self._view.spans.items() if at in rows), None)
        return next((item for item in self._items if item.id == name), None)

    def sees(self, name: str) -> bool:
        """Whether the first row of an item is on screen."""
        rows = self._view.spans.get(name, range(0))
        return bool(rows) and self.top <= rows.start < self.top + self.page

    def choose(self, name: str) -> None:
        """Pick the item with this id."""
        self._pick = name
        self.pick(self._view.spans.get(name, range(0)))

    def pick_step(self, step: int) -> None:
        names = list(self._view.spans)
        item = self.picked
        if not names or item is None:
            return
        place = names.index(item.id) + (step if self._pick is not None else 0)
        self.choose(names[min(len(names) - 1, max(0, place))])

    def pick_row(self, row: int) -> None:
        if name := next((n for n, rows in self._view.spans.items() if row in rows), ""):
            self.choose(name)

    def come_to(self, place: object) -> str:
        """Pick an item by its id and show its evidence."""
        self._unfold(str(place), self._unfolded | {str(place)})
        return ""

    def enter(self) -> str:
        item = self.picked
        if item is None:
            return tr("there is no item yet")
        self._unfold(item.id, self._unfolded ^ {item.id})
        return folds_again()

    def _unfold(self, name: str, unfolded: frozenset[str]) -> None:
        self._unfolded, self._pick = unfolded, name
        self.forget()
        self.call_after_refresh(lambda: self.choose(name))

"""The panes of the deck: one declaration each, from which layouts, tabs, commands, keys, help
and the page of keys are made.

To add a pane, write its view in `akg_tui/view/` and its widget in `akg_tui/tui/panes/`, and
declare it here. Pure data; imports no widget.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from akg_tui.core.sanitize import Said


class Shape(StrEnum):
    """Deck shapes, smallest first: one bare pane, one pane with tabs, three columns, five panes."""

    TINY = "tiny"
    TABS = "tabs"
    THREE = "three"
    FIVE = "five"


THREE, FIVE = Shape.THREE, Shape.FIVE


class Spot(NamedTuple):
    """The place of a pane in a layout: its column, from 0 at the left, and its rows.

    0 rows: an equal share of the rows that remain. `last`: below the others.
    """

    preset: str
    shape: Shape
    column: int
    rows: int = 0
    last: bool = False


@dataclass(frozen=True)
class PaneDeclaration:
    """A pane of the deck.

    Parameters
    ----------
    id, key, title, help : str
        The id of its widget, and key, title and help of the command to it, with id `pane.ID`.
    widget : str
        ``MODULE:CLASS`` below `akg_tui.tui.panes`.
    order : int
        Its rank in the order of the tab key, and from the top of a column of a layout.
    kin : tuple of str
        The panes whose place it takes when it is active and has no place in the layout.
    spots : tuple of Spot
        The layouts that show it.
    """

    id: str
    key: str
    title: str
    help: str
    widget: str
    order: int
    kin: tuple[str, ...]
    spots: tuple[Spot, ...]


PANES = (
    PaneDeclaration(
        "plan", "1", Said("plan"), "The plan", "plan:PlanPane", 1,
        ("attempts", "eval", "best"),
        (Spot("deck", THREE, 0), Spot("deck", FIVE, 0), Spot("kernel", FIVE, 2),
         Spot("agent", THREE, 1), Spot("agent", FIVE, 2),
         Spot("numbers", THREE, 1, last=True), Spot("numbers", FIVE, 2, last=True)),
    ),
    PaneDeclaration(
        "source", "2", Said("kernel"), "The kernel as the agent has it now",
        "source:SourcePane", 3, ("best", "chart"),
        (Spot("deck", THREE, 1), Spot("deck", FIVE, 2), Spot("kernel", THREE, 1),
         Spot("kernel", FIVE, 1), Spot("agent", FIVE, 1)),
    ),
    PaneDeclaration(
        "chart", "3", Said("chart"), "The chart of all attempts", "chart:ChartPane", 4,
        ("attempts", "eval", "best", "source"),
        (Spot("deck", THREE, 1, 13), Spot("deck", FIVE, 1, 16), Spot("kernel", FIVE, 2),
         Spot("numbers", THREE, 0), Spot("numbers", FIVE, 0)),
    ),
    PaneDeclaration(
        "log", "4", Said("log"), "The agent's log", "log:LogPane", 7,
        ("agents", "plan", "best"),
        (Spot("deck", THREE, 2), Spot("deck", FIVE, 3), Spot("agent", THREE, 0),
         Spot("agent", FIVE, 0)),
    ),
    PaneDeclaration(
        "best", "5", Said("best"), "The best kernel so far", "source:SourcePane", 2,
        ("source", "chart"),
        (Spot("deck", FIVE, 1), Spot("kernel", THREE, 0), Spot("kernel", FIVE, 0)),
    ),
    PaneDeclaration(
        "attempts", "6", Said("tries"), "The table of attempts", "attempts:AttemptsPane", 5,
        ("chart", "eval", "best"),
        (Spot("deck", FIVE, 0, 16), Spot("numbers", THREE, 0), Spot("numbers", FIVE, 1)),
    ),
    PaneDeclaration(
        "agents", "7", Said("agents"), "The agents: who works, at what cost",
        "agents:AgentsPane", 8, ("eval", "attempts", "log", "best"),
        (Spot("deck", FIVE, 3, 9), Spot("agent", THREE, 1, 9), Spot("agent", FIVE, 2)),
    ),
    PaneDeclaration(
        "eval", "8", Said("eval"), "The evaluation under way", "evaluation_pane:EvalPane", 6,
        ("attempts", "agents", "chart", "best"),
        (Spot("deck", THREE, 0, 9), Spot("deck", FIVE, 2, 16), Spot("numbers", THREE, 1),
         Spot("numbers", FIVE, 2)),
    ),
    PaneDeclaration(
        "asm", "9", Said("asm"), "The machine code of the kernel, beside its source",
        "instructions:InstructionsPane", 10, ("best", "chart", "log"), (),
    ),
    PaneDeclaration(
        "roofline", "0", Said("roofline"), "The roofline, and how near the kernels come",
        "roofline_pane:RooflinePane", 11, ("chart", "attempts", "best", "eval"), (),
    ),
    PaneDeclaration(
        "subagent", "o", Said("subagent"),
        "The log of one subagent: the picked one, else the newest at work",
        "subagent:SubagentPane", 9, ("source", "best", "log", "chart"), (),
    ),
)  # fmt: skip

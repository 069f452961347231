"""The tours: of a run, each step with its pane of the deck, and of the list of runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.language import tr
from akg_tui.view.spans import Line, hang, line


@dataclass(frozen=True)
class Stop:
    """A step of a tour: a title, the pane of the deck that it shows or "", and its text."""

    title: str
    pane: str
    text: str


def run_stops() -> tuple[Stop, ...]:
    """Return the steps of the tour of a run, in the language and with the keys in use."""
    keys = {
        name: way_to(command)
        for name, command in {
            "pause": "run.pause", "mode": "run.mode", "review": "review.open", "yes": "ask.keep",
            "no": "ask.reject", "hint": "run.hint", "add": "plan.add", "past": "past.enter",
            "compare": "past.compare", "policy": "run.policy", "more": "run.more",
            "help": "app.help", "palette": "app.palette", "zoom": "pane.zoom", "menu": "pane.menu",
            "unfold": "pane.open",
        }.items()
    }  # fmt: skip
    return (
        Stop(tr("the plan"), "plan", tr(
            "What the agent tries, one item a round: kept, discarded or failed. {unfold} shows the "
            "evidence of an item, {add} adds one of yours.", **keys)),
        Stop(tr("the kernel and its gain"), "source", tr(
            "The kernel as the agent has it now, against the best one; the chart shows every "
            "attempt with the noise of its measurement. {zoom} gives a pane all the room, {menu} "
            "shows what it can do.", **keys)),
        Stop(tr("your say"), "log", tr(
            "{pause} pauses, {hint} writes a hint to the agent, {mode} chooses what waits for you. "
            "A card at the bottom asks: {yes} keeps, {no} rejects, {review} shows the diff.",
            **keys)),
        Stop(tr("the past"), "chart", tr(
            "{past} goes to any moment of the run and lets you begin a new one from there; "
            "{compare} puts two rounds side by side.", **keys)),
        Stop(tr("the end"), "attempts", tr(
            "{policy} shows when the run ends. Then the best kernel is measured afresh and a "
            "report is written; {more} goes on with more rounds. {help} lists all keys, {palette} "
            "finds a command by its name.", **keys)),
    )  # fmt: skip


def list_stops() -> tuple[Stop, ...]:
    """Return the steps of the tour of the list of runs, where no pane of a run is in sight."""
    keys = {
        name: way_to(f"runs.{name}")
        for name in ("demo", "new", "look", "open", "resume", "compare")
    }
    return (
        Stop(tr("begin"), "", tr(
            "{demo} tunes a bundled sample and needs neither key nor GPU. {new} begins a run of a "
            "kernel of yours, of a task or of a sample; {look} opens a run by its folder.",
            **keys)),
        Stop(tr("what a run is"), "", tr(
            "An agent changes the kernel, one plan item a round. Each candidate is checked against "
            "the reference and timed beside the best kernel, and is kept only if it is faster "
            "beyond doubt. You watch, write hints, answer and approve.")),
        Stop(tr("this list"), "", tr(
            "Each run below this folder is a row here: {open} opens it, {resume} goes on with it, "
            "{compare} compares two. {help} lists all keys. In a run, {tour} shows its panes one "
            "by one.", **keys, help=way_to("app.help"), tour=way_to("app.tour"))),
    )  # fmt: skip


def stop_rows(shown: Sequence[Stop], number: int, room: int) -> list[Line]:
    """Return the rows of one of the steps, from 0."""
    stop = shown[number]
    head = line((f"{number + 1}/{len(shown)}  ", "muted"), (stop.title, "strong"))
    following = tr("next") if number + 1 < len(shown) else tr("ends")
    nav = line(
        ("enter", "key"), f" {following}  ", ("←", "key"), f" {tr('back')}  ",
        ("esc", "key"), f" {tr('leaves the tour')}",
    )  # fmt: skip
    return [head, *hang(stop.text, room, (), "text"), nav]

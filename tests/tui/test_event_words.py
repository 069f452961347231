"""Every event has its words on every surface from one table, or is named as silent."""

from __future__ import annotations

import enum
import types
import typing
from typing import Any

import msgspec
import pytest

from akg_tui.core import events as ev
from akg_tui.core.phases import WORKFLOWS, Phase, Workflow
from akg_tui.core.sanitize import BadName
from akg_tui.core.stopping.automation import CONDITION_PREFIX, REASON_PREFIX
from akg_tui.core.task import Correctness
from akg_tui.view.agent_log import AgentLog
from akg_tui.view.event_words import LABEL_CELLS, SILENT, WORDS, line_texts, reported, words_of
from akg_tui.view.language import speak, translated
from akg_tui.view.spans import cells, plain

EVENTS: tuple[type[ev.Event], ...] = typing.get_args(ev.AnyEvent)
NAMES = ("reference", "editable", "context", "run_id", "subagent", "trace", "kept", "path")
FOLDED = {ev.ToolAnswered, ev.ModelReplied}  # told by the log together with their calls and text


def sample(kind: Any) -> Any:
    """A value of a type, with text that acts on a terminal wherever text may stand."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return inner[0]
    if origin in (typing.Union, types.UnionType):
        return sample(inner[0])
    if origin is tuple:
        return tuple(sample(each) for each in inner if each is not Ellipsis)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    if kind is Workflow:
        return WORKFLOWS["write"]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        given = {f.name: sample(hints[f.name]) for f in msgspec.structs.fields(kind)}
        if kind is Correctness:  # its check replaces a tolerance
            given["tolerance"] = None
        try:
            return kind(**given)
        except BadName:  # what names files cannot have such text
            plain: Any = {sample(str): "a", (sample(str),): ("a",)}
            return kind(**{f: plain.get(v, v) if f in NAMES else v for f, v in given.items()})
    values = {str: "a\x1b[31m\nb", int: 3, float: 1.5, bool: True}
    return values.get(kind, {})


def log_rows(event: ev.AnyEvent) -> list[str]:
    log = AgentLog(300)
    log.read([ev.Record(0, 0.0, event)])
    return [plain(row) for row in log.rows]


def test_every_event_has_words_or_is_named_as_silent() -> None:
    assert set(EVENTS) == WORDS.keys() | SILENT
    assert not WORDS.keys() & SILENT


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_an_event_tells_acts_on_no_terminal_and_stands_in_its_columns(
    kind: type[ev.Event], language: str
) -> None:
    event = sample(kind)
    if isinstance(event, ev.EvalStarted):  # the others are told by the live line
        event = msgspec.structs.replace(event, purpose=ev.Purpose.COMPILE)
    speak(language)
    lines = line_texts(event, "plain", translated)
    words = words_of(event, "report")
    assert words is None or kind.by_a_person
    told = [*lines, *line_texts(event, "headless", str), *log_rows(event)]
    told += [reported(words)] if words else []
    assert (not told) == (kind in SILENT - FOLDED)
    for text in told:
        assert text.strip()
        assert not any(ord(character) < 0x20 for character in text)
    for line in lines:
        label = line.split("  ")[0]
        assert label == line or cells(line[: len(label)]) < LABEL_CELLS


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (ev.SubagentHinted(subagent="s2", text="use less"), "you       message to s2: use less"),
        (ev.SubagentStopped(subagent="s2", reason="late"), "you       stop s2: late"),
        (ev.HintGiven(text="use {name}, [b]"), "hint      use {name}, [b]"),
        (ev.ApiFailed(reason="no key"), "the model cannot be used: no key"),
        (
            ev.SubagentEnded(subagent="s1", agent="reader", status="done", calls=2),
            "subagent  s1 done after 2 calls",
        ),
        (
            ev.StopConditionsMet(reasons=("a goal",), primary="a goal"),
            f"stop      {CONDITION_PREFIX}a goal\nstop      {REASON_PREFIX}a goal",
        ),
    ],
)
def test_an_event_is_told_once_and_alike_on_the_streams(event: ev.AnyEvent, line: str) -> None:
    for surface in ("plain", "headless"):
        assert line_texts(event, surface, str) == line.split("\n")


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (ev.HintGiven(text="use fewer registers"), "hint: use fewer registers"),
        (ev.GateAnswered(gate=1, answer="reject", comment="no"), "review: reject: no"),
        (ev.SubagentHinted(subagent="s2", text="use less"), "message to s2: use less"),
        (ev.SubagentStopped(subagent="s2", reason="late"), "stop s2: late"),
        (ev.QuestionAnswered(question=1, answer="4", source="user"), "answer: 4"),
        (ev.QuestionAnswered(question=1, answer="4", source="default"), None),
        (ev.FinishRequested(reason="done"), None),
        (ev.TurnEnded(), None),
    ],
)
def test_the_report_tells_what_a_person_did_and_nothing_else(
    event: ev.AnyEvent, said: str | None
) -> None:
    words = words_of(event, "report")
    assert (reported(words) if words else None) == said


def test_the_log_tells_a_phase_as_a_rule_and_more_than_one_stop_condition() -> None:
    assert log_rows(ev.PhaseEntered(phase=Phase.PLAN, previous=Phase.INIT)) == ["── PLAN"]
    assert log_rows(ev.StopConditionsMet(reasons=("a",), primary="a")) == []
    both = ev.StopConditionsMet(reasons=("a", "b"), primary="a")
    assert log_rows(both) == ["all that stops it: a; b"]

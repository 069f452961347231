"""What people did to a run, in words: its hints, gates, pauses, changed policies and plans.

Events are known by their names; one whose words are not here is told by its fields.
"""

from __future__ import annotations

from typing import Any

from akg_tui.core import events as ev
from akg_tui.core.plain import one_line
from akg_tui.core.rules import in_words as rule_in_words

WIDTH = 400

BY_A_PERSON = frozenset(
    {
        "DiagnosisForced",
        "Forked",
        "GateAnswered",
        "GateChanged",
        "HintGiven",
        "ItemAdded",
        "ItemEdited",
        "ItemPinned",
        "ItemsReordered",
        "KeepUndone",
        "ModeChanged",
        "Paused",
        "PlanEditAdopted",
        "PlanEdited",
        "PolicyChanged",
        "ReplanForced",
        "RuleLearned",
        "RuleRevoked",
        "StepGranted",
        "StopRequested",
        "SubagentHinted",
        "SubagentStopped",
        "Unpaused",
    }
)


def is_by_a_person(event: ev.AnyEvent) -> bool:
    """Whether somebody reached into the run here. An answer counts when a person gave it."""
    name = type(event).__name__
    if name == "QuestionAnswered":
        return getattr(event, "source", "") == "user"
    return name in BY_A_PERSON


def in_words(event: ev.AnyEvent) -> str:
    """What was done, on one line."""
    match event:
        case ev.HintGiven(text=text):
            told = f"hint: {text}"
        case ev.GateAnswered(answer=answer, comment=comment):
            told = f"review: {answer}" + (f" ({comment})" if comment else "")
        case ev.RuleLearned(rule=rule, scope=scope):
            told = f"rule {rule}: {rule_in_words(scope)}"
        case ev.RuleRevoked(rule=rule, reason=reason):
            told = f"rule {rule} ended" + (f" ({reason})" if reason else "")
        case ev.ModeChanged(mode=mode):
            told = f"mode {mode}"
        case ev.Paused():
            told = "paused"
        case ev.Unpaused():
            told = "went on"
        case ev.StepGranted():
            told = "took one step"
        case ev.StopRequested(reason=reason):
            told = f"stop: {reason}"
        case ev.SubagentHinted(subagent=name, text=text):
            told = f"message to {name}: {text}"
        case ev.SubagentStopped(subagent=name, reason=reason):
            told = f"stopped {name}" + (f": {reason}" if reason else "")
        case ev.PolicyChanged(source=source):
            told = f"policy changed by the {source}"
        case ev.PlanEdited(kept=kept):
            told = f"PLAN.md was edited by hand; kept as {kept}"
        case _:
            told = _by_fields(event)
    return one_line(told, WIDTH)


def _by_fields(event: ev.AnyEvent) -> str:
    fields: dict[str, Any] = ev.to_builtins(event)
    said = ", ".join(f"{name} {value}" for name, value in fields.items() if name != "type")
    return f"{type(event).__name__}: {said}" if said else type(event).__name__

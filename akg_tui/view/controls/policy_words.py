"""The policy of a run in words: read from the `:` line, and shown with what is used of it.

Pure. Owns the names of the limits on the `:` line; the meaning of a limit is in
`akg_tui.core.stopping`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from akg_tui.view.language import tr

if TYPE_CHECKING:
    from akg_tui.core.stopping.automation import AutomationPolicy
    from akg_tui.core.task import Policy

# Each word of the `:` line with the field that it sets, as task.toml and JSON files name it too.
_OF_RUN = {"rounds": "max_rounds", "hours": "max_hours", "patience": "max_rounds_without_keep"}
_OF_AUTOMATION = {
    "experiments": "max_experiments",
    "tokens": "max_tokens",
    "cost": "max_cost_usd",
    "wall": "max_wall_clock",
    "goal": "goals",
    "logic": "logic",
    "heuristics": "strict_heuristics",
}
_IN_FILES = {
    **{name: word for word, name in _OF_RUN.items()},
    **{"maxRounds": "rounds", "maxExperiments": "experiments", "maxTokens": "tokens"},
    **{"maxCostUsd": "cost", "maxWallClock": "wall", "strictHeuristics": "heuristics"},
    "goals": "goal",
}
NAMES = (*_OF_RUN, *_OF_AUTOMATION)
_WHOLE = ("rounds", "patience", "experiments", "tokens")
_SWITCH = {"on": True, "true": True, "off": False, "false": False}
NONE = "none"


class BadLimit(ValueError):
    """A limit that cannot be parsed; the message is shown to a person."""


@dataclass
class _Changes:
    """The limits so far; `settled` is the number of settled rounds of a run that is over."""

    policy: Policy
    automation: AutomationPolicy
    settled: int | None
    of_run: dict[str, Any] = field(default_factory=dict)
    of_automation: dict[str, Any] = field(default_factory=dict)

    def read(self, word: str) -> None:
        """Read one ``NAME=VALUE``. Raises `BadLimit`."""
        name, _, text = word.partition("=")
        name = _IN_FILES.get(name, name)
        if name not in NAMES:
            known = ", ".join(NAMES)
            raise BadLimit(
                tr("no limit is called {name}; there are: {known}", name=name, known=known)
            )
        if name in _OF_RUN:
            self.of_run[_OF_RUN[name]] = self._number(name, text, self.policy, _OF_RUN[name])
        elif name == "goal":
            self.of_automation["goals"] = self._goals(text)
        elif name in ("logic", "heuristics"):
            self.of_automation[_OF_AUTOMATION[name]] = _choice(name, text)
        else:
            known = _OF_AUTOMATION[name]
            self.of_automation[known] = self._number(name, text, self.automation, known)

    def _number(self, name: str, text: str, owner: object, known: str) -> float | None:
        """Return the number, added to the present limit where it begins with a plus sign."""
        if text == NONE and name != "rounds":
            return None
        try:
            value = int(text) if name in _WHOLE else float(text)
        except ValueError:
            value = 0
        if not 0 < value < float("inf"):
            raise BadLimit(tr("{name} needs a number above 0: {name}=20", name=name))
        if not text.startswith("+"):
            return value
        now = getattr(owner, known)
        if name == "rounds" and self.settled is not None:
            now = self.settled
        if now is None:
            raise BadLimit(tr("there is no limit on {name} yet to add to", name=name))
        return value + float(now) if isinstance(value, float) else value + int(now)

    def _goals(self, text: str) -> tuple[Any, ...]:
        """Return the goals with this one in place of one on the same metric; no goals for none."""
        from akg_tui.core.stopping.goals import BadGoal, read_goal

        if text == NONE:
            return ()
        try:
            goal = read_goal(text)
        except BadGoal as error:
            raise BadLimit(str(error)) from None
        now = self.of_automation.get("goals", self.automation.goals)
        return (*(each for each in now if each.metric != goal.metric), goal)


def _choice(name: str, text: str) -> object:
    if name == "logic" and text.upper() in ("AND", "OR"):
        return text.upper()
    if name == "heuristics" and text.lower() in _SWITCH:
        return _SWITCH[text.lower()]
    words = "AND, OR" if name == "logic" else "on, off"
    raise BadLimit(tr("{name} can be: {words}", name=name, words=words))


def limited(policy: Policy, text: str, *, settled: int | None = None) -> Policy:
    """Return `policy` with the limits in `text`, as ``rounds=40 cost=+2 goal=speedup>=3``.

    The names are those of the options of ``tune`` or of a policy file. A number after a plus sign
    is added to the present limit; rounds are added to `settled`, which is stated for a run that is
    over. ``none`` removes a limit. Raises `BadLimit`.
    """
    from msgspec.structs import replace

    from akg_tui.core.stopping.automation import AutomationPolicy

    changes = _Changes(policy, policy.automation or AutomationPolicy(), settled)
    for word in text.split():
        changes.read(word)
    if changes.of_automation:
        changes.of_run["automation"] = replace(changes.automation, **changes.of_automation)
    return replace(policy, **changes.of_run)

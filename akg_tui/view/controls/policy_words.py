"""The policy of a run in words: read from the `:` line, and shown with what is used of it.

Pure. Owns the names of the limits on the `:` line, and the rows of the policy; the meaning of a
limit is in `akg_tui.core.stopping`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from akg_tui.core.model_info import known_cost_usd
from akg_tui.core.sanitize import one_line
from akg_tui.view import formatting
from akg_tui.view.glyphs import DONE, IDLE, bar
from akg_tui.view.language import marked, retold, tr
from akg_tui.view.spans import BLANK, Line, cells, fit, hang, line

if TYPE_CHECKING:
    from akg_tui.core.state import RunState
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
    """The limits so far; `settled` is the number of settled rounds of a run that is over, and
    `metrics` are those that the task declares.
    """

    policy: Policy
    automation: AutomationPolicy
    settled: int | None
    metrics: Sequence[str]
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
        from akg_tui.core.stopping.goals import BadGoal, read_goal, unmeasured

        if text == NONE:
            return ()
        try:
            goal = read_goal(text)
        except BadGoal as error:
            raise BadLimit(str(error)) from None
        if why := unmeasured(goal, self.metrics):
            raise BadLimit(why)
        now = self.of_automation.get("goals", self.automation.goals)
        return (*(each for each in now if each.metric != goal.metric), goal)


def _choice(name: str, text: str) -> object:
    if name == "logic" and text.upper() in ("AND", "OR"):
        return text.upper()
    if name == "heuristics" and text.lower() in _SWITCH:
        return _SWITCH[text.lower()]
    words = "AND, OR" if name == "logic" else "on, off"
    raise BadLimit(tr("{name} can be: {words}", name=name, words=words))


def limited(
    policy: Policy, text: str, *, settled: int | None = None, metrics: Sequence[str] = ()
) -> Policy:
    """Return `policy` with the limits in `text`, as ``rounds=40 cost=+2 goal=speedup>=3``.

    The names are those of the options of ``tune`` or of a policy file. A number after a plus sign
    is added to the present limit; rounds are added to `settled`, which is stated for a run that is
    over. ``none`` removes a limit. `metrics` are those that the task declares; a goal on a name
    with a space stands in quotes. Raises `BadLimit`.
    """
    from msgspec.structs import replace

    from akg_tui.core.stopping.automation import AutomationPolicy

    changes = _Changes(policy, policy.automation or AutomationPolicy(), settled, metrics)
    try:
        words = shlex.split(text)
    except ValueError:
        raise BadLimit(tr("a quote is not closed: {text}", text=text)) from None
    for word in words:
        changes.read(word)
    if changes.of_automation:
        changes.of_run["automation"] = replace(changes.automation, **changes.of_automation)
    return replace(policy, **changes.of_run)


class Setting(NamedTuple):
    """A row of the policy: its word on the `:` line, what is used of it, and its value there.

    `share` is the used part, from 0; None without a limit. `met` is that of a goal. `next` is the
    line that a switch is turned with.
    """

    word: str
    told: str
    value: str
    share: float | None = None
    met: bool | None = None
    next: str = ""


def settings(state: RunState, now: float) -> list[Setting]:
    """Return the policy of a run, limits first, each with what is used of it."""
    from akg_tui.core.stopping import limits
    from akg_tui.core.stopping.automation import AutomationPolicy

    policy = state.task.policy
    auto = policy.automation or AutomationPolicy()
    cost = known_cost_usd(state.usage)
    worked, since = state.worked(now), now - state.started_at
    spent = f"${cost:.2f}" if cost is not None else "$?"
    rows = [
        _limit("rounds", str(state.settled), state.settled, policy.max_rounds,
               formatting.count(policy.max_rounds, "round")),
        _limit("experiments", str(limits.experiments_done(state)), limits.experiments_done(state),
               auto.max_experiments, str(auto.max_experiments)),
        _limit("tokens", formatting.tokens(state.tokens), state.tokens, auto.max_tokens,
               formatting.token_limit(auto.max_tokens or 0)),
        _limit("cost", spent, cost or 0.0, auto.max_cost_usd, f"${auto.max_cost_usd or 0:g}"),
        _limit("hours", formatting.short_time(worked), worked / 3600, policy.max_hours,
               formatting.hours(policy.max_hours or 0)),
        _limit("wall", formatting.short_time(since), since, auto.max_wall_clock,
               formatting.short_time(auto.max_wall_clock or 0)),
        _limit("patience", str(limits.rounds_without_keep(state)),
               limits.rounds_without_keep(state), policy.max_rounds_without_keep,
               tr("{rounds} without a KEEP",
                  rounds=formatting.count(policy.max_rounds_without_keep or 0, "round"))),
    ]  # fmt: skip
    for goal, met, found in limits.each_goal(state):
        value = f"{goal.metric}{goal.operator}{goal.value:g}"
        value = shlex.quote(value) if " " in value else value
        told = one_line(str(goal))
        if found is not None:
            told = tr("{goal}, now {value}", goal=told, value=found)
        rows.append(Setting("goal", told, value, met=met))
    if not auto.goals:
        rows.append(Setting("goal", tr("none"), "speedup>="))
    other = "OR" if auto.logic == "AND" else "AND"
    joined = tr("all goals together end the run") if other == "OR" else tr("any goal ends the run")
    rows.append(Setting("logic", f"{auto.logic}: {joined}", auto.logic, next=f"logic={other}"))
    strict = policy.automation is None or auto.strict
    told = tr("phrases of failure end the run") if strict else tr("phrases do not end the run")
    word, turned = ("on", "off") if strict else ("off", "on")
    heard = Setting("heuristics", f"{word}: {told}", word, next=f"heuristics={turned}")
    return [*rows, heard]


def _limit(word: str, used: str, count: float, limit: float | None, of: str) -> Setting:
    if limit is None:
        return Setting(word, tr("{used}, no limit", used=used), "")
    told = f"{used} / {of}"
    return Setting(word, told, f"{limit:g}" if word != "tokens" else str(limit), count / limit)


_KNOWN_AS = {
    "rounds": marked("rounds"),
    "experiments": marked("experiments"),
    "tokens": marked("tokens"),
    "cost": marked("cost"),
    "hours": marked("time worked"),
    "wall": marked("time in all"),
    "patience": marked("without a KEEP"),
    "goal": marked("goal"),
    "logic": marked("logic"),
    "heuristics": marked("heuristics"),
}
_BAR = 10


def policy_rows(state: RunState, now: float, at_row: int, room: int) -> list[Line]:
    """Return a row for each setting, the marked one with a pointer, and why the run ends."""
    shown = settings(state, now)
    wide = max(cells(tr(name)) for name in _KNOWN_AS.values())
    rows: list[Line] = []
    for number, each in enumerate(shown):
        here = number == at_row
        name = tr(_KNOWN_AS[each.word])
        sign = line(("▸ " if here else "  ", "accent"))
        full, rest = bar(round(1000 * min(1.0, each.share or 0.0)), 1000, _BAR)
        used = line((full, "progress"), (rest, "progress.rest"), "  ")
        if each.share is None:
            met = {True: (DONE, "verdict.keep"), False: (IDLE, "muted"), None: (" ", "text")}
            used = line(met[each.met], " " * (_BAR + 1))
        label = (f"{name}{' ' * (wide - cells(name))}  ", "strong" if here else "muted")
        rows.append(fit(line(*sign, label, *used, (each.told, "text")), room))
    return [*rows, BLANK, *_ends(state, now, room)]


def _ends(state: RunState, now: float, room: int) -> Sequence[Line]:
    """Return the conditions that end the run or have ended it, the reason first."""
    from akg_tui.core.stopping.automation import CONDITION_PREFIX
    from akg_tui.core.stopping.limits import stop_reasons

    over = (state.finished,) if state.finished else ()
    reasons = state.stop_conditions or over or stop_reasons(state, now)
    if not reasons:
        return [line((tr("no condition to stop holds"), "muted"))]
    return [
        row
        for reason in reasons
        for row in hang(retold(one_line(reason)), room, line((CONDITION_PREFIX, "note")), "text")
    ]

"""The policy of a run in words: read from the `:` line, and shown with what is used of it.

Pure. Owns the names of the limits on the `:` line, and the rows of the policy; the meaning of a
limit is in `akg_tui.core.stopping`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from akg_tui.core.sanitize import Said, one_line
from akg_tui.core.stopping.limit_table import LIMITS, ROUNDS, WHOLE, Limit, Unit
from akg_tui.view import formatting
from akg_tui.view.glyphs import DONE, IDLE, bar
from akg_tui.view.language import retold, tr
from akg_tui.view.spans import BLANK, Line, cells, fit, hang, line

if TYPE_CHECKING:
    from akg_tui.core.state import RunState
    from akg_tui.core.task import Policy

_LIMITS = {limit.word: limit for limit in LIMITS}
NAMES = (*_LIMITS, "goal", "logic", "heuristics")
_IN_FILES = {
    **{name: limit.word for limit in LIMITS for name in (limit.key, limit.field)},
    **{"maxRounds": "rounds", "goals": "goal", "strictHeuristics": "heuristics"},
}
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
    settled: int | None
    metrics: Sequence[str]
    limits: dict[Limit, float | None] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)

    def read(self, word: str) -> None:
        """Read one ``NAME=VALUE``. Raises `BadLimit`."""
        name, _, text = word.partition("=")
        name = _IN_FILES.get(name, name)
        if name not in NAMES:
            known = ", ".join(NAMES)
            raise BadLimit(
                tr("no limit is called {name}; there are: {known}", name=name, known=known)
            )
        if limit := _LIMITS.get(name):
            self.limits[limit] = self._number(limit, text)
        elif name == "goal":
            self.others["goals"] = self._goals(text)
        elif name == "logic":
            self.others["logic"] = _choice(name, text)
        else:
            self.others["strict_heuristics"] = _choice(name, text)

    def _number(self, limit: Limit, text: str) -> float | None:
        """Return the number, added to the present limit where it begins with a plus sign."""
        name = limit.word
        if text == NONE and limit is not ROUNDS:
            return None
        try:
            value = int(text) if limit.unit in WHOLE else float(text)
        except ValueError:
            value = 0
        if not 0 < value < float("inf"):
            raise BadLimit(tr("{name} needs a number above 0: {name}=20", name=name))
        if not text.startswith("+"):
            return value
        now = limit.value(self.policy)
        if limit is ROUNDS and self.settled is not None:
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
        automation = self.policy.automation
        now = self.others.get("goals", automation.goals if automation is not None else ())
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
    from akg_tui.core.stopping.limits import with_limits

    changes = _Changes(policy, settled, metrics)
    try:
        words = shlex.split(text)
    except ValueError:
        raise BadLimit(tr("a quote is not closed: {text}", text=text)) from None
    for word in words:
        changes.read(word)
    return with_limits(policy, changes.limits, **changes.others)


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
    rows = [_row(limit, state, now) for limit in LIMITS]
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


def _row(limit: Limit, state: RunState, now: float) -> Setting:
    """Return the row of a limit: what is used of it, and the limit in the words of its unit."""
    from akg_tui.core.model_info import UnknownPrice

    most = limit.value(state.task.policy)
    used_words, limit_words = _UNITS[limit.unit]
    try:
        count = limit.used(state, now)
        used = used_words(count)
    except UnknownPrice:
        count, used = 0.0, "$?"
    if most is None:
        return Setting(limit.word, tr("{used}, no limit", used=used), "")
    value = str(most) if limit.unit in WHOLE else f"{most:g}"
    return Setting(limit.word, f"{used} / {limit_words(most)}", value, count / most)


_UNITS: dict[Unit, tuple[Callable[[Any], str], Callable[[Any], str]]] = {
    "rounds": (str, lambda most: formatting.count(most, "round")),
    "number": (str, str),
    "tokens": (formatting.tokens, formatting.token_limit),
    "USD": (lambda used: f"${used:.2f}", lambda most: f"${most:g}"),
    "hours": (lambda used: formatting.short_time(used * 3600), formatting.hours),
    "seconds": (formatting.short_time, formatting.short_time),
    "share": (lambda used: f"{used:.0%}" if used else tr("unknown"), lambda most: f"{most:.0%}"),
}
"""The words of a used amount and of a limit in each unit."""

_KNOWN_AS = {limit.word: limit.label for limit in LIMITS} | {
    "goal": Said("goal"),
    "logic": Said("logic"),
    "heuristics": Said("heuristics"),
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
        for row in hang(retold(reason), room, line((CONDITION_PREFIX, "note")), "text")
    ]

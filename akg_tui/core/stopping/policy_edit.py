"""One key of a policy changed by its name and a text, as a person types them. Pure."""

from __future__ import annotations

import difflib
import re
from typing import Any

import msgspec
from msgspec.structs import replace

from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.goals import BadGoal, read_goal
from akg_tui.core.task import Policy

UNSET = frozenset({"", "-", "none", "null", "unset"})


class BadPolicyKey(ValueError):
    """A key that there is not, or a text that is no value for it; one line that says so."""


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("-", "_")


_OWN = {field.name: field for field in msgspec.structs.fields(Policy) if field.name != "automation"}
_AUTOMATION = {
    field.name: field
    for field in msgspec.structs.fields(AutomationPolicy)
    if field.name not in _OWN  # max_rounds is the task's own, where all parts read it
}
POLICY_KEYS = (*_OWN, *_AUTOMATION)


def policy_value(policy: Policy, key: str) -> str:
    """The value of a key as `with_policy_key` would take it; "none" where it is not set."""
    name = _known(key)
    owner: Any = policy if name in _OWN else policy.automation or AutomationPolicy()
    value = getattr(owner, name)
    if name == "goals":
        return "; ".join(f"{g.metric}{g.operator}{g.value:g}" for g in value) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else f"{value}"


def with_policy_key(policy: Policy, key: str, text: str) -> Policy:
    """`policy` with one key changed, in either spelling (``max_tokens``, ``maxTokens``).

    ``none`` takes a limit away. ``goals`` are written ``speedup>=2; ratio>1.1``; one with a
    scope or a tolerance needs a file.

    Raises
    ------
    BadPolicyKey
        If there is no such key, or the text is no value for it.
    """
    name = _known(key)
    text = text.strip()
    if name == "goals":
        automation = policy.automation or AutomationPolicy()
        return replace(policy, automation=replace(automation, goals=_goals(text)))
    field = (_OWN | _AUTOMATION)[name]
    if text.lower() in UNSET:
        if field.default is not None:
            raise BadPolicyKey(f"{name} has to have a value; {field.default} when not said")
        value: Any = None
    else:
        value = _value(name, field.type, text)
    if name in _OWN:
        return replace(policy, **{name: value})
    automation = policy.automation or AutomationPolicy()
    if name in ("max_experiments", "max_tokens") and value is not None and value < 1:
        raise BadPolicyKey(f"{name}: expected an integer above 0, or none")
    return replace(policy, automation=replace(automation, **{name: value}))


def _known(key: str) -> str:
    name = _snake(key.strip())
    if name in POLICY_KEYS:
        return name
    near = difflib.get_close_matches(name, POLICY_KEYS, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(POLICY_KEYS)}"
    raise BadPolicyKey(f"{key.strip()!r} is no key of a policy; {hint}")


def _value(name: str, kind: Any, text: str) -> Any:
    if name == "logic" and text.upper() not in ("AND", "OR"):
        raise BadPolicyKey(f"logic: {text!r} is not allowed, expected AND or OR")
    try:
        value = msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        what = re.sub(r", got .*$", "", str(error)).replace("`", "").replace(" | null", "")
        raise BadPolicyKey(f"{name}: {text!r} is not allowed: {what}") from None
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise BadPolicyKey(f"{name}: {text!r} is not a finite number")
    return value


def _goals(text: str) -> tuple[Any, ...]:
    if text.lower() in UNSET:
        return ()
    try:
        return tuple(read_goal(each) for each in text.split(";") if each.strip())
    except BadGoal as error:
        raise BadPolicyKey(f"goals: {error}") from None

"""One key of a policy, typed by a person."""

from __future__ import annotations

import pytest

from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.goals import Goal
from akg_tui.core.stopping.policy_edit import (
    POLICY_KEYS,
    BadPolicyKey,
    policy_value,
    with_policy_key,
)
from akg_tui.core.task import Policy


@pytest.mark.parametrize(
    ("key", "text", "policy"),
    [
        ("max_rounds", " 40 ", Policy(max_rounds=40)),
        ("maxRounds", "40", Policy(max_rounds=40)),
        ("max-hours", "1.5", Policy(max_hours=1.5)),
        ("on_blocked", "stop", Policy(on_blocked="stop")),
        ("diagnosis_attempts", "5", Policy(diagnosis_attempts=5)),
    ],
)
def test_a_key_is_changed_in_either_spelling(key: str, text: str, policy: Policy) -> None:
    assert with_policy_key(Policy(), key, text) == policy


def test_a_key_of_the_automation_policy_is_changed_and_taken_away() -> None:
    policy = with_policy_key(Policy(), "maxTokens", "5000")
    policy = with_policy_key(policy, "goals", "speedup>=2; ratio > 1.1")
    policy = with_policy_key(policy, "strict_heuristics", "true")
    assert policy.automation == AutomationPolicy(
        max_tokens=5000,
        strict_heuristics=True,
        goals=(Goal("speedup", ">=", 2.0), Goal("ratio", ">", 1.1)),
    )
    assert policy_value(policy, "goals") == "speedup>=2; ratio>1.1"
    policy = with_policy_key(with_policy_key(policy, "max_tokens", "none"), "goals", "none")
    assert policy.automation == AutomationPolicy(strict_heuristics=True)
    assert with_policy_key(Policy(automation=None), "logic", "or").automation == AutomationPolicy(
        logic="OR"
    )


@pytest.mark.parametrize("key", POLICY_KEYS)
def test_every_value_can_be_typed_as_it_is_shown(key: str) -> None:
    policy = Policy(max_hours=2.0, automation=AutomationPolicy(max_tokens=7, max_cost_usd=1.5))
    assert policy_value(with_policy_key(policy, key, policy_value(policy, key)), key) == (
        policy_value(policy, key)
    )


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("max_round", "4", "did you mean max_rounds"),
        ("zzz", "4", "there are: max_rounds"),
        ("max_rounds", "0", "max_rounds: '0' is not allowed: Expected int >= 1"),
        ("max_rounds", "many", "Expected int"),
        ("max_rounds", "none", "max_rounds has to have a value; 20"),
        ("max_hours", "nan", "max_hours: 'nan'"),
        ("max_cost_usd", "-1", "Expected float > 0"),
        ("max_tokens", "0", "an integer above 0, or none"),
        ("on_blocked", "shout", "on_blocked: 'shout'"),
        ("logic", "XOR", "expected AND or OR"),
        ("goals", "fun>2", "goals: 'fun' is not measured"),
        ("count", "none", "count has to have a value; settled"),
    ],
)
def test_what_is_no_value_is_told_by_its_key(key: str, text: str, told: str) -> None:
    with pytest.raises(BadPolicyKey) as error:
        with_policy_key(Policy(), key, text)
    assert told in str(error.value)

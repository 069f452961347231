"""Policies on disk: in task.toml, in a JSON file, and in journals from before there were any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from akg_tui.core.fold import fold
from akg_tui.core.stopping.automation import TUNING, AutomationPolicy
from akg_tui.core.stopping.goals import Goal
from akg_tui.store.errors import BadFile, BadTask, RunFolderError
from akg_tui.store.journal import read
from akg_tui.store.task_toml import load_policy, parse_task

PLACE = Path("task.toml")
FULL = """\
op = "a"
metrics = ["Val ACC"]
[policy]
min_plan_items = 2

[policy.automation]
logic = "or"
maxExperiments = 30
maxTokens = 2000000
strictHeuristics = true
maxRounds = 40
maxCostUsd = 5
maxWallClock = 3600
count = "completed"

[[policy.automation.goals]]
metric = "speedup"
operator = ">="
value = 2
scope = "best"

[[policy.automation.goals]]
metric = "Val ACC"
operator = ">"
value = 0.92
"""


def test_task_toml_holds_the_pages_fields_and_the_extensions() -> None:
    policy = parse_task(PLACE, FULL).policy
    assert policy.max_rounds == 40
    assert policy.min_plan_items == 2
    assert policy.automation == AutomationPolicy(
        logic="OR",
        goals=(Goal("speedup", ">=", 2.0, scope="best"), Goal("Val ACC", ">", 0.92)),
        max_experiments=30,
        max_tokens=2_000_000,
        strict_heuristics=True,
        max_cost_usd=5.0,
        max_wall_clock=3600.0,
        count="completed",
    )
    assert parse_task(PLACE, 'op = "a"\n').policy.automation == TUNING


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ('operator = ">"', 'operator = "=>"', 24, "policy.automation.goals.1.operator: '=>' is"),
        ("value = 2\n", 'value = "2"\n', 19, "policy.automation.goals.0.value: '2' is not allowed"),
        ('logic = "or"', 'logic = "xor"', 7, "logic: 'xor' is neither AND nor OR"),
        ("maxExperiments = 30", "maxExperiments = 0", 8, "maxExperiments: 0 is not above 0"),
        ("maxExperiments", "maxExperiment", 8, "did you mean maxExperiments?"),
        ("maxTokens = 2000000", "maxTokens = true", 9, "maxTokens: True is not allowed"),
        ("min_plan_items = 2", "max_rounds = 30", 11, "says 40, but policy.max_rounds says 30"),
        ('scope = "best"', 'scope = "best"\nconsecutive = 2', 16, "does not go with scope best"),
        ("value = 0.92", "value = inf", 25, "expected a finite number"),
        ('["Val ACC"]', '["Val ACC", "ratio"]', 1, "two metrics are named 'ratio'"),
        ('["Val ACC"]', '["Val > ACC"]', 2, "metrics.0: 'Val > ACC' is not allowed"),
    ],
)
def test_what_task_toml_leaves_in_doubt_is_refused_by_line(old, new, line, told) -> None:
    assert old in FULL
    with pytest.raises(BadTask) as error:
        parse_task(PLACE, FULL.replace(old, new, 1))
    assert told in str(error.value)
    assert str(error.value).startswith(f"task.toml:{line}: ")


def test_a_json_policy_is_read_and_its_doubts_are_told(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"automation_policy": {"logic": "maybe", "maxTokens": -1}}))
    policy, doubts = load_policy(path)
    assert policy is not None
    assert policy.logic == "AND"
    assert len(doubts) == 2
    assert all(text.startswith(str(path)) for text in doubts)
    path.write_text('{"automation_policy": null}')
    assert load_policy(path) == (None, [])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{\n", ":2: not valid JSON"),
        ("[1]", ":1: [1] is not allowed, expected table"),
        ('{\n"maxTokenz": 3}', ":2: maxTokenz: is not a known field, did you mean maxTokens?"),
        ('{"goals": [{"metric": "m", "operator": ">", "value": NaN}]}', "not valid JSON"),
        ('{"goals": [{"metric": "m",\n"operator": "~", "value": 1}]}', ":2: goals.0.operator: '~'"),
        ('{"maxCostUsd": 0}', ":1: maxCostUsd: 0 is not allowed, expected a number above 0"),
    ],
)
def test_a_json_file_that_is_no_policy_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(BadFile, match=r"p\.json") as error:
        load_policy(path)
    assert told in str(error.value)


def test_a_policy_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="cannot read"):
        load_policy(tmp_path / "none.json")


def test_a_journal_from_before_automation_policies_still_folds() -> None:
    records = read(Path(__file__).parent / "fixtures" / "journal_0_1.jsonl")
    state = fold(records)
    assert state is not None
    assert state.finished == "max rounds reached (6)"
    assert state.settled == 6
    assert state.task.policy.automation == TUNING
    assert state.stop_conditions == ()

"""The limits in docs/policy.md are those of `limit_table`, in the order of the stop test."""

from pathlib import Path

import pytest

from akg_tui.cli import parser
from akg_tui.core.stopping.limit_table import LIMITS, WHOLE
from akg_tui.core.stopping.limits import stop_reasons, with_limits
from akg_tui.core.task import Policy
from akg_tui.view.controls.policy_words import NAMES, limited, settings
from tests.core.simulated import SimulatedRun

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()


def rows() -> str:
    found = ["| Limit | In `task.toml` | Option | What is counted |", "|---|---|---|---|"]
    for limit in LIMITS:
        table = "policy.automation" if limit.automated else "policy"
        place = f"`{limit.key}` in `[{table}]`"
        found.append(f"| `{limit.word}` | {place} | `{limit.option}` | {limit.meaning} |")
    return "\n".join(found) + "\n"


def test_the_page_has_the_table_of_limits() -> None:
    assert rows() in PAGE, f"docs/policy.md needs this table:\n{rows()}"


def test_the_page_has_the_reasons_in_the_order_of_the_stop_test() -> None:
    order = " ".join(PAGE.partition("## Order of the conditions")[2].split())
    places = [order.index(limit.reached.partition(" (")[0].partition("{")[0]) for limit in LIMITS]
    assert places == sorted(places)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.word)
def test_each_limit_ends_a_run_and_is_set_and_shown_everywhere_by_its_row(limit) -> None:
    state = SimulatedRun().state
    used = limit.used(state, state.last_at + 1)
    policy = with_limits(Policy(), {limit: 4})
    assert limit.value(policy) == 4
    assert limited(Policy(), f"{limit.word}=4") == policy
    assert limited(Policy(), f"{limit.key}=4") == policy
    given = parser().parse_args(["tune", "t", limit.option, "4"])
    assert getattr(given, limit.field) == 4
    row = settings(state, state.last_at + 1)[NAMES.index(limit.word)]
    assert row.word == limit.word
    assert used >= 0
    if limit.unit not in WHOLE:
        policy = with_limits(Policy(), {limit: 0.5})
        assert limit.value(policy) == 0.5


def test_no_limit_is_reached_before_a_round() -> None:
    run = SimulatedRun()
    assert stop_reasons(run.state, run.now) == ()

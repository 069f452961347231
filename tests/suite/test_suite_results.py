"""The figures of suites: fast_p, means with intervals, pairs, and pages that escape."""

from __future__ import annotations

import json

import pytest

from akg_tui.suite.paired import compare
from akg_tui.suite.suite_pages import as_text, page_of, render
from akg_tui.suite.suite_results import (
    SuiteResults,
    TaskResult,
    _agent_result,
    geometric_mean,
)


def result(task: str, over_eager: float | None, **more: object) -> TaskResult:
    state = "correct" if over_eager else "failed"
    given = {"task": task, "agent": "a", "state": state, "over_eager": over_eager, **more}
    return TaskResult(**given)  # type: ignore[arg-type]


def test_fast_p_counts_every_task_that_could_be_run() -> None:
    tasks = [
        result("one", 1.0),
        result("two", 1.6, over_compile=1.2),
        result("three", 4.0, over_compile=0.9),
        result("wrong", None),
        TaskResult(task="broken", agent="a", state="refused", why="task.toml:1"),
    ]
    found = _agent_result("a", tasks)
    assert (found.tasks, found.refused, found.correct_share) == (4, 1, 0.75)
    assert found.fast_eager == {"1": 0.5, "1.5": 0.5, "2": 0.25}
    # Compile was measured in two; the task without a correct kernel is faster than nothing.
    assert found.compile_tasks == 2
    assert found.fast_compile == {"1": 1 / 3, "1.5": 0.0, "2": 0.0}
    assert found.mean_eager is not None
    assert found.mean_eager.mean == pytest.approx((1.0 * 1.6 * 4.0) ** (1 / 3))


def test_an_agent_without_a_correct_kernel_is_fast_in_no_task() -> None:
    found = _agent_result("a", [result("wrong", None)])
    assert found.fast_eager == {"1": 0.0, "1.5": 0.0, "2": 0.0}
    assert (found.correct_share, found.mean_eager, found.fast_compile) == (0.0, None, {})


def test_before_any_end_a_suite_says_that_none_has_ended() -> None:
    tasks = tuple(TaskResult(task=name, agent="a", state="open") for name in ("one", "two"))
    agent = _agent_result("a", tasks)
    results = SuiteResults(schema=1, name="s", version="0", agents=(agent,), tasks=tasks)
    page = as_text(page_of(results))
    assert "none has ended" in page
    assert "0 %" not in page
    assert (agent.correct_share, agent.fast_eager) == (None, {})


def test_the_interval_of_a_mean_is_the_same_each_time_and_holds_the_mean() -> None:
    ratios = [0.8, 1.1, 1.4, 2.0, 3.0]
    found = geometric_mean(ratios)
    assert found is not None
    assert found == geometric_mean(ratios)
    assert 0.8 < found.low < found.mean < found.high < 3.0
    assert geometric_mean([]) is None


def test_two_agents_are_compared_task_by_task() -> None:
    a = [result(f"t{n}", 1.0 + n / 10) for n in range(10)]
    b = [result(f"t{n}", (1.0 + n / 10) * 1.2) for n in range(8)]
    b += [result("t8", None), TaskResult(task="t9", agent="a", state="open")]
    found = compare(("A", a), ("B", b))
    assert (found.both_correct, found.only_a, found.only_b, found.left_out) == (8, 1, 0, 1)
    assert found.speed is not None
    assert found.speed.mean == pytest.approx(1.2)
    alike = compare(("A", a), ("A", a))
    assert alike.speed is not None
    assert alike.speed.mean == 1.0


def test_a_ratio_that_is_not_proved_is_marked_in_the_tables_of_a_suite() -> None:
    a, b = [result("t1", 1.7, not_proved=("eager",))], [result("t1", 2.5)]
    task = SuiteResults(name="s", version="1", agents=(), tasks=(*a, *b), schema=1)
    for text in (as_text(page_of(task)), as_text(page_of(compare(("A", a), ("B", b))))):
        assert " 1.70? " in text
        assert " 2.50 " in text
        assert "?: the interval of the ratio proves neither faster nor slower." in text


def test_text_from_elsewhere_reaches_no_page_as_markup() -> None:
    why = "=1+1 <script>|`\x1b[31m\u202e"
    task = TaskResult(task="evil", agent="a", state="refused", why=why)
    results = SuiteResults(
        schema=1, name="s", version="0", agents=(_agent_result("a", [task]),), tasks=(task,)
    )
    markdown = render(results, "md")
    assert "\x1b" not in markdown + as_text(page_of(results))
    assert "\u202e" not in markdown
    assert "¦" in markdown
    assert json.loads(render(results, "json"))["tasks"][0]["why"] == why

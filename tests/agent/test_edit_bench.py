"""The benchmark with a model: what a session proves, what is kept, what the figures mean."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from akg_tui.agent.chat import ChatReply, ChatRequest, ModelFailed, ToolUse
from benchmarks.edit_formats.mutations import KINDS, OPTIONAL_CHAINING
from benchmarks.edit_formats.whole_file import ALL_FORMATS
from benchmarks.edit_models.results import BadResults, Results, Setting
from benchmarks.edit_models.runner import play, prompt_digest
from benchmarks.edit_models.scripted import Scripted
from benchmarks.edit_models.session import MAX_TURNS, Session, run_session
from benchmarks.edit_models.statistics import figures, paired
from benchmarks.edit_models.tasks import EditTask, draw_tasks
from tests.cli.test_cli import here


@pytest.fixture(scope="module")
def tasks() -> tuple[EditTask, ...]:
    """Tasks of every kind."""
    return draw_tasks(20, seed=7)


class Playing:
    """A model that gives these replies one after the other, and then only says that it is done."""

    name = "playing"

    def __init__(self, *replies: ChatReply | ModelFailed) -> None:
        self._replies = list(replies)
        self.asked: list[ChatRequest] = []

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        self.asked.append(request)
        reply = self._replies.pop(0) if self._replies else ChatReply("done")
        if isinstance(reply, ModelFailed):
            raise reply
        return reply


def called(tool: str, arguments: dict[str, object]) -> ChatReply:
    return ChatReply("", (ToolUse("c", tool, arguments),), input_tokens=100, output_tokens=10)


def _nothing(done: int, total: int) -> None:
    pass


def test_tasks_cover_every_kind_name_the_function_and_never_the_line(
    tasks: tuple[EditTask, ...],
) -> None:
    assert {task.kind for task in tasks} == set(KINDS) - {OPTIONAL_CHAINING}
    assert draw_tasks(20, seed=7) == tasks
    assert draw_tasks(20, seed=8) != tasks
    for task in tasks:
        assert task.broken != task.original
        assert task.prompt.startswith(f"# Fix the bug in `{task.path}`")
        assert "line" not in task.prompt.replace("multiline", "")
    assert sum("in the function `" in task.prompt for task in tasks) > len(tasks) / 2


async def test_a_slip_in_hashline_is_refused_and_corrected_at_the_next_call(
    tasks: tuple[EditTask, ...],
) -> None:
    model = Scripted(tasks, slip=1.0, seed=1)
    sessions = [await run_session(task, "hashline", 1, model, key=b"k") for task in tasks]
    assert all(session.fixed for session in sessions)
    assert all(session.refused == 1 for session in sessions)


async def test_a_model_that_only_talks_or_never_stops_has_fixed_nothing(
    tasks: tuple[EditTask, ...],
) -> None:
    idle = await run_session(tasks[0], "hashline", 1, Playing(), key=b"k")
    assert (idle.fixed, idle.wrong, idle.turns) == (False, False, 1)
    reading = [called("read", {})] * (MAX_TURNS + 5)
    endless = await run_session(tasks[0], "hashline", 1, Playing(*reading), key=b"k")
    assert (endless.fixed, endless.turns) == (False, MAX_TURNS)
    assert endless.input_tokens == 100 * MAX_TURNS


async def test_another_change_than_the_repair_is_counted_as_wrong(
    tasks: tuple[EditTask, ...],
) -> None:
    task = next(task for task in tasks if task.path.endswith(".py"))
    line = task.broken.split("\n")[0]
    assert task.broken.count(line + "\n") == 1
    edit = called("edit", {"old": line + "\n", "new": line + "  # mended\n"})
    session = await run_session(task, "str_replace", 1, Playing(called("read", {}), edit), key=b"k")
    assert (session.fixed, session.wrong, session.edits, session.refused) == (False, True, 1, 0)


@pytest.mark.parametrize(
    "arguments", [{}, {"ops": "rubbish"}, {"ops": [{"op": "burn"}]}, {"old": 3, "new": None}]
)
async def test_malformed_arguments_are_refused_and_change_nothing(
    arguments: dict[str, object], tasks: tuple[EditTask, ...]
) -> None:
    for form in ALL_FORMATS:
        tool = "write" if form == "write" else "edit"
        model = Playing(called("read", {}), called(tool, arguments), called("burn", {}))
        session = await run_session(tasks[0], form, 1, model, key=b"k")
        assert (session.fixed, session.wrong, session.refused) == (False, False, 1)


async def test_a_benchmark_goes_on_where_it_was_cut_off(
    tmp_path: Path, tasks: tuple[EditTask, ...]
) -> None:
    path = tmp_path / "results.jsonl"
    tasks = tasks[:3]
    setting = Setting("kernels", 7, len(tasks), prompt_digest(tasks), False)
    formats = ["hashline", "str_replace"]
    whole = Results(setting, None)
    await play(tasks, formats, 2, [Scripted(tasks, slip=0, seed=1)], whole, on_session=_nothing)
    assert len(whole.sessions) == 12

    first = Results(setting, path)
    model = Scripted(tasks, slip=0, seed=1)
    broken = Playing(*[called("read", {})] * (MAX_TURNS + 1), ModelFailed("the line went dead"))
    broken.name = model.name
    with pytest.raises(ModelFailed):
        await play(tasks, formats, 2, [broken], first, on_session=_nothing)
    assert len(first.sessions) == 1
    with path.open("ab") as file:
        file.write(b'{"task":"t1","form')  # killed while writing

    again = Results(setting, path)
    assert again.sessions == first.sessions
    await play(tasks, formats, 2, [model], again, on_session=_nothing)
    assert len(again.sessions) == 12
    assert Results(setting, path).sessions == again.sessions


def test_results_of_something_else_are_refused_by_name_and_line(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    Results(Setting("kernels", 7, 3, "abc", False), path)
    with pytest.raises(BadResults, match="begun with seed 7, not 8"):
        Results(Setting("kernels", 8, 3, "abc", False), path)
    path.write_text(path.read_text() + "rubbish\n")
    with pytest.raises(BadResults, match="line 2"):
        Results(Setting("kernels", 7, 3, "abc", False), path)
    path.write_text("rubbish\n")
    with pytest.raises(BadResults, match="line 1"):
        Results(Setting("kernels", 7, 3, "abc", False), path)


def _session(
    task: int, form: str, fixed: bool, repeat: int = 1, *, model: str = "m", output: int = 100
) -> Session:
    return Session(
        model=model, task=f"t{task}", format=form, repeat=repeat, fixed=fixed, formatted=True,
        wrong=not fixed, edits=2, writes=0, refused=1, turns=3, input_tokens=1000,
        output_tokens=output,
    )  # fmt: skip


def test_the_paired_test_counts_only_pairs_that_differ() -> None:
    sessions = [_session(n, "hashline", n < 9) for n in range(10)]
    sessions += [_session(n, "str_replace", n < 3) for n in range(10)]
    [found] = paired(sessions, "hashline", seed=1)
    assert (found.rival, found.pairs, found.wins, found.losses) == ("str_replace", 10, 6, 0)
    assert found.p == pytest.approx(2 * 0.5**6)
    assert found.difference == pytest.approx(0.6)
    assert 0.2 <= found.low < 0.6 < found.high <= 1.0


def test_the_interval_of_a_difference_is_over_tasks_not_over_repeats() -> None:
    def width(repeats: int) -> float:
        sessions = []
        for n in range(10):
            for repeat in range(repeats):
                sessions.append(_session(n, "hashline", True, repeat))
                sessions.append(_session(n, "str_replace", n % 2 == 0, repeat))
        [found] = paired(sessions, "hashline", seed=1)
        return found.high - found.low

    assert width(5) == pytest.approx(width(1), abs=0.05)


def test_rates_come_with_their_interval() -> None:
    [found] = figures([_session(n, "hashline", n < 8) for n in range(10)])
    assert found.success.share == 0.8
    assert found.success.low == pytest.approx(0.490, abs=0.001)
    assert found.success.high == pytest.approx(0.943, abs=0.001)
    assert found.formatted.share == found.formatted.high == 1.0
    assert found.refused_calls == 0.5


def test_the_command_prints_one_json_object_and_resumes_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    words = ("bench", "edits", "--model", "scripted", "--tasks", "2", "--repeats", "1")
    words = (*words, "--results", str(path))
    first = here(*words, "--json")
    assert first.returncode == 0, first.stderr
    found = json.loads(first.stdout)
    assert len(found["sessions"]) == 8
    assert {p["rival"] for p in found["paired"]} == {"str_replace", "apply_patch", "unified diff"}
    before = path.read_bytes()
    again = here(*words)
    assert path.read_bytes() == before
    assert "says nothing about any model" in again.stdout


def test_bad_options_are_one_clear_line() -> None:
    for words, told in (
        (("--model", "scripted", "--formats", "telepathy"), "no edit format 'telepathy'"),
        (("--model", "scripted", "--formats", ","), "at least one edit format"),
        (("--model", "scripted", "--slip", "2"), "a number from 0 to 1"),
        (("--tokenizer", "/no/such/file"), "cannot read /no/such/file"),
    ):
        refused = here("bench", "edits", *words)
        assert refused.returncode == 2
        assert told in refused.stderr

"""A task of one's own begins as by `akg-tui new` and `tune`: by keys, on a small terminal too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.events import Paste
from textual.widgets import Input

from akg_tui.core.measurement import FailureKind, Measurement, Outcome, Progress
from akg_tui.core.task import DEFAULT_CLAUDE, Agent
from akg_tui.engine.run_service import Limits, RunRequest
from akg_tui.store.task_folder import load_task
from akg_tui.tui import run_start
from akg_tui.tui.run_start import Draft, Unfit
from akg_tui.tui.screens.new_run import FIELDS, Wizard
from akg_tui.view.controls.completion import paths
from tests.engine.runs import KERNEL, REFERENCE
from tests.evaluate import kernels

from .listing import Listed, listed

SMALL = (80, 24)
KNOBLESS = "class ModelNew:\n    pass\n"
CORRECT = Measurement(outcome=Outcome.CORRECT, candidate_ms=2.0)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Measurement]:
    """What the judge says, one a check; correct when nothing is left. No key is in the way."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    said: list[Measurement] = []

    async def evaluate(self: object, kernel: str, incumbent: object) -> Measurement:
        return said.pop(0) if said else CORRECT

    async def close(self: object) -> None:
        return None

    class Judged:
        def __init__(
            self, *given: object, on_progress: Callable[[Progress], None], **_: object
        ) -> None:
            on_progress(Progress("time", 1, 8))

    Judged.evaluate = evaluate  # type: ignore[attr-defined]
    Judged.close = close  # type: ignore[attr-defined]
    monkeypatch.setattr("akg_tui.evaluate.Judge", Judged)
    return said


def folder_with(tmp_path: Path, kernel: str = KERNEL) -> Path:
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "kernel.py").write_text(kernel)
    return tmp_path


async def to_wizard(stage: Listed) -> Wizard:
    await stage.until(lambda: stage.app.focused is stage.runs.view)
    await stage.press("n", "enter")
    await stage.until(lambda: isinstance(stage.app.screen, Wizard))
    assert isinstance(stage.app.screen, Wizard)
    return stage.app.screen


async def write(stage: Listed, name: str, text: str) -> None:
    """Go to a field with the arrows, type over what stands there, and paste the rest."""
    wizard = stage.app.screen
    assert isinstance(wizard, Wizard)
    shown = [field.name for field in FIELDS if wizard.query_one(f"#row-{field.name}").display]
    here = wizard._here
    steps = shown.index(name) - shown.index(here.name)
    await stage.press(*["down" if steps > 0 else "up"] * abs(steps))
    await stage.press("end", "ctrl+u", *text[:3])
    if text[3:]:
        stage.app.post_message(Paste(text[3:]))
        await stage.pilot.pause()
    assert wizard.query_one(f"#field-{name}", Input).value == text


def below(stage: Listed, label: str) -> str:
    """What is told right below a field, without the breaks of its rows."""
    rows = [row[row.find("│") + 1 : row.rfind("│")] for row in stage.text().split("\n")]
    at = next(n for n, row in enumerate(rows) if row.startswith(f" {label}  "))
    told = []
    for row in rows[at + 1 :]:
        if not row.startswith(" " * 14):
            break
        told.append(row.strip())
    return " ".join(told)


async def test_a_run_of_a_model_at_a_server_of_ones_own_is_begun_by_keys_in_80_by_24(
    tmp_path: Path, judged: list[Measurement], begun: list[RunRequest]
) -> None:
    folder_with(tmp_path, KNOBLESS)
    async with listed(tmp_path, SMALL) as stage:
        await to_wizard(stage)
        assert "server" not in stage.text(), "sweep needs none"
        await write(stage, "agent", "qwen3-coder")
        await write(stage, "server", "http://127.0.0.1:8080")
        await write(stage, "dsl", "torch")
        await write(stage, "rounds", "7")
        for field in FIELDS:
            assert field.label in stage.text(), "all of them are in sight"
        await stage.press("enter")
        await stage.shows("enter again writes the task and begins the run")
        assert not (tmp_path / "mytask").exists()
        await stage.press("enter")
        await stage.shows("noted, and that is all of it")
    (start,) = begun
    agent = Agent("qwen3-coder", base_url="http://127.0.0.1:8080")
    assert start == RunRequest(tmp_path / "mytask", limits=Limits(max_rounds=7), agent=agent)
    assert load_task(tmp_path / "mytask").task.target.dsl == "torch"


async def test_a_run_of_claude_with_a_key_in_a_file_and_a_bound_on_its_cost(
    tmp_path: Path,
    judged: list[Measurement],
    begun: list[RunRequest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / "key").write_text("sk-test")
    folder_with(home, KNOBLESS)
    (tmp_path / "here").mkdir()
    async with listed(tmp_path / "here") as stage:
        await to_wizard(stage)
        await write(stage, "reference", "~/reference.py")
        await write(stage, "kernel", "~/kernel.py")
        await write(stage, "folder", "~/tasks/mine")
        await write(stage, "agent", "claude")
        await stage.press("enter")
        await stage.shows("no key for")
        assert "ANTHROPIC_API_KEY before you start" in below(stage, "key file")
        await write(stage, "key", "~/key")
        await write(stage, "cost", "2.5")
        await stage.press("enter")
        await stage.shows("enter again writes the task")
        await stage.press("enter")
        await stage.shows("noted, and that is all of it")
    (start,) = begun
    assert start.folder == home / "tasks" / "mine"
    assert start.agent == Agent(DEFAULT_CLAUDE, api_key_file=str(home / "key"))
    assert start.limits.max_cost_usd == 2.5
    assert (start.folder / "kernel.py").read_text() == KNOBLESS
    assert "sk-test" not in (start.folder / "task.toml").read_text()


async def test_what_was_said_goes_into_the_run_and_before_what_the_task_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: list[Measurement]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    folder_with(tmp_path, KNOBLESS)
    draft = Draft(
        tmp_path / "reference.py", tmp_path / "kernel.py", tmp_path / "t", arch="zen4",
        agent=Agent(DEFAULT_CLAUDE), max_cost=1.0, rounds=3, mode="review",
    )  # fmt: skip
    engine = await run_start.begun(await run_start.written(draft))
    task = engine.state.task
    await engine.close()
    assert (task.agent.model, task.target.arch) == (DEFAULT_CLAUDE, "zen4")
    assert (task.policy.max_rounds, task.policy.automation.max_cost_usd) == (3, 1.0)
    assert engine.state.mode == "review"
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(Unfit, match="no key for"):
        await run_start.begun(draft.request)
    assert len(list((tmp_path / "t" / "runs").iterdir())) == 1, "no run that could not begin"


FAULTS: tuple[tuple[dict[str, str], str, str], ...] = (
    ({"reference": "gone.py"}, "reference", "No such file or directory"),
    ({"reference": "knobless.py"}, "reference", "line 1: Model: is missing"),
    ({"kernel": "other.py"}, "kernel", "line 1: ModelNew: is missing"),
    ({"kernel": "reference.py"}, "kernel", "is the reference too"),
    ({"kernel": "~nobody-here/k.py"}, "kernel", "is nobody's home"),
    ({"folder": ""}, "task folder", "it needs a name"),
    ({"folder": "."}, "task folder", "has files in it"),
    ({"folder": "kernel.py"}, "task folder", "Not a directory"),
    ({"backend": "cuda"}, "target", 'backend = "cuda"'),
    ({"backend": "ascend"}, "target", 'backend = "ascend"'),
    ({"backend": "tpu"}, "target", "'tpu' is none of cpu, cuda"),
    ({"dsl": "triton"}, "DSL", "there is nothing to tune by"),
    ({"kernel": "knobless.py"}, "kernel", "sweep turns knobs and this kernel declares none"),
    ({"kernel": "odd.py"}, "kernel", "line 1: SPEED: the value 'A' is not among its choices"),
    ({"agent": "two words"}, "agent", "'two words' is not allowed: an id has letters"),
    ({"agent": "m", "server": "ftp://x"}, "server", "an address is like http://127.0.0.1"),
    ({"agent": "m", "server": "http://127.0.0.1:1", "cost": "1"}, "cost", "needs a price"),
    ({"agent": "claude", "key": "gone"}, "key file", "No such file or directory"),
    ({"agent": "claude", "cost": "0"}, "cost", "'0' is not a number above 0"),
    ({"rounds": "0"}, "rounds", "'0' is not a number from 1 on"),
    ({"mode": "wild"}, "mode", "'wild' is none of auto, review, step"),
)


async def test_every_fault_is_told_right_below_its_field_and_the_cursor_goes_there(
    tmp_path: Path, judged: list[Measurement]
) -> None:
    folder_with(tmp_path)
    (tmp_path / "knobless.py").write_text(KNOBLESS)
    (tmp_path / "other.py").write_text(REFERENCE)
    (tmp_path / "odd.py").write_text('SPEED = "A"  # tune: ["B"]\n' + KNOBLESS)
    async with listed(tmp_path, SMALL) as stage:
        wizard = await to_wizard(stage)
        for typed, label, told in FAULTS:
            wizard.query_one("#field-agent", Input).focus()
            for field in FIELDS:
                value = typed.get(field.name, field.value)
                wizard.query_one(f"#field-{field.name}", Input).value = value
            await stage.pilot.pause()
            await stage.press("enter")
            try:
                await stage.until(lambda told=told, label=label: told in below(stage, label))  # type: ignore[misc]
            except TimeoutError:
                raise AssertionError(f"never saw {told!r} in:\n{stage.text()}") from None
            assert wizard._here.label == label
            assert not (tmp_path / "mytask").exists()
            await stage.press("x")
            assert told not in below(stage, label), "it is told until it is changed"


async def test_a_failed_check_is_told_at_the_file_that_it_is_about(
    tmp_path: Path, judged: list[Measurement]
) -> None:
    folder_with(tmp_path)
    judged += [
        Measurement(
            outcome=Outcome.FAILED, failure=FailureKind.WRONG, message="values differ",
            detail="the worst of them is at [3]",
        ),
        Measurement(
            outcome=Outcome.ERROR, failure=FailureKind.REFERENCE, message="it raises KeyError"
        ),
        Measurement(outcome=Outcome.ERROR, failure=FailureKind.JUDGE, message="the judge is lost"),
    ]  # fmt: skip
    async with listed(tmp_path, SMALL) as stage:
        wizard = await to_wizard(stage)
        await stage.press("enter")
        await stage.until(lambda: "wrong: values differ" in below(stage, "kernel"))
        await stage.shows("the worst of them is at [3]")
        await stage.press("enter")
        await stage.until(lambda: "it raises KeyError" in below(stage, "reference"))
        await stage.press("enter")
        await stage.shows("the judge is lost")
        assert "KeyError" not in stage.text(), "a fault is told until the next check"
        await stage.press("enter")
        await stage.shows("enter again writes the task")
        assert wizard._passed is not None
        await stage.press("escape", "escape")
        await stage.until(lambda: stage.app.screen is stage.runs)
    assert not (tmp_path / "mytask").exists()


async def test_a_check_is_cut_off_by_escape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def checked(draft: Draft, tell: Callable[[Progress], None]) -> Measurement:
        tell(Progress("time", 3, 8))
        await asyncio.Event().wait()
        return CORRECT

    monkeypatch.setattr(run_start, "checked", checked)
    async with listed(folder_with(tmp_path), SMALL) as stage:
        await to_wizard(stage)
        await stage.press("enter")
        await stage.shows("checking: time 3/8")
        await stage.press("escape")
        await stage.shows("the check was cut off; nothing was written")
    assert not (tmp_path / "mytask").exists()


async def test_a_kernel_is_made_of_the_reference_where_none_is_named(
    tmp_path: Path, judged: list[Measurement], begun: list[RunRequest]
) -> None:
    (tmp_path / "reference.py").write_text(kernels.REFERENCE)
    async with listed(tmp_path, SMALL) as stage:
        wizard = await to_wizard(stage)
        await write(stage, "kernel", "")
        await write(stage, "dsl", "torch")
        await write(stage, "agent", "qwen3-coder")
        await write(stage, "server", "http://127.0.0.1:8080")
        await stage.press("enter")
        await wizard._work.wait()  # the commands of the check may take long
        await stage.shows("enter again writes the task and begins the run")
        assert not (tmp_path / "mytask").exists()
        await stage.press("enter")
        await stage.shows("noted, and that is all of it")
    task = load_task(tmp_path / "mytask")
    assert "ModelNew does what Model of reference.py does" in task.kernel.text
    assert (task.task.op, task.task.target.dsl) == ("mytask", "torch")
    assert begun[0].folder == tmp_path / "mytask"


async def test_a_wrong_kernel_is_no_obstacle_to_a_run_of_a_model(
    tmp_path: Path, judged: list[Measurement], begun: list[RunRequest]
) -> None:
    wrong = Measurement(outcome=Outcome.FAILED, failure=FailureKind.WRONG, message="values differ")
    judged += [wrong, wrong]
    folder_with(tmp_path)
    async with listed(tmp_path) as stage:
        await to_wizard(stage)
        await stage.press("enter")
        await stage.until(lambda: "wrong: values differ" in below(stage, "kernel"))
        assert "first makes it correct" not in stage.text(), "sweep writes no kernel"
        await write(stage, "agent", "qwen3-coder")
        await write(stage, "server", "http://127.0.0.1:8080")
        await stage.press("enter")
        await stage.shows("enter again begins a run in which the model first makes it correct")
        assert "wrong: values differ" in below(stage, "kernel")
        await stage.press("enter")
        await stage.shows("noted, and that is all of it")
    (start,) = begun
    assert start.workflow is None  # the agent decides: write_then_tune
    assert load_task(tmp_path / "mytask").kernel.text == KERNEL


async def test_tab_completes_paths_and_words_and_goes_on_where_they_are_whole(
    tmp_path: Path,
) -> None:
    (tmp_path / "kernels" / "deep").mkdir(parents=True)
    for name in ("fast_a.py", "fast_b.py", "notes.txt", ".hidden.py"):
        (tmp_path / "kernels" / name).write_text("")
    async with listed(tmp_path, SMALL) as stage:
        wizard = await to_wizard(stage)

        def value(name: str) -> str:
            return wizard.query_one(f"#field-{name}", Input).value

        await write(stage, "kernel", "ker")
        await stage.press("tab")
        await stage.until(lambda: value("kernel") == "kernels/")
        await stage.press("f", "tab")
        await stage.until(lambda: value("kernel") == "kernels/fast_")
        await stage.shows("fast_a.py  fast_b.py")
        await stage.press("b", "tab")
        await stage.until(lambda: value("kernel") == "kernels/fast_b.py")
        await stage.press("tab")
        await stage.until(lambda: wizard._here is not None and wizard._here.name == "folder")
        await stage.press("ctrl+u", *"kernels/", "tab")
        await stage.until(lambda: value("folder") == "kernels/deep/")
        await write(stage, "dsl", "tr")
        await stage.press("tab")
        assert value("dsl") == "triton"
        await write(stage, "agent", "c")
        await stage.press("tab", "tab")
        assert value("agent") == "claude"
        assert wizard._here.name == "server"


def test_paths_are_completed_as_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a b").mkdir()
    for name in ("a b/k.py", "a b/K.txt", ".key", "odd\x1b.py", "r.py"):
        (tmp_path / name).write_text("")
    assert paths(tmp_path, "", ending=".py") == ["a b/", "r.py"]
    assert paths(tmp_path, ".k") == [".key"]
    assert paths(Path("/"), "~/a b/", ending=".py") == ["~/a b/k.py"]
    assert paths(Path("/"), f"{tmp_path}/a", ending=None) == [f"{tmp_path}/a b/"]
    assert paths(tmp_path, "~") == ["~/"]
    assert paths(tmp_path, "~nobody-here") == []
    assert paths(tmp_path, "gone/x") == []
    assert paths(tmp_path, "a\x00/") == []


async def test_a_field_with_a_list_is_picked_with_the_arrows(
    tmp_path: Path, judged: list[Measurement]
) -> None:
    folder_with(tmp_path)
    async with listed(tmp_path, SMALL) as stage:
        wizard = await to_wizard(stage)
        await write(stage, "workflow", "auto")
        assert "← → auto, tune, write, write_then_tune" in stage.text()
        await stage.press("right", "right")
        assert wizard._value("workflow") == "write"
        await stage.press("left")
        assert wizard._value("workflow") == "tune"
        await stage.press("enter")
        await stage.shows("enter again writes the task")
        assert wizard.draft().request.workflow == "tune"


@pytest.mark.parametrize(
    ("kernel", "dsl"),
    [
        ("import triton\nimport torch\n", "triton"),
        ("from akg_tui.dsl import compile_cpp\nimport torch\n", "cpp"),
        ("from akg_tui.dsl import compile_cuda\nimport torch\n", "cuda_cpp"),
        ("import torch\nx = load_inline('x', cuda_sources=S)\n", "cuda_cpp"),
        ("import torch\n", "torch"),
        ("class ModelNew: pass\n", ""),
    ],
)
def test_the_dsl_is_found_in_the_kernel(tmp_path: Path, kernel: str, dsl: str) -> None:
    (tmp_path / "k.py").write_text(kernel)
    assert run_start.dsl_found(tmp_path / "k.py") == dsl
    assert run_start.dsl_found(tmp_path / "gone.py") == ""


async def test_the_dsl_follows_the_kernel_until_a_person_names_another(
    tmp_path: Path, judged: list[Measurement]
) -> None:
    folder_with(tmp_path, f"import triton\n{KERNEL}")
    (tmp_path / "核.py").write_text(f"import torch\n{KERNEL}")
    async with listed(tmp_path) as stage:
        wizard = await to_wizard(stage)
        await stage.until(lambda: wizard._value("dsl") == "triton")
        await write(stage, "kernel", "核.py")
        await stage.until(lambda: wizard._value("dsl") == "torch")
        await write(stage, "dsl", "cpp")
        await write(stage, "kernel", "kernel.py")
        await wizard._find_dsl()
        assert wizard._value("dsl") == "cpp"

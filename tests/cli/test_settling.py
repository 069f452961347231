"""`settle`: the shortlist of an estimate run is measured, here or on another machine."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import stat
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from akg_tui import __version__
from akg_tui.cli import main
from akg_tui.core import events as ev
from akg_tui.core.phases import Mode, Phase, Verdict
from akg_tui.engine import remote_settling
from akg_tui.engine.remote_settling import RemoteFault, settle_on
from akg_tui.engine.run_service import engine_for
from akg_tui.store.errors import RunFolderError
from akg_tui.store.fork import check_can_settle, settle_run, unfinished_settling
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from tests.engine.estimates import ESTIMATES, estimate_run, make_task
from tests.engine.fake_judge import FakeJudge

FAKE_SSH = """\
#!/bin/sh
# A contract fake of ssh: it takes the options and the host as ssh does, and hands the one string of
# the command to a shell, in the home folder of the "other machine".
while [ "$1" != "--" ]; do
  [ "$1" = "-o" ] || { echo "fake ssh: unknown option $1" >&2; exit 255; }
  shift 2
done
[ $# -eq 3 ] || { echo "fake ssh: one host and one command, not $#" >&2; exit 255; }
case "$2" in
  unreachable) echo "ssh: connect to host $2 port 22: Connection refused" >&2; exit 255 ;;
esac
cd "$FAKE_HOME" && HOME="$FAKE_HOME" exec /bin/sh -c "$3"
"""
WITH_FAKE_ESTIMATOR = """\
#!{python}
# akg-tui with an estimator for an arch that does not exist, whose kernels the CPU measures, and
# without the report at the end, which is no part of the measuring.
import sys
from akg_tui.cli import main
from akg_tui.engine import run_report
from akg_tui.evaluate.estimate import estimator

class FakeEstimator(estimator.GpuEstimator):
    backend = "cpu"

estimator.ESTIMATORS = {{"fake_arch": FakeEstimator("fake_arch")}}
run_report.reporter = lambda channel: None
sys.exit(main())
"""


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of another machine, reached by a fake ssh."""
    home = tmp_path / "other home"
    home.mkdir()
    monkeypatch.setattr(remote_settling, "SSH", script(tmp_path / "ssh", FAKE_SSH))
    monkeypatch.setenv("FAKE_HOME", str(home))
    return home


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return estimate_run(tmp_path_factory.mktemp("made") / "task")


@pytest.fixture
def run(tmp_path: Path, made: Path) -> Path:
    shutil.copytree(made.parent.parent, tmp_path / "the task")
    return tmp_path / "the task" / "runs" / made.name


def told_nothing(told: dict[str, object]) -> None:
    raise AssertionError(told)


def other(tmp_path: Path, words: str) -> str:
    """A program of the other machine that has the right version, and then does this."""
    return script(
        tmp_path / "akg-tui",
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "akg-tui {__version__}"; exit; }}\n{words}\n',
    )


# The estimate run


def test_the_estimate_run_ends_with_a_shortlist(run: Path) -> None:
    state = read_state(run)
    assert [each.verdict for each in state.attempts[1:]] == [Verdict.SHORTLIST] * len(
        state.attempts[1:]
    )
    assert state.shortlist[0].estimated_us == min(ESTIMATES.values())
    assert not any(isinstance(e, ev.EvalFinished) and e.measurement.timed for e in events(run))


def events(run: Path) -> list[ev.AnyEvent]:
    folder = RunFolder.open(run)
    try:
        return [record.event for record in folder.records]
    finally:
        folder.close()


# Here


def test_a_run_that_settles_is_made_of_the_shortlist_and_goes_on_after_a_crash(run: Path) -> None:
    before = (run / "events.jsonl").read_bytes()
    asked = check_can_settle(run)
    made = settle_run(run, "cpu", Mode.AUTO)
    assert [item.blob for item in made.state.items] == [each.blob for each in asked.shortlist]
    assert made.state.task.estimate == ""
    speeds = iter([5.0, 5.0])

    class Killed(Exception):
        pass

    class FakeJudgeThatDies(FakeJudge):
        async def evaluate(self, kernel: str, incumbent: str | None, **options: object) -> object:  # type: ignore[override]
            if next(speeds, None) is None:
                raise Killed
            return await super().evaluate('SPEED = "A"', 'SPEED = "A"' if incumbent else None)

    def work(judge: Callable[..., FakeJudge]) -> None:
        async def worked() -> None:
            engine = engine_for(folder, memory=False)
            engine._judge, engine._reporter = judge(engine.live.report), None  # type: ignore[assignment]
            try:
                await engine.run()
            finally:
                await engine.close()

        asyncio.run(worked())

    folder = made
    with pytest.raises(Killed):
        work(FakeJudgeThatDies)
    left = unfinished_settling(run, asked)
    assert left == made.path
    folder = RunFolder.open(left)
    assert folder.state.phase is Phase.EVAL
    settled = len(folder.state.attempts)

    class FakeJudgeOfOne(FakeJudge):
        async def evaluate(self, kernel: str, incumbent: str | None, **options: object) -> object:  # type: ignore[override]
            return await super().evaluate('SPEED = "B"', 'SPEED = "A"')

    work(FakeJudgeOfOne)
    state = read_state(left)
    assert state.finished == "the shortlist is settled"
    assert len(state.attempts) == settled + 1
    assert state.attempts[-1].verdict is Verdict.KEEP
    assert unfinished_settling(run, asked) is None
    assert (run / "events.jsonl").read_bytes() == before


def test_a_machine_without_the_device_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = estimate_run(tmp_path / "task", arch="sm_90")
    assert main(["settle", str(found), "--here", "--headless"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert 'backend = "cuda" needs' in line
    assert [path.name for path in found.parent.iterdir()] == [found.name]


def test_only_an_estimate_run_that_is_over_and_has_a_shortlist_is_settled(run: Path) -> None:
    made = settle_run(run, "cpu", Mode.AUTO)
    made.close()
    with pytest.raises(RunFolderError, match="is no estimate run"):
        check_can_settle(made.path)


def test_an_unknown_arch_and_a_dsl_that_is_not_compiled_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = make_task(tmp_path / "task")
    assert main(["tune", str(task), "--headless"]) == 2
    assert "no estimator for 'fake_arch'; there are: sm_80" in capsys.readouterr().err
    assert main(["tune", str(task), "--headless", "--estimate", "sm_90"]) == 2
    assert "kernels in torch are not compiled for sm_90" in capsys.readouterr().err
    assert not (task / "runs").exists()


# On another machine


def test_the_shortlist_is_measured_by_the_judge_of_another_machine(
    run: Path, host: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = script(tmp_path / "akg tui", WITH_FAKE_ESTIMATOR.format(python=sys.executable))
    assert main(["settle", str(run), "--on", "me@other", "--command", program, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    summary = lines[-1]
    assert summary["type"] == "summary"
    state = read_state(Path(summary["run"]))
    verdicts = {
        text: attempt.verdict
        for attempt in state.attempts[1:]
        for text in ESTIMATES
        if text in kernel_of(Path(summary["run"]), attempt.blob)
    }
    # The lowest estimate is of the slowest kernel: only the measurement tells.
    assert verdicts == {"TIMES = 16": Verdict.DISCARD, "TIMES = 1 ": Verdict.KEEP}
    assert summary["speedup_vs_seed"] > 1.5
    assert [line["seq"] for line in lines[:-1]] == list(range(1, len(lines)))
    assert (Path(summary["run"]) / "PLAN.md").exists()


def kernel_of(run: Path, blob: str) -> str:
    folder = RunFolder.open(run)
    try:
        return folder.history.read_blob(blob).decode()
    finally:
        folder.close()


@pytest.mark.parametrize("name", ["-oProxyCommand=touch pwned", "a b", "a;b", "$(id)", ""])
def test_a_name_that_is_no_host_never_reaches_ssh(run: Path, host: Path, name: str) -> None:
    with pytest.raises(RemoteFault, match="no name of a host"):
        settle_on(name, run, "akg-tui", tell=told_nothing)


@pytest.mark.parametrize(
    ("name", "program", "why"),
    [
        ("unreachable", "akg-tui", "cannot be reached.*Connection refused"),
        ("other", "no-such-akg-tui", "akg-tui is not found there"),
        ("other", "$(touch pwned)", "akg-tui is not found there"),
        ("other", "true", "it has akg-tui of unknown version, not"),
    ],
)
def test_what_another_machine_lacks_is_told_in_one_line(
    run: Path, host: Path, name: str, program: str, why: str
) -> None:
    with pytest.raises(RemoteFault, match=why) as fault:
        settle_on(name, run, program, tell=told_nothing)
    assert "\n" not in str(fault.value)
    assert not (host / "pwned").exists()


def test_another_version_is_refused(run: Path, host: Path, tmp_path: Path) -> None:
    program = script(tmp_path / "old", '#!/bin/sh\necho "akg-tui 0.0.1"\n')
    with pytest.raises(RemoteFault, match=f"it has akg-tui 0.0.1, not {__version__}"):
        settle_on("other", run, program, tell=told_nothing)


def test_the_reason_of_another_machine_is_told(run: Path, host: Path, tmp_path: Path) -> None:
    program = other(tmp_path, 'echo "akg-tui: no device here" >&2; exit 2')
    with pytest.raises(RemoteFault, match=r"^no device here$"):
        settle_on("other", run, program, tell=told_nothing)


def test_a_run_that_is_not_the_answer_is_not_taken(run: Path, host: Path, tmp_path: Path) -> None:
    """The answer names a run; it must be one that settles this one, and nothing else is written."""
    for named in ("/etc", "../..", "estimates", "another-settled"):
        program = other(tmp_path, f"echo '{json.dumps({'type': 'summary', 'run': named})}'")
        with pytest.raises(RemoteFault, match="not the one that was asked for"):
            settle_on("other", run, program, tell=told_nothing)
    # One of the right name, which is the estimate run itself.
    answer = json.dumps({"type": "summary", "run": "estimates-settled"})
    program = other(tmp_path, f"cp -r estimates estimates-settled; echo '{answer}'")
    with pytest.raises(RemoteFault, match="not the one that was asked for"):
        settle_on("other", run, program, tell=told_nothing)
    assert [path.name for path in run.parent.iterdir()] == ["estimates"]


@pytest.mark.parametrize("name", ["../../pwned", "/tmp/pwned", "events.jsonl/../../pwned", "other"])
def test_an_archive_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    packed.seek(0)
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    with pytest.raises(RemoteFault):
        remote_settling._unpack(packed, inside)
    assert not [*inside.iterdir(), *tmp_path.glob("pwned")]


def test_a_link_in_an_archive_is_refused(tmp_path: Path) -> None:
    packed = io.BytesIO()
    link = tarfile.TarInfo("task/reference.py")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(link)
    packed.seek(0)
    with pytest.raises(RemoteFault, match="not a run"):
        remote_settling._unpack(packed, tmp_path)

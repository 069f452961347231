"""Where reports are made: the command, and the run itself at its end."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from akg_tui.cli import main
from akg_tui.engine.engine import Engine
from akg_tui.engine.run_report import reporter
from akg_tui.headless.watched_run import closing_lines, summary_of
from tests.engine import runs as engines
from tests.engine.fake_judge import FakeJudge
from tests.fresh_interpreter import printed
from tests.report import runs

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.closed(runs.finished(tmp_path_factory.mktemp("done") / "task"))


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main([*map(str, words)])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_report_writes_three_files_into_the_run_and_prints_their_paths(
    done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(capsys, "report", done)
    assert (code, err) == (0, "")
    paths = [done / f"report.{form}" for form in ("html", "md", "json")]
    assert out.splitlines() == list(map(str, paths))
    assert all(path.stat().st_size > 2000 for path in paths)
    assert not list(done.glob(".report*"))
    code, out, _ = said(capsys, "report", done, "--json")
    assert json.loads(out) == {
        "type": "report_written",
        "files": list(map(str, paths)),
        "status": "completed",
    }


def test_out_writes_one_report_where_it_is_wanted(
    done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said(capsys, "report", done, "--format", "json", "--out", "-")
    assert code == 0
    assert json.loads(out)["schema"] == 1
    wanted = tmp_path / "kernel.md"
    code, out, _ = said(capsys, "report", done, "--out", wanted)
    assert (code, out) == (0, f"{wanted}\n")
    assert wanted.read_text().startswith("# add_one: ")


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["report", "nowhere"], "nowhere: is not a run, expected a folder with events.jsonl"),
        (["report", "RUN", "--out", "x.pdf"], "--out x.pdf: say which with --format"),
        (["report", "RUN", "--format", "all", "--out", "-"], "say which with --format"),
        (["report", "RUN", "--format", "md", "--out", "-", "--json"], "--json tells what"),
        (["report", "RUN", "--out", "no/such/folder/r.md"], "cannot write no/such/folder/r.md"),
    ],
)
def test_a_report_that_cannot_be_made_is_one_line_and_exit_2(
    words: list[str],
    told: str,
    done: Path,
    empty: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = said(capsys, *[str(done) if word == "RUN" else word for word in words])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert list(empty.iterdir()) == []


def test_a_damaged_journal_and_a_lost_kernel_are_told(
    done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(done, damaged)
    journal = damaged / "events.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"KEEP", b"FAIL", 1))
    code, _, err = said(capsys, "report", damaged)
    assert (code, err.count("\n")) == (2, 1)
    assert "the journal is damaged at event" in err
    lost = tmp_path / "lost"
    shutil.copytree(done, lost)
    shutil.rmtree(lost / "history.git" / "objects")
    code, _, err = said(capsys, "report", lost)
    assert (code, err.count("\n")) == (2, 1)
    assert "history" in err


async def test_a_run_makes_its_own_report_before_it_is_over(tmp_path: Path) -> None:
    run = engines.create(tmp_path / "task", rounds=3)
    work = Engine(
        run, engines.engine(run)._model, FakeJudge, clock=run._clock, reporter=reporter("cli")
    )
    await work.run()
    page = run.path / "report.html"
    assert closing_lines(work)[-1] == f"report: {page}"
    assert summary_of(work)["report"] == str(page)
    assert json.loads((run.path / "report.json").read_text())["status"] == "completed"
    await work.close()


async def test_a_report_that_fails_is_told_and_the_run_is_as_good(tmp_path: Path) -> None:
    run = engines.create(tmp_path / "task", rounds=3)
    (run.path / "report.html").mkdir()
    work = Engine(
        run, engines.engine(run)._model, FakeJudge, clock=run._clock, reporter=reporter("ui")
    )
    await work.run()
    assert run.state.ok
    assert run.state.finished
    assert "no report was made (cannot write" in closing_lines(work)[-1]
    assert work.live.activity == closing_lines(work)[-1]
    await work.close()


def test_watching_a_run_loads_neither_the_report_nor_a_plotting_library() -> None:
    script = (
        "import sys, akg_tui.engine.run_service, akg_tui.headless.watched_run, akg_tui.tui.app\n"
        "print([m for m in ('matplotlib', 'jinja2', 'akg_tui.report') if m in sys.modules])"
    )
    assert printed(script) == "[]\n"


@pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")
def test_a_browser_without_a_network_shows_the_chart(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    run = runs.closed(runs.hostile(tmp_path / "task"))
    assert main(["report", str(run), "--format", "html"]) == 0
    shown = subprocess.run(
        [
            *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu"),
            *("--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"),
            (run / "report.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    chart = shown[shown.index('<div class="chart"><svg') :]
    chart = chart[: chart.index("</svg>")]
    assert chart.count("<path") > 20
    assert "times as fast as the seed" in chart
    assert 'xlink:href="#round-1"' in chart
    assert 'id="round-1"' in shown
    assert "<img" not in shown
    assert "<script" not in shown


def test_a_pipe_and_the_name_of_a_descriptor_are_written_to_and_never_replaced(
    capsys: pytest.CaptureFixture[str], done: Path, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)  # keeps the pipe open, so that writing does not wait
    try:
        code, _, err = said(capsys, "report", done, "--out", pipe, "--format", "json")
        assert code == 0, err
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert os.read(reader, 10).startswith(b"{")
    finally:
        os.close(reader)
    # As `--out /dev/stdout > file` is: the name of a device that is a link to a file.
    with (tmp_path / "file").open("w+") as file:
        out = f"/dev/fd/{file.fileno()}"
        code, _, err = said(capsys, "report", done, "--out", out, "--format", "json")
        assert code == 0, err
        assert json.loads(file.read())["type"] == "report"

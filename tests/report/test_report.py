"""The report: the same from the same journal, right in every state of a run, and harmless."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core.measurement import InputError, Metric
from akg_tui.core.stopping.export_guard import RESULT_SKIPPED, STATUS_KEPT
from akg_tui.evaluate.sandbox.protections import PROTECTIONS
from akg_tui.report import wording
from akg_tui.report.contents import Disturbed, Report, Round
from akg_tui.report.html import render_page
from akg_tui.report.markdown import render_markdown
from akg_tui.report.write import FORMATS, Format, read_report, render
from akg_tui.store.run_folder import RunFolder
from akg_tui.view import formatting
from tests.report import runs
from tests.store.scripted import candidate, measurement, perform, send

VOID = {"meta", "br", "img", "link", "input", "hr"}
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


class Page(HTMLParser):
    """Reads a page strictly: every element is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data

    def names(self) -> set[str]:
        return {name for name, _ in self.tags}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.closed(runs.finished(tmp_path_factory.mktemp("done") / "task"))


@pytest.fixture(scope="module")
def report(done: Path) -> Report:
    return read_report(done, channel="cli")


def test_the_same_journal_gives_the_same_bytes_wherever_it_lies(done: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(done, copy)
    for form in FORMATS:
        first = render(read_report(done, channel="cli"), form)
        assert render(read_report(copy, channel="cli"), form) == first
        assert str(done) not in first


def test_the_page_holds_the_chart_and_every_round_and_loads_nothing(report: Report) -> None:
    text = render_page(report)
    page = Page(text)
    ids = {attributes.get("id") for _, attributes in page.tags}
    assert {f"round-{r.round}" for r in report.rounds} <= ids
    assert "script" not in page.names()
    assert "link" not in page.names()
    assert "img" not in page.names()
    for name, attributes in page.tags:
        for key, value in attributes.items():
            if key in ("href", "src", "xlink:href"):
                assert (value or "").startswith("#"), (name, key, value)
    assert not re.search(r"url\((?!#)", text)
    assert "default-src 'none'" in text
    # The marks of the chart lead to the rows.
    marks = {a["xlink:href"] for name, a in page.tags if name == "a" and "xlink:href" in a}
    assert marks == {f"#round-{r.round}" for r in report.rounds}
    assert "--chart-keep" in text[text.index("<svg xmlns") :]


def test_figures_are_those_of_the_journal(done: Path, report: Report) -> None:
    verdicts = [r.verdict for r in report.rounds]
    assert verdicts == ["KEEP", "FAIL", "DISCARD", "KEEP", "FAIL", "DISCARD"]
    assert report.about.verdicts == {"KEEP": 2, "DISCARD": 2, "FAIL": 2, "INCONCLUSIVE": 0}
    assert [(s.after_round, s.attempt) for s in report.incumbents] == [(0, 0), (1, 1), (4, 4)]
    assert report.rounds[3].incumbent_over_seed == pytest.approx(1.5)
    assert report.figures.speedup_over_seed is not None
    assert report.best.text == candidate(4)
    assert "max rounds reached (6)" in report.stop.conditions
    reference = report.figures.reference_over_seed
    assert reference is not None
    # The baseline told the seed to be 1.5 times as fast as the reference (1.4 to 1.6).
    assert (reference.ratio, reference.low, reference.high) == pytest.approx(
        (1 / 1.5, 1 / 1.6, 1 / 1.4)
    )
    for form in ("html", "md"):
        text = render(report, form)
        for each in report.rounds:
            assert each.commit[:10] in text
        assert report.journal.head_sha256 in text
        assert "not in force" in text or not report.sandbox.evaluations
        assert {p.name for p in report.sandbox.protections} >= PROTECTIONS.keys()


def test_json_reads_back_as_the_report_it_was_made_of(report: Report) -> None:
    plain = msgspec.json.decode(render(report, "json"))
    assert plain.pop("type") == "report"
    assert msgspec.convert(plain, Report) == report
    documented = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    for field in plain:
        assert f"`{field}`" in documented, field


def test_the_told_command_prints_the_told_digest_and_grows_old_with_the_journal(
    done: Path, report: Report, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(done, copy)
    command = wording.check(report).replace("RUN", str(copy))
    told = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    assert told.split()[0] == report.journal.head_sha256
    journal = copy / "events.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"reason":"max', b'"reason":"mix'))
    told = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    assert told.split()[0] != report.journal.head_sha256


def test_the_told_commands_bring_the_kernels_back(
    done: Path, report: Report, tmp_path: Path
) -> None:
    files = [line for line in wording.reproduce(report) if not line.startswith("akg-tui")]
    script = "\n".join(files).replace("RUN", str(done))
    subprocess.run(["sh", "-ec", script], cwd=tmp_path, check=True)
    assert (tmp_path / "again" / "kernel.py").read_text() == report.seed.text
    assert (tmp_path / "best_kernel.py").read_text() == report.best.text
    assert (tmp_path / "again" / "task.toml").is_file()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (runs.begun, ("in progress", "No round was settled", "the baseline has not been measured")),
        (runs.broken, ("could not go on", "The baseline failed", "wrong values")),
    ],
)
def test_a_run_without_a_figure_has_a_report_that_says_so(
    tmp_path: Path, make: Callable[[Path], RunFolder], words: tuple[str, ...]
) -> None:
    found = read_report(runs.closed(make(tmp_path / "task")), channel="cli")
    assert found.status == "in_progress"
    assert found.result is None
    page, text = Page(render_page(found)).text, render_markdown(found)
    for each in words:
        assert each in page
        assert each in text


def test_the_last_kernel_that_was_written_in_vain_is_not_called_the_seed(tmp_path: Path) -> None:
    run = runs.unwritten(tmp_path / "task")
    seed, last = run.records[0].event.kernel_blob, run.state.seed_blob  # type: ignore[attr-defined]
    assert last != seed
    found = read_report(runs.closed(run), channel="cli")
    assert (found.seed.blob, found.best.blob) == (seed, last)
    for text in (Page(render_page(found)).text, render_markdown(found)):
        assert "This is the last one that the agent wrote." in text
        assert "no kernel was correct" in text
        assert "The last try failed" in text
        assert "It is the seed" not in text


def test_text_of_strangers_neither_acts_nor_hides_nor_breaks_out(tmp_path: Path) -> None:
    found = read_report(runs.closed(runs.hostile(tmp_path / "task")), channel="cli")
    found = replace(found, about=replace(found.about, agent="claude"))  # its reasons are shown
    assert any(r.text.startswith("</script>") for r in found.rounds)
    html, text = render(found, "html"), render(found, "md")
    for form in FORMATS:
        assert not UNSEEN.search(render(found, form)), form
    page = Page(html)
    assert not page.names() & {"script", "img"}
    assert "{{ 7*7 }}" in page.text
    assert "<U+202E>" in page.text
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    headings = [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]
    assert headings[1:] == [
        "Why it stopped", "Rounds", "What worked", "Directions", "The best kernel",
        "Where it was measured", "Sandbox", "How it was judged", "Policy", "Tokens and cost",
        "What people did", "Sessions", "Do it again",
    ]  # fmt: skip
    inline = [child for token in tokens for child in token.children or ()]
    assert not [t for t in (*tokens, *inline) if t.type.startswith("html_")]
    assert "hint: </script>" in text
    assert "tried because: " in text


@pytest.mark.parametrize("form", ["html", "md"])
def test_a_report_says_nothing_that_only_its_maker_understands(own: Path, form: Format) -> None:
    draft = read_report(own, channel="ui")  # written by the run itself
    assert draft.notes == (RESULT_SKIPPED, STATUS_KEPT)
    kept = [r for r in draft.rounds if r.verdict == "KEEP"]
    assert kept
    rounds = tuple(replace(r, rationale="chosen at random") for r in draft.rounds)
    text = render(replace(draft, rounds=rounds), form)
    assert "guard:" not in text
    assert "akg-tui report RUN" in text  # how the draft becomes the result
    assert "goals were" not in text.lower()  # the task has none
    assert "chosen at random" not in text  # how a search chose is not why it worked
    policy = draft.policy | {"automation": {"goals": ["speedup >= 9"]}}
    assert "goals were not met" in render(replace(draft, policy=policy), form)
    told = replace(draft, rounds=rounds, about=replace(draft.about, agent="claude"))
    assert "ried because: " in render(told, form)


def long_report(report: Report, rounds: int) -> Report:
    def one(number: int) -> Round:
        like = report.rounds[number % len(report.rounds)]
        name = f"direction {number % 9}"
        return replace(like, round=number + 1, attempt=number + 1, direction=name)

    found = replace(report, rounds=tuple(one(n) for n in range(rounds)))
    names = sorted({r.direction for r in found.rounds})
    directions = tuple(replace(report.directions[0], name=name) for name in names)
    return replace(found, directions=directions, about=replace(report.about, rounds=rounds))


def test_timings_on_a_disturbed_machine_are_listed_with_their_cost(tmp_path: Path) -> None:
    run = runs.begun(tmp_path / "task")
    waited = "the kernels waited for a CPU 31% of the time"
    while (effect := fx.next_effect(run.state, run.state.last_at)) is not None:
        if isinstance(effect, fx.Measure):
            found = measurement(1 if effect.incumbent is None else effect.attempt)
            noisy = effect.attempt == 1 and effect.incumbent is not None
            found = replace(
                found,
                detectable=None if found.ratio is None else 0.124 if noisy else 0.01,
                noise=(waited,) if noisy else (),
            )
            send(run, cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
            send(run, cmd.FinishEval(found))
        else:
            perform(run, effect)
    report = read_report(runs.closed(run), channel="cli")
    assert report.noise.disturbed == (Disturbed("attempt 1", (waited,), 0.124),)
    timings = report.noise.timings
    assert timings >= 3
    for form in ("html", "md"):
        text = render(report, form)
        assert f"1 of {timings} timings were on a disturbed machine:" in text
        told = "attempt 1: a gain under 12.4 % would not have been seen; the kernels waited"
        assert told in text


def test_a_report_of_1000_rounds_has_them_all(report: Report) -> None:
    found = long_report(report, 1000)
    text = render_page(found)
    assert len(text) < 2_400_000
    rows = sum((a.get("id") or "").startswith("round-") for _, a in Page(text).tags)
    assert rows == 1000
    assert len(render_markdown(found)) < 400_000


# The export guard


@pytest.fixture
def own(done: Path, tmp_path: Path) -> Iterator[Path]:
    copy = tmp_path / "run"
    shutil.copytree(done, copy)
    yield copy
    shutil.rmtree(copy)


def test_a_run_that_is_not_over_is_in_progress_whoever_asks(tmp_path: Path) -> None:
    run = runs.begun(tmp_path / "task")
    send(run, cmd.Hint("导出报告"))
    found = read_report(runs.closed(run), channel="cli")
    assert (found.status, found.result) == ("in_progress", None)


def test_an_earlier_report_that_cannot_be_read_hands_nothing_over(own: Path) -> None:
    for text in ("", "{", '{"result": 7}', '{"result": {"commit": 1}}'):
        (own / "report.json").write_text(text)
        assert read_report(own, channel="ui").result is None


def test_the_headline_is_over_eager_and_names_the_other_ratios(report: Report) -> None:
    best = report.figures.best
    assert best is not None
    assert best.over_eager is not None
    figure, meaning = wording.headline(report)
    assert figure == f"{formatting.times(best.over_eager.ratio)} eager"
    assert meaning.startswith(f"{formatting.ratios(best)}, measured afresh; ")
    assert f"# add_one: {figure}\n" in render_markdown(report)


def test_both_modes_of_compile_are_told_with_their_time_or_why_there_is_none(
    report: Report,
) -> None:
    assert "torch.compile" not in render_page(report)
    assert "max-autotune" not in render_page(report)
    why = "no compiler <b>here</b>"
    figures = replace(report.figures, compile_problem=why, max_autotune_problem=why)
    report = replace(report, figures=figures)
    assert "torch.compile was not measured: no compiler &lt;b&gt;here" in render_page(report)
    assert "max-autotune was not measured: no compiler &lt;b&gt;here" in render_page(report)
    assert f"- torch.compile was not measured: `{why}`" in render_markdown(report)
    assert f"- max-autotune was not measured: `{why}`" in render_markdown(report)
    figures = replace(report.figures, compile_ms=1.25, max_autotune_ms=0.75)
    report = replace(report, figures=figures)
    assert "torch.compile 1.25 ms, max-autotune 0.75 ms, seed" in render_markdown(report)
    page = render_page(report)
    assert "<b>0.75 ms</b><span>torch.compile with max-autotune, a call</span>" in page


def test_the_report_tells_metrics_and_errors_of_the_best_kernel(report: Report) -> None:
    errors = (
        InputError("as drawn", 1e-6, 1e-5, case="wide", dtype="float32"),
        InputError("zeros", 3e-6, 1e-5, case="wide", dtype="float32"),
        InputError("NaN", note="not tried: no time left", case="wide"),
    )
    told = replace(
        report,
        errors=errors,
        metrics=(Metric("Mean R", 0.5, 0.75),),
        correctness_notes=("wrong at NaN",),
    )
    page = Page(render_page(told)).text
    lines = ("0.5 – 0.75", "3e-06 of 1e-05 (30 %)", "not tried: no time left")
    for words in ("Mean R", *lines, "Note: wrong at NaN"):
        assert words in page
    text = render_markdown(told)
    assert "| `wide` | `zeros` | float32 | `3e-06 of 1e-05 (30 %)` |" in text
    assert "- `Mean R`: `0.5 – 0.75`" in text
    assert "Note: `wrong at NaN`" in text
    assert all(len(each.errors) <= 1 for each in report.rounds)

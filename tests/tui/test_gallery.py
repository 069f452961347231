"""The gallery and the recorded runs that it is made from."""

from __future__ import annotations

import html
import re
import socket
import zipfile
from pathlib import Path

import pytest

from akg_tui.cli import main
from akg_tui.core.fold import evolve
from akg_tui.store.errors import RunFolderError
from akg_tui.store.run_list import read_state
from benchmarks.gallery import pictures as gallery
from benchmarks.gallery import recorded_run
from tests.engine.runs import create, engine

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "recorded"
PICTURES = ROOT / "docs" / "gallery"
ARCHIVES = sorted(RECORDED.glob("*.zip"))

# What each picture must show, whatever else it shows.
WORDS = {
    "deck": ["best: attempt", "against the best", "6 attempts", "7 agents", "▸ EVAL"],
    "deck-compact": ["1 plan", "3 chart", "4 agent log", "then DECIDE", "▸time"],
    "deck-chinese": ["暂停", "KEEP", "▸ p6"],
    "deck-small": [
        "4 agent log",
        "round 6/14",
        "~18.2× seed · 4.13× eager",
        "▸ EVAL",
        "then DECIDE",
    ],
    "deck-tabs": ["6 attempts", "interval", "▸ EVAL", "ratio over the best then"],
    "deck-large": ["best: attempt", "6 attempts", "7 agents", "8 evaluation"],
    "policy": ["policy: when the run ends", "rounds", "enter changes it"],
    "ask": ["KEEP attempt 6?", "alt+y keep", "typing never answers this", "99.84 % sure"],
    "review": ["review of attempt 6", "K keep", "~ 85 lines alike", "│"],
    "review-unified": ["review of attempt 6", "hunk 1 of 1"],
    "past": ["PAST", "event 201 of 282", "not live: L live"],
    "compare": ["compare: +3 -3", "round 6 ✓ KEEP", "round 14 ▪ DISCARD"],
    "runs": ["3 runs below ~/kernels", "cross_entropy", "gelu_bias", "✓ finished", "◦ open"],
    "wizard": ["a kernel of yours", "get_init_inputs", "enter checks it"],
    "help": ["Take one transition", "Next mode of supervision", "esc closes"],
    "palette": ["look: theme chalk", "light and cool"],
}


def words_of(picture: str) -> str:
    """The text of a picture, its rows from top to bottom."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(
        r'<text [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', picture
    ):
        rows.setdefault(float(y), []).append((float(x), html.unescape(text)))
    lines = ("".join(text for _, text in sorted(row)) for _, row in sorted(rows.items()))
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def test_the_command_makes_every_picture_of_the_gallery_from_the_recorded_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["gallery", "--out", str(tmp_path / "made")]) == 0
    made = {path.stem: path.read_text("utf-8") for path in (tmp_path / "made").iterdir()}
    assert capsys.readouterr().out.split() == [
        str(tmp_path / "made" / f"{scene.name}.svg") for scene in gallery.scenes()
    ]
    assert made.keys() == WORDS.keys()
    for name, picture in made.items():
        shown = words_of(picture)
        assert [word for word in WORDS[name] if word not in shown] == [], name
        assert str(tmp_path) not in picture
        assert "/tmp" not in picture
        assert "cannot be shown" not in shown


def test_the_pictures_of_the_documentation_are_moments_of_the_recorded_runs() -> None:
    assert {path.stem for path in PICTURES.iterdir()} == WORDS.keys()
    for name, words in WORDS.items():
        shown = words_of((PICTURES / f"{name}.svg").read_text("utf-8"))
        assert [word for word in words if word not in shown] == []
        assert f"](gallery/{name}.svg)" in (ROOT / "docs" / "gallery.md").read_text("utf-8")


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_a_recording_is_small_complete_and_without_details_of_the_machine(archive: Path) -> None:
    assert sum(path.stat().st_size for path in ARCHIVES) < 200 * 1024
    recording = recorded_run.read(archive)
    told = recording.journal(len(recording.records)).decode() + "".join(recording.kernels.values())
    folders = ("/tmp/", "/home/", f"{Path.home()}/", f"{Path.cwd()}/")
    for private in (*folders, "Xeon", "EPYC", socket.gethostname()):
        assert private not in told, private
    handle = recorded_run.Recorded(recording, len(recording.records), path="runs")
    assert handle.state.ok
    assert all("ModelNew" in handle.kernel(a.blob).text for a in handle.state.attempts)


async def test_a_run_that_was_recorded_is_read_back_as_it_was(tmp_path: Path) -> None:
    run = create(tmp_path / "task", rounds=2)
    work = engine(run)
    await work.run()
    await work.close()
    first, second = tmp_path / "one.zip", tmp_path / "two.zip"
    made = recorded_run.record(run.path, first)
    recorded_run.record(run.path, second)
    assert first.read_bytes() == second.read_bytes()
    state = None
    for record in made.records:
        state = evolve(state, record)
    then = read_state(run.path)
    assert (state.seq, state.attempts[-1].verdict, state.work_blob) == (
        then.seq, then.attempts[-1].verdict, then.work_blob,
    )  # fmt: skip
    assert made.kernels[then.seed_blob] == run.history.read_kernel(then.seed_blob).text


def test_a_recording_that_was_changed_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(ARCHIVES[0]) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    kernel = next(name for name in parts if name.startswith(recorded_run.KERNELS))
    for name in (kernel, recorded_run.JOURNAL):
        odd = tmp_path / "odd.zip"
        with zipfile.ZipFile(odd, "w") as packed:
            for part, data in parts.items():
                packed.writestr(part, data.replace(b"e", b"E", 1) if part == name else data)
        with pytest.raises(RunFolderError, match="not what was recorded"):
            recorded_run.read(odd)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gallery", "no.zip"], "cannot read the recording no.zip"),
        (["gallery", "--record", "nowhere"], "--record RUN needs the one RECORDING to write"),
        (["gallery", "out.zip", "--record", "nowhere"], "nowhere: is not a run"),
        (["gallery"], "there is no recording in"),
    ],
)
def test_a_gallery_that_cannot_be_drawn_is_an_error_of_one_line(
    words: list[str], told: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert told in capsys.readouterr().err

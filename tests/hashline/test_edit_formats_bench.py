"""The benchmark's own parts can be trusted, and a small run of it finds no silent wrong edit."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from akg_tui.hashline import Document, Tagger
from akg_tui.hashline.parse_gate import fault_in
from akg_tui.syntax.grammars import grammar_of
from benchmarks.edit_formats.corpus import generated
from benchmarks.edit_formats.cost import edit_costs, slips
from benchmarks.edit_formats.drift import DRIFTS, Change, Move, Row, after, expected_lines
from benchmarks.edit_formats.mutations import KINDS, OPTIONAL_CHAINING, mutate, mutations
from benchmarks.edit_formats.report import EditsReport, run, tables
from benchmarks.edit_formats.staleness import OWN, Count, OneTag, Tasks, fuzz, matrix
from benchmarks.edit_formats.tokens import ESTIMATE, BadVocabulary, tokenizer_from

TRIALS = 40


def _parses(document: Document) -> bool:
    language = grammar_of(document.path)
    assert language is not None
    return fault_in(document.data, language) is None


def test_generated_kernels_parse_and_have_twins() -> None:
    files = generated(Random(1), 30)
    assert files == generated(Random(1), 30)
    assert all(_parses(file) for file in files)
    assert {file.path for file in files} == {"kernel.cpp", "kernel.cu", "kernel.py"}
    lines = [line for file in files for line in file.lines]
    twins = sum(n for file in files for n in Counter(file.lines).values() if n > 1)
    assert twins / len(lines) > 0.25


def test_every_kind_of_fault_is_made_and_leaves_a_file_that_parses() -> None:
    rng = Random(2)
    made = Counter[str]()
    for file in generated(rng, 45):
        known = mutations(file)
        for _ in range(5):
            kind, broken = mutate(file, rng, known)
            assert broken.data != file.data
            assert _parses(broken)
            made[kind] += 1
    assert set(made) == set(KINDS) - {OPTIONAL_CHAINING}


def test_the_oracle_follows_rows_and_not_their_text() -> None:
    rows = [Row("a"), Row("}"), Row("}"), Row("b")]
    pasted = after(rows, Change(1, 1, ("}",)))
    assert expected_lines(pasted, rows[1:2], ["x"]) == ("a", "}", "x", "}", "b")
    moved = after(rows, Move(1, 2, 4))
    assert moved == [rows[0], rows[2], rows[3], rows[1]]
    assert expected_lines(moved, rows[1:3], ["x"]) is None
    assert expected_lines(after(rows, Change(1, 2, ("}",))), rows[1:2], ["x"]) is None
    assert after(moved, Move(3, 4, 1)) == rows


def test_all_classes_of_drift_are_met_by_every_format() -> None:
    rng = Random(3)
    counts = matrix(Tasks(rng), rng, TRIALS)
    for row in counts.values():
        assert set(row) == set(DRIFTS)
        assert all(count.trials == TRIALS for count in row.values())
        assert all(c.wrong + c.refused + c.recovered == c.trials for c in row.values())
    for form in ("hashline", OWN):
        assert sum(count.wrong for count in counts[form].values()) == 0
    assert all(count.refused == TRIALS for count in counts["hashline"].values())
    for count in counts[OWN].values():
        assert count.recovered >= 0.9 * count.valid  # the echo guard may ask for allow_dup
    # The rivals' known weakness shows, so the oracle is able to see a wrong edit.
    assert counts["apply_patch"]["target re-indented"].wrong > 0
    assert counts["str_replace"]["target re-indented"].wrong > 0


@pytest.mark.parametrize("tagger", [Tagger(b"fuzz"), OneTag(b"fuzz")])
def test_no_stale_edit_is_silently_wrong(tagger: Tagger) -> None:
    rng = Random(4)
    found = fuzz(Tasks(rng), rng, 2000, tagger)
    for count in (found.outside, found.own, found.own_without_revision):
        assert count.trials > 0
        assert count.wrong == 0
    assert found.own.recovered == found.own.valid > 0


def test_two_bigrams_let_fewer_slips_through_than_one_and_one_fewer_than_hex() -> None:
    rng = Random(5)
    missed = {name: slips(rng, 4000, name).missed for name in ("bigram", "two bigrams", "hex")}
    assert missed["two bigrams"] == 0
    assert missed["bigram"] <= 4000 / 600 * 2
    assert missed["hex"] > missed["bigram"]


def test_hashline_repeats_less_than_its_rivals() -> None:
    rng = Random(6)
    costs = edit_costs(Tasks(rng), rng, ESTIMATE)
    for size in (10, 40):
        assert costs["hashline"].blocks[size] <= 0.65 * costs["str_replace"].blocks[size]
    assert costs["hashline"].mean <= min(cost.mean for cost in costs.values())


def test_the_estimate_counts_pieces() -> None:
    assert ESTIMATE.count("") == 0
    assert ESTIMATE.count("x = 64") == 3 + 1
    assert ESTIMATE.count("12sr|") == 3
    assert ESTIMATE.count("a" * 15) == 3


def test_a_report_is_json_and_a_table_and_counts_what_is_wrong() -> None:
    ticks = iter(range(10_000))
    report = run(seed=1, trials=2, stale=20, clock=lambda: next(ticks) / 1000)
    assert isinstance(report, EditsReport)
    assert report.silent_wrong == 0
    again = json.loads(json.dumps(report.as_json()))
    assert again["matrix"]["hashline"]["target moved"]["trials"] == 2
    assert again["times"]["view"] == pytest.approx(1.0)
    text = tables(report)
    assert "silently wrong, %" in text
    assert "10,000 lines, p95: view 1.0 ms" in text
    report.matrix["hashline"]["target moved"] = Count(trials=2, wrong=1)
    assert report.silent_wrong == 1


def _vocabulary(path: Path, *merged: bytes) -> Path:
    tokens = [bytes([byte]) for byte in range(256)] + list(merged)
    rows = [f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(tokens)]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_tokens_are_counted_by_a_vocabulary_read_from_a_file(tmp_path: Path) -> None:
    path = _vocabulary(tmp_path / "small.tiktoken", b"sr", b"12")
    counted = tokenizer_from(path)
    assert counted.name == "small, 258 tokens"
    assert counted.count("12sr|") == 3
    assert counted.count("12rs|") == 4
    qwen = tokenizer_from(path.rename(tmp_path / "qwen.tiktoken"))
    assert qwen.count("12sr|") == 4, "Qwen cuts a number into its digits"


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "256 of the 256 bytes"), ("IQ== 0\nnonsense\n", "line 2"), ("!!! 0\n", "line 1")],
)
def test_a_bad_vocabulary_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "bad.tiktoken"
    path.write_text(text)
    with pytest.raises(BadVocabulary, match=told):
        tokenizer_from(path)
    with pytest.raises(BadVocabulary, match="cannot read"):
        tokenizer_from(tmp_path / "none.tiktoken")


def test_the_command_works_from_the_files_of_a_wheel(tmp_path: Path) -> None:
    root, site = Path(__file__).parents[2], tmp_path / "site"
    build = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    folders = {"akg_tui": "akg_tui", **build["targets"]["wheel"]["force-include"]}
    for source, target in folders.items():
        shutil.copytree(root / source, site / target)
    (tmp_path / "benchmarks.py").write_text("raise SystemExit('the wrong benchmarks')")
    command = [sys.executable, "-m", "akg_tui", "bench", "edits", "--trials", "2", "--stale", "20"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    assert "silently wrong, %" in done

"""The benchmark's own parts can be trusted, and a small run of it finds no silent wrong edit."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from random import Random

import pytest

from benchmarks.edit_formats.drift import DRIFTS, Change, Move, Row, after, expected_lines
from benchmarks.edit_formats.staleness import OWN, Tasks, matrix
from benchmarks.edit_formats.tokens import BadVocabulary, tokenizer_from

TRIALS = 40


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


FROM_A_WHEEL = """
import sys
from akg_tui.cli import main
code = main(sys.argv[1:])
from benchmarks.edit_models.command import sample_documents
print(len(sample_documents()))
sys.exit(code)
"""


def test_the_command_works_from_the_files_of_a_wheel(tmp_path: Path) -> None:
    root, site = Path(__file__).parents[2], tmp_path / "site"
    build = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    folders = {"akg_tui": "akg_tui", **build["targets"]["wheel"]["force-include"]}
    for source, target in folders.items():
        shutil.copytree(root / source, site / target)
    (tmp_path / "benchmarks.py").write_text("raise SystemExit('the wrong benchmarks')")
    samples = site / "akg_tui" / "_data" / "sample_kernels"
    words = ["bench", "edits", "--corpus", str(samples), "--tasks", "3"]
    command = [sys.executable, "-c", FROM_A_WHEEL, *words]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    assert done.startswith("3 tasks in sample_kernels")
    assert int(done.splitlines()[-1]) >= len(list(samples.glob("*/kernel.py")))

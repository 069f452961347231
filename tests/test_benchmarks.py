"""How a benchmark is found and its figures are recorded."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS, RECORDS, figures_in, record


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_benchmark_has_a_function_and_a_file_for_its_figures(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{BENCHMARKS[name].module}")
    assert callable(module.main)
    assert (RECORDS / f"{BENCHMARKS[name].subject}.json").is_file()


def test_figures_are_put_before_the_earlier_ones_with_day_and_commit(tmp_path: Path) -> None:
    printed = 'a line\n{"ms": 1}\n{\n "ms": 2\n}\nthe end'
    assert figures_in(printed) == [{"ms": 1}, {"ms": 2}]
    path = tmp_path / "subject.json"
    path.write_text('{"subject": "x", "entries": [{"command": "before"}]}')
    record(path, {"command": "python -m benchmarks x", "figures": figures_in(printed)})
    first, second = json.loads(path.read_text())["entries"]
    assert first.keys() >= {"date", "commit", "command", "figures"}
    assert second == {"command": "before"}

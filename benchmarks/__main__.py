"""Runs the benchmarks: `python -m benchmarks [NAME …]`, or one with options of its own.

Each has a function `main`, which takes its options, prints its figures as JSON, one object a line,
and returns whether its bounds hold; the exit code is 1 when a bound is broken. Without a name all
run but those that take long. `NAME [OPTIONS] --record MACHINE` also puts what was printed into the
file of docs/benchmarks that has the figures of that subject.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, TextIO

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


class Benchmark(NamedTuple):
    """A module of this package, and the file of docs/benchmarks for its figures."""

    module: str
    subject: str
    is_long: bool = False


BENCHMARKS = {
    "startup": Benchmark("workbench.startup", "startup"),
    "responsive": Benchmark("workbench.responsive", "workbench"),
    "workbench": Benchmark("workbench.views", "workbench"),
    "review": Benchmark("workbench.review", "workbench"),
    "overhead": Benchmark("judge.overhead", "overhead"),
    "rounds": Benchmark("judge.rounds", "overhead"),
    "side_by_side": Benchmark("judge.side_by_side", "overhead", is_long=True),
    "idle": Benchmark("judge.idle", "overhead", is_long=True),
    "fold": Benchmark("fold", "long_runs"),
    "attached": Benchmark("workbench.attached", "past"),
    "past": Benchmark("workbench.past", "past"),
    "agreement": Benchmark("agreement", "long_runs"),
    "context": Benchmark("context", "prompts"),
    "trial_twin": Benchmark("trial_twin", "prompts"),
    "kills": Benchmark("kills", "long_runs"),
    "suite_kills": Benchmark("suite_kills", "long_runs"),
    "crashlab": Benchmark("crashlab.lab", "long_runs"),
    "honest": Benchmark("judge.honest", "honest_kernels"),
    "soak": Benchmark("judge.soak", "long_runs"),
    "device_soak": Benchmark("judge.device_soak", "device"),
    "report": Benchmark("report", "long_runs"),
    "memory": Benchmark("memory", "memory_of_runs"),
    "problems": Benchmark("problems", "public_problems", is_long=True),
    "samples": Benchmark("samples", "samples", is_long=True),
    "newcomer": Benchmark("newcomer", "long_runs", is_long=True),
    "cuda_reports": Benchmark("cuda.reports", "cuda_reports", is_long=True),
    "triton_samples": Benchmark("triton_samples", "triton_samples", is_long=True),
    "published_kernels": Benchmark("published_kernels", "triton_samples", is_long=True),
    "suite_cluster": Benchmark("suite_cluster", "long_runs", is_long=True),
    "ascend_report": Benchmark("ascend_report", "ascend_report", is_long=True),
    "cheats": Benchmark("judge.cheats", "cheats", is_long=True),
}


class _Tee(io.StringIO):
    """Keeps what is written, and writes it to a stream too."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def write(self, text: str, /) -> int:
        self._stream.write(text)
        return super().write(text)

    def flush(self) -> None:
        self._stream.flush()


def main() -> int:
    os.environ.setdefault("AKG_TUI_MEMORY", "off")  # each run begins with nothing
    # Programs start from bytecode, as from their second start on where they are installed.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    words = sys.argv[1:]
    if words and words[0] in BENCHMARKS and (len(words) == 1 or words[1] not in BENCHMARKS):
        return 0 if _run(words[0], words[1:]) else 1
    if unknown := [name for name in words if name not in BENCHMARKS]:
        there = ", ".join(BENCHMARKS)
        print(f"no benchmark {', '.join(unknown)}; there are: {there}", file=sys.stderr)
        return 2
    wanted = words or [name for name, each in BENCHMARKS.items() if not each.is_long]
    held = [_run(name, []) for name in wanted]
    return 0 if all(held) else 1


def _run(name: str, words: list[str]) -> bool:
    module: Any = importlib.import_module(f"benchmarks.{BENCHMARKS[name].module}")
    if "--record" not in words:
        return bool(module.main(words))
    place = words.index("--record")
    machine = "".join(words[place + 1 : place + 2])
    options = [*words[:place], *words[place + 2 :]]
    load = round(os.getloadavg()[0], 1)
    tee = _Tee(sys.stdout)
    with contextlib.redirect_stdout(tee):
        held = bool(module.main(options))
    command = " ".join(["python -m benchmarks", name, *options])
    entry = {
        "machine": machine,
        "load before": load,
        "command": command,
        "figures": figures_in(tee.getvalue()),
    }
    record(RECORDS / f"{BENCHMARKS[name].subject}.json", entry)
    return held


def figures_in(printed: str) -> list[Any]:
    """Return the values of JSON in a text, one after the other; other lines are left out."""
    found, decoder, rest = [], json.JSONDecoder(), printed.lstrip()
    while rest:
        try:
            value, end = decoder.raw_decode(rest)
        except ValueError:
            end = rest.find("\n") + 1 or len(rest)
        else:
            found.append(value)
        rest = rest[end:].lstrip()
    return found


def record(path: Path, entry: dict[str, object]) -> None:
    """Put an entry before the earlier ones in the file of a subject, with day and commit."""
    known = json.loads(path.read_text("utf-8"))
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    done = subprocess.run(command, cwd=RECORDS, check=True, capture_output=True, text=True)
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    known["entries"].insert(0, {"date": today, "commit": done.stdout.strip(), **entry})
    path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())

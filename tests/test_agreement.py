"""Random runs: after every event all surfaces tell the same best kernel, state and reason.

`python -m benchmarks agreement` asks it of 500 runs.
"""

from __future__ import annotations

from benchmarks.agreement import fuzzed

RUNS = 40
SEEN = {
    *("KeepUndone", "Forked", "RunReopened", "RunFinished", "SessionBroke", "ApiFailed"),
    *("StopRequested", "GateAnswered", "RuleLearned", "DiagnosisReported", "MeasurementDemanded"),
}


def test_all_surfaces_agree_after_every_event_of_random_runs() -> None:
    found = [fuzzed(seed) for seed in range(RUNS)]
    assert [fault for each in found for fault in each.faults][:10] == []
    kinds = set[str]().union(*(each.kinds for each in found))
    assert SEEN - kinds == set()

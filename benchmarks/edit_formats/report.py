"""The whole mechanical benchmark in one value, as JSON and as tables for a reader."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from akg_tui.hashline.document import Document
from akg_tui.hashline.tags import Tagger
from benchmarks.edit_formats.cost import (
    EditCost,
    Slips,
    Times,
    edit_costs,
    slips,
    times,
    view_overhead,
)
from benchmarks.edit_formats.drift import DRIFTS
from benchmarks.edit_formats.staleness import Count, Fuzz, OneTag, Tasks, fuzz, matrix
from benchmarks.edit_formats.tokens import ESTIMATE, Tokenizer


@dataclass(frozen=True, slots=True)
class EditsReport:
    """Results of `run`. `stale` is hashline; `one_tag` is hashline with one tag for all lines."""

    seed: int
    trials: int
    matrix: dict[str, dict[str, Count]]
    stale: Fuzz
    one_tag: Fuzz
    tokenizer: str
    costs: dict[str, EditCost]
    view_overhead: float
    slips: Slips
    times: Times

    def as_json(self) -> dict[str, object]:
        """Plain values, ready for `json.dumps`."""
        return dataclasses.asdict(self)

    @property
    def silent_wrong(self) -> int:
        """Hashline edits that changed what was not meant, in the matrix and the fuzz."""
        fuzzed = (self.stale, self.one_tag)
        counts = [c for f in fuzzed for c in (f.outside, f.own, f.own_without_revision)]
        for form, row in self.matrix.items():
            if form.startswith("hashline"):
                counts += row.values()
        return sum(count.wrong for count in counts)


def run(
    *,
    seed: int,
    trials: int,
    stale: int,
    clock: Callable[[], float],
    samples: Sequence[Document] = (),
    tokenizer: Tokenizer = ESTIMATE,
) -> EditsReport:
    """Run everything.

    Parameters
    ----------
    trials : int
        Of each format under each drift.
    stale : int
        Fuzzed stale hashline edits; a tenth as many with a tag function that always collides.
    clock : callable
        Seconds, for the times.
    samples : sequence of Document
        Kernel files to use beside the generated ones.
    tokenizer : Tokenizer
        Counts the tokens.
    """
    rng = Random(seed)
    tasks = Tasks(rng, samples)
    return EditsReport(
        seed=seed,
        trials=trials,
        matrix=matrix(tasks, rng, trials),
        stale=fuzz(tasks, rng, stale, Tagger(b"benchmark")),
        one_tag=fuzz(tasks, rng, max(1, stale // 10), OneTag(b"benchmark")),
        tokenizer=tokenizer.name,
        costs=edit_costs(tasks, rng, tokenizer),
        view_overhead=view_overhead(rng, tokenizer),
        slips=slips(rng, max(1000, 500 * trials)),
        times=times(rng, clock),
    )


def tables(report: EditsReport) -> str:
    """The report in plain text."""
    return "\n\n".join(
        (
            _matrix_table(report),
            _fuzz_table(report),
            _cost_table(report),
            "\n".join(_small_figures(report)),
        )
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "-"


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A plain table; the first `left` columns are aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if n < left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _matrix_table(report: EditsReport) -> str:
    forms = list(report.matrix)
    rows = [["silently wrong, %", *forms]]
    for drift in DRIFTS:
        counts = [report.matrix[form][drift] for form in forms]
        rows.append([drift, *(_percent(c.wrong, c.trials) for c in counts)])
    sums = {form: _sum(list(report.matrix[form].values())) for form in forms}
    rows.append(["all", *(_percent(c.wrong, c.trials) for c in sums.values())])
    rows.append(["refused, % of all", *(_percent(c.refused, c.trials) for c in sums.values())])
    rows.append(["recovered, % of valid", *(_percent(c.recovered, c.valid) for c in sums.values())])
    return f"{report.trials} trials a cell, seed {report.seed}\n" + aligned(rows)


def _sum(counts: Sequence[Count]) -> Count:
    fields = ("trials", "wrong", "refused", "valid", "recovered")
    return Count(*(sum(getattr(count, field) for count in counts) for field in fields))


def _fuzz_table(report: EditsReport) -> str:
    rows = [["stale hashline edits", "edits", "silently wrong", "valid", "recovered"]]
    for name, found in (("", report.stale), (", one tag for all", report.one_tag)):
        for where, count in (
            ("changed from outside", found.outside),
            ("own edits", found.own),
            ("own edits, revision not named", found.own_without_revision),
        ):
            cells = (count.trials, count.wrong, count.valid, count.recovered)
            rows.append([f"{where}{name}", *map(str, cells)])
    return aligned(rows)


def _cost_table(report: EditsReport) -> str:
    rows = [["tokens of an edit", "mean", "median", "10 lines", "40 lines"]]
    for form, cost in report.costs.items():
        figures = (cost.mean, cost.median, cost.blocks[10], cost.blocks[40])
        rows.append([form, *(f"{figure:.0f}" for figure in figures)])
    return f"{aligned(rows)}\n(tokens: {report.tokenizer})"


def _small_figures(report: EditsReport) -> list[str]:
    times_, slips_ = report.times, report.slips
    return [
        f"view: {report.view_overhead:.2f} tokens a line over bare numbers",
        f"slips by one or two lines: {slips_.missed} of {slips_.tried} not noticed "
        f"({100 * slips_.missed / slips_.tried:.3f} %)",
        f"10,000 lines, p95: view {times_.view:.1f} ms, apply {times_.apply:.1f} ms, "
        f"with the parse gate {times_.apply_with_gate:.1f} ms",
    ]

"""The results of a suite, and the comparison of two, as tables in text and Markdown, and as JSON.

Text of tasks and models is escaped in each. The figures come from `suite_results` and `paired`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from rich.cells import cell_len

from akg_tui.core.sanitize import clean, one_line
from akg_tui.core.summary import DOUBT, ratio_text
from akg_tui.report.markdown import code
from akg_tui.report.write import write_file
from akg_tui.suite.paired import LEAST_PAIRS, Comparison
from akg_tui.suite.suite_results import FAST_AT, AgentResult, Mean, SuiteResults
from akg_tui.view.formatting import short_time

Form = Literal["md", "json"]
FORMS: tuple[Form, ...] = ("md", "json")
RESULTS = "results"
DOUBTED = f"{DOUBT}: the interval of the ratio proves neither faster nor slower."


class Column(Struct, frozen=True):
    """A column of numbers, of words of this program, or of text from elsewhere."""

    name: str
    kind: Literal["number", "word", "text"] = "number"

    @property
    def number(self) -> bool:
        return self.kind == "number"


class Table(Struct, frozen=True, kw_only=True):
    """A table of texts; `notes` say how its figures are to be read."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


class Page(Struct, frozen=True, kw_only=True):
    title: str
    about: tuple[str, ...]
    tables: tuple[Table, ...]


def results_page(results: SuiteResults) -> Page:
    """Return the tables of a suite: one row an agent, then one a task."""
    return Page(
        title=results.name,
        about=(f"made by version {results.version}",),
        tables=(_agents(results.agents), _tasks(results)),
    )


def _agents(agents: Sequence[AgentResult]) -> Table:
    """Return a column for each agent: a terminal has room for two or three."""
    figures: list[tuple[str, Callable[[AgentResult], str]]] = [
        ("tasks", lambda a: str(a.tasks)),
        (
            "correct",
            lambda a: "none has ended" if 0 < a.tasks == a.open else _share(a.correct_share),
        ),
        *((f"fast {p:g} over eager", partial(_fast_eager, p)) for p in FAST_AT),
        ("geometric mean over eager", lambda a: _mean(a.mean_eager)),
        ("tasks with a time of compile", lambda a: str(a.compile_tasks)),
        *((f"fast {p:g} over compile", partial(_fast_compile, p)) for p in FAST_AT),
        ("geometric mean over compile", lambda a: _mean(a.mean_compile)),
        ("geometric mean over seed", lambda a: _mean(a.mean_seed)),
        ("work, all tasks", lambda a: short_time(a.worked_s)),
        ("work, median task", lambda a: "–" if a.median_s is None else short_time(a.median_s)),
        ("tokens", lambda a: f"{a.tokens:,}"),
        ("cost", lambda a: _cost(a.cost_usd)),
        ("could not be run, in no figure", lambda a: str(a.refused)),
        ("not ended, counted as not correct", lambda a: str(a.open)),
    ]
    return Table(
        title="Agents",
        columns=(Column("figure", "word"), *(Column(a.agent) for a in agents)),
        rows=tuple((name, *(figure(a) for a in agents)) for name, figure in figures),
        notes=(
            "fast p: the share of the tasks with a correct kernel more than p times as fast.",
            "Geometric means are over the tasks with a correct kernel, with a bootstrap interval "
            "of 95 %.",
        ),
    )


def _fast_eager(p: float, agent: AgentResult) -> str:
    return _share(agent.fast_eager.get(f"{p:g}"))


def _fast_compile(p: float, agent: AgentResult) -> str:
    return _share(agent.fast_compile.get(f"{p:g}"))


def _tasks(results: SuiteResults) -> Table:
    columns = (
        *(Column("task", "text"), Column("agent", "text"), Column("state", "word")),
        *(Column(n) for n in ("eager", "compile", "seed", "roofline", "rounds", "work")),
        *(Column("tokens"), Column("cost"), Column("why it ended", "text")),
    )
    rows = tuple(
        (
            t.task,
            t.agent,
            t.state,
            _ratio(t.over_eager, proved="eager" not in t.not_proved),
            _ratio(t.over_compile, proved="compile" not in t.not_proved),
            _ratio(t.over_seed, proved="seed" not in t.not_proved),
            _share(t.roofline),
            str(t.rounds),
            short_time(t.worked_s),
            f"{t.tokens:,}",
            _cost(t.cost_usd),
            one_line(t.why),
        )
        for t in results.tasks
    )
    told = "A run that went on on another machine has no ratio over compile."
    notes = (
        *((told,) if any(task.moved for task in results.tasks) else ()),
        *((DOUBTED,) if any(task.not_proved for task in results.tasks) else ()),
    )
    return Table(title="Tasks", columns=columns, rows=rows, notes=notes)


def comparison_page(found: Comparison) -> Page:
    """Return the tables of a comparison: both sides, the gain by cost, then one row a task."""
    sides = Table(
        title="B against A",
        columns=(Column("what", "word"), Column("figure"), Column("of", "word")),
        rows=(
            (
                "speed of B over A",
                _mean(found.speed),
                f"geometric mean over {found.both_correct} tasks correct in both, paired bootstrap",
            ),
            (
                "solved by A alone, by B alone",
                f"{found.only_a}, {found.only_b}",
                "tasks with a correct kernel from one side only",
            ),
        ),
        notes=found.notes,
    )
    pairs = ("eager", "gain", "tokens", "cost", "work")
    names = ("B over A", *(f"{side} {name}" for name in pairs for side in "AB"))
    rows = tuple(
        (
            a.task,
            a.state,
            b.state,
            _ratio(over),
            *(_ratio(each.over_eager, proved="eager" not in each.not_proved) for each in (a, b)),
            *(f"{each.gain:.2f}" for each in (a, b)),
            *(f"{each.tokens:,}" for each in (a, b)),
            *(_cost(each.cost_usd) for each in (a, b)),
            *(short_time(each.worked_s) for each in (a, b)),
        )
        for a, b, over in ((p.a, p.b, p.b_over_a) for p in found.pairs)
    )
    columns = (
        *(Column("task", "text"), Column("A", "word"), Column("B", "word")),
        *map(Column, names),
    )
    both = (each for p in found.pairs for each in (p.a, p.b))
    doubted = (DOUBTED,) if any("eager" in each.not_proved for each in both) else ()
    left = f"left out: {found.left_out} tasks that one side lacks, refused or has not ended"
    return Page(
        title=f"{found.b} against {found.a}",
        about=(f"A: {found.a}", f"B: {found.b}", *([left] if found.left_out else [])),
        tables=(
            *(sides, _gains(found)),
            Table(title="Tasks", columns=columns, rows=rows, notes=doubted),
        ),
    )


def _gains(found: Comparison) -> Table:
    names = ("A", "B", "B - A", "interval")
    rows = tuple(
        (
            f"gain per {rate.per}",
            *(f"{number:.3g}" for number in (rate.a, rate.b, rate.b - rate.a)),
            f"[{rate.low:.3g}, {rate.high:.3g}]",
            "a difference" if rate.shown else "no difference shown",
        )
        for rate in found.rates
    )
    return Table(
        title="Verified gain by cost",
        columns=(Column("what", "word"), *map(Column, names), Column("so", "word")),
        rows=rows,
        notes=(
            "A gain of 1 is twice as fast, by the lower bound of the best kernel's ratio over the "
            "seed, or over eager where the agent wrote the seed; 0 is no verified gain.",
            "The interval of the difference is a bootstrap over the pairs at 98.3 %, for 95 % over "
            f"three kinds of cost; a difference takes {LEAST_PAIRS} pairs, and 0 outside of it.",
        ),
    )


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _ratio(value: float | None, *, proved: bool = True) -> str:
    return "–" if value is None else f"{ratio_text(value)}{'' if proved else DOUBT}"


def _mean(found: Mean | None) -> str:
    if found is None:
        return "–"
    return f"{ratio_text(found.mean)} [{ratio_text(found.low)}, {ratio_text(found.high)}]"


def _cost(value: float | None) -> str:
    return "–" if value is None else f"${value:.2f}"


def as_text(page: Page) -> str:
    """Return the page for a terminal: aligned columns, one line a row."""
    lines = [clean(line) for line in (page.title, *page.about)]
    for table in page.tables:
        heads = [column.name for column in table.columns]
        rows = [heads, *([clean(cell) for cell in row] for row in table.rows)]
        wide = [max(cell_len(row[i]) for row in rows) for i in range(len(heads))]
        lines += ["", table.title]
        for row in rows:
            cells = [
                " " * (wide[i] - cell_len(cell)) + cell
                if table.columns[i].number
                else cell + " " * (wide[i] - cell_len(cell))
                for i, cell in enumerate(row)
            ]
            lines.append("  ".join(cells).rstrip())
        lines += [clean(note) for note in table.notes]
    return "\n".join(lines) + "\n"


def _as_markdown(page: Page) -> str:
    lines = [f"# {code(page.title)}", "", *(f"- {code(line)}" for line in page.about)]
    for table in page.tables:
        lines += ["", f"## {table.title}", ""]
        lines.append("| " + " | ".join(column.name for column in table.columns) + " |")
        lines.append("|" + "|".join("--:" if c.number else "---" for c in table.columns) + "|")
        for row in table.rows:
            cells = (
                code(cell) if column.kind == "text" else cell
                for cell, column in zip(row, table.columns, strict=True)
            )
            lines.append("| " + " | ".join(cells) + " |")
        lines += ["", *(note for note in table.notes)]
    return "\n".join(lines).rstrip() + "\n"


def render(found: SuiteResults | Comparison, form: Form) -> str:
    """Return results or a comparison in one of the formats."""
    if form == "json":
        kind = "suite" if isinstance(found, SuiteResults) else "suite_comparison"
        # ASCII only: no raw character of a task reaches a terminal that shows the file.
        return json.dumps({"type": kind, **msgspec.to_builtins(found)}, indent=1) + "\n"
    return _as_markdown(page_of(found))


def page_of(found: SuiteResults | Comparison) -> Page:
    return results_page(found) if isinstance(found, SuiteResults) else comparison_page(found)


def write_results(folder: Path, results: SuiteResults) -> list[Path]:
    """Write the results in all formats into the suite's folder. Raises `StoreError`."""
    paths = []
    for form in FORMS:
        path = folder / f"{RESULTS}.{form}"
        write_file(path, render(results, form))
        paths.append(path)
    return paths

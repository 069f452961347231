"""`report.md`: the report for a terminal or a code forge, from the template `report.md.j2`.

Text of a model, a kernel or a person is put in code spans and fences that it cannot close, and
characters that are not printable are removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from akg_tui.core.sanitize import clean, one_line, split_clean
from akg_tui.report import wording
from akg_tui.report.contents import Report
from akg_tui.view.diff import Kind, Row

if TYPE_CHECKING:
    from jinja2 import Template

MOST_ROUNDS = 300  # in the table; the others are in the directions' table and report.json
WIDTH = 160


def code(text: str, width: int = WIDTH) -> str:
    """Return `text` on one line as a code span that is valid in a table."""
    line = one_line(text, width).replace("|", "¦")
    if not line:
        return "–"
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fence(lines: Iterable[str], language: str = "") -> str:
    """Return a block whose fence is longer than any run of backticks in the block."""
    body = list(lines)
    ticks = "`" * max(3, _longest_run("\n".join(body)) + 1)
    return "\n".join([f"{ticks}{language}", *body, ticks])


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def render_markdown(report: Report) -> str:
    """Return the whole report."""
    text = _template().render(
        wording.parts(report),
        difference=map(_diff_line, wording.difference(report)),
        problem=split_clean(report.baseline_problem),
        kernel=split_clean(report.best.text.removesuffix("\n")),
        again=map(one_line, wording.reproduce(report)),
        most_rounds=MOST_ROUNDS,
    )
    return text + "\n"


@lru_cache(maxsize=1)  # Jinja takes longer to compile it than to render a report
def _template() -> Template:
    return wording.template("report.md.j2", code=code, fence=fence)


def _diff_line(row: Row) -> str:
    return f"@@ {row.old} lines alike" if row.kind is Kind.GAP else row.kind.value + clean(row.text)

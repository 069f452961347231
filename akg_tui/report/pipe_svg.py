"""The timelines of the launches of a compile report as one SVG, like a profiler's.

Pure: equal reports produce equal bytes. The names of kernels and functions are untrusted and are
escaped. Where a browser shows it, an interval tells its operation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from xml.sax.saxutils import escape

from akg_tui.core.sanitize import one_line
from akg_tui.evaluate.evidence.ascend.pipe_model import LaunchEstimate, Timeline
from akg_tui.evaluate.evidence.ascend.pipe_picture import row_name
from akg_tui.evaluate.evidence.compile_report import CompileReport, estimate_of

WIDTH, GUTTER, BUSY = 960, 110, 60
ROW, BAR, HEAD, FOOT = 20, 14, 46, 34

_STYLE = """
text { font: 12px sans-serif; fill: #222 }
.name { font-weight: bold }
.faint { fill: #666 }
.lane { fill: #eee }
.move { fill: #2a6fbb }
.work { fill: #2e8b57 }
.scalar { fill: #b8860b }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .faint { fill: #999 } .lane { fill: #2a2a2a }
}
"""
_KINDS = {"V": "work", "M": "work", "S": "scalar"}


def draw_timelines(report: CompileReport) -> str:
    """Return the timelines of all launches that have an estimate; "" if there is none."""
    parts: list[str] = []
    height = 0
    for launch in report.launches:
        for compiled in launch.compiled:
            estimate = estimate_of(launch, compiled)
            if estimate is None or estimate.timeline is None:
                continue
            name = f"{one_line(launch.kernel, 60)} on {one_line(compiled.arch, 20)}"
            parts += _launch(name, estimate, estimate.timeline, height)
            height += HEAD + ROW * len(estimate.timeline.rows) + FOOT
    if not parts:
        return ""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">'
    )
    return "\n".join((head, f"<style>{_STYLE}</style>", *parts, "</svg>", ""))


def _launch(name: str, estimate: LaunchEstimate, timeline: Timeline, top: int) -> Iterator[str]:
    time = f"{estimate.us:.1f} us" if math.isfinite(estimate.us) else "no time"
    yield _text(0, top + 16, name, "name")
    told = f"estimate {time}, by a model and not measured; {one_line(estimate.binds, 120)}"
    yield _text(0, top + 34, told, "faint")
    room = WIDTH - GUTTER - BUSY
    scale = room / (timeline.end - timeline.start)
    for number, row in enumerate(timeline.rows):
        y = top + HEAD + number * ROW
        key = row_name(row, timeline)
        yield _text(0, y + BAR - 2, key)
        yield f'<rect class="lane" x="{GUTTER}" y="{y}" width="{room}" height="{BAR}"/>'
        for each in row.intervals:
            x = GUTTER + (each.start - timeline.start) * scale
            width = max(0.5, (each.end - each.start) * scale)
            title = f"{each.name}: {each.start:.3f} to {each.end:.3f} us"
            yield (
                f'<rect class="{_KINDS.get(row.pipe, "move")}" x="{x:.2f}" y="{y}" '
                f'width="{width:.2f}" height="{BAR}"><title>{escape(title)}</title></rect>'
            )
        busy = min(estimate.busy.get(key, 0.0), 1.0)
        yield _text(WIDTH - BUSY + 8, y + BAR - 2, f"{busy:.0%}", "faint")
    y = top + HEAD + len(timeline.rows) * ROW + 12
    what = "one program" if timeline.whole else "iterations of one program"
    yield _text(GUTTER, y, f"{timeline.start:.2f} us: {what}", "faint")
    yield _text(WIDTH - BUSY - 62, y, f"{timeline.end:.2f} us", "faint")


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{of_kind}>{escape(text)}</text>'

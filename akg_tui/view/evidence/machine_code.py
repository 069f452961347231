"""Machine code as rows: each source line with its instructions, compared with another kernel's.

Pure. A row is built when it is drawn. All text is the compiler's, and so untrusted: it is cleaned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from akg_tui.core.kernel.kernel_files import KernelFiles, Place
from akg_tui.core.sanitize import Said, clean, one_line
from akg_tui.evidence.compiler_remarks import condensed
from akg_tui.evidence.findings import CompilerRemark, KernelFindings, Loop
from akg_tui.view.code_rows import GROUND, MARK, on
from akg_tui.view.diff import Compared, Kind, Row, compare
from akg_tui.view.language import tr
from akg_tui.view.lazy_rows import OnDemand
from akg_tui.view.spans import Line, Span, cells

# Parts that shift with every change elsewhere: labels, distances to constants, lines of a report.
_SHIFTS = re.compile(r"(?<=[ ,])\.\d+$|0x[0-9a-f]+(?=\(%rip\))")
_LINE = re.compile(r"^(\S+:)\d+ ")
_PACKED = re.compile(r"^v?[a-z0-9]+(ps|pd|ph|[^s]d|dq|dw|bw|wd)\b.*%[xyz]mm")

_PARTS = {
    "machine code": Said("machine code"),
    "hot loop": Said("hot loop"),
    "remarks": Said("remarks"),
}
_KINDS = {"vectorized": Said("vectorized"), "missed": Said("missed")}

HOT = "▌"
GUTTER = 13


def part_name(part: str) -> str:
    """Return the name of a part of the findings."""
    return tr(_PARTS[part]) if part in _PARTS else clean(part)


class CodeRow(Struct, frozen=True, gc=False):
    """One row: a function's name, a line of the kernel's file, a remark, an instruction, a line of
    a compile report.

    `key` is what a comparison reads: without labels and line numbers, which shift. `line` is a line
    of the kernel's file. `hot`: the row is part of the likeliest hot loop. There are thousands;
    none keeps another object that the garbage collector would have to visit.
    """

    kind: str
    text: str
    key: str
    line: int = 0
    label: str = ""
    hot: bool = False


def code_rows(findings: KernelFindings, kernel: KernelFiles) -> list[CodeRow]:
    """Return the rows of a kernel's machine code below the kernel's own."""
    code = findings.code
    source = [row for _, row in kernel.rows()]
    places = kernel.places_of_several
    rows: list[CodeRow] = []
    told = _remarks_by_line(code.remarks)
    hot = code.loops[0] if code.loops else None
    for number, function in enumerate(code.functions):
        rows.append(CodeRow("function", f"{clean(function.name)}:", function.name))
        before = 0
        loops = {loop.first: loop for loop in code.loops if loop.function == number}
        for index, each in enumerate(function.rows):
            if each.line and each.line != before:
                before = each.line
                rows += _source_rows(each.line, source, told, places)
            if (loop := loops.get(index)) is not None:
                rows.append(CodeRow("loop", loop_words(loop, hot=loop is hot), "loop", before))
            inside = hot is not None and hot.function == number and hot.first <= index <= hot.last
            key = _SHIFTS.sub(".", each.text)
            rows.append(CodeRow("code", clean(each.text), key, before, each.label, inside))
    for line in map(clean, code.report):
        rows.append(CodeRow("report", line, _LINE.sub(r"\1 ", line)))
    if code.cut:
        cut = tr("{many} more instructions are not shown", many=code.cut)
        rows.append(CodeRow("note", cut, "cut"))
    return rows


def _remarks_by_line(remarks: Sequence[CompilerRemark]) -> dict[int, list[CompilerRemark]]:
    found: dict[int, list[CompilerRemark]] = {}
    for remark in condensed(remarks, (), len(remarks)):
        found.setdefault(remark.line, []).append(remark)
    return found


def _source_rows(
    line: int, source: Sequence[str], told: dict[int, list[CompilerRemark]], places: Sequence[Place]
) -> list[CodeRow]:
    """Return a line of the file; the compiler's remarks follow where it is shown first."""
    text = clean(source[line - 1].strip()) if line <= len(source) else ""
    at = f"{places[line - 1].line}" if line <= len(places) else ""
    rows = [CodeRow("source", text, text, line, at)]
    for remark in told.pop(line, ()):
        said = one_line(remark.text, 200)
        rows.append(CodeRow(remark.kind, said, f"{remark.kind} {said}", line))
    return rows


def loop_words(loop: Loop, *, hot: bool) -> str:
    """Return a loop in a line: whether it is the hot one, its instructions."""
    name = tr("the likeliest hot loop") if hot else tr("loop")
    return tr(
        "{name}: {many} instructions, {packed} packed of {vector} vector",
        name=name,
        many=loop.instructions,
        packed=loop.packed,
        vector=loop.vector,
    )


class ComparedCode(OnDemand[Line]):
    """The rows of `new`, with those that only `old` has, each built on access."""

    def __init__(self, old: Sequence[CodeRow], new: Sequence[CodeRow]) -> None:
        self._old, self._new = old, new
        self.compared: Compared = compare(
            tuple(row.key for row in old), tuple(row.key for row in new)
        )
        self.columns = GUTTER + max((cells(row.text) for row in (*old, *new)), default=0)

    def __len__(self) -> int:
        return len(self.compared)

    def row_of(self, index: int) -> CodeRow:
        """Return the row of code at a row of the comparison."""
        return self._row(self.compared[index])

    def _row(self, row: Row) -> CodeRow:
        return self._old[row.old - 1] if row.kind is Kind.REMOVED else self._new[row.new - 1]

    def at_hot_loop(self) -> int:
        """Return the index of the first row of the hot loop; 0 without one."""
        numbers = (n for n, row in enumerate(self.compared) if self._row(row).hot)
        return next(numbers, 0)

    def of_line(self, line: int) -> range:
        """Return the rows of the first group of a line of the file, or of the next line with code.

        Empty if no later line has any.
        """
        starts = [
            (row.new and self._row(row).line, n)
            for n, row in enumerate(self.compared)
            if row.kind is not Kind.REMOVED and self._row(row).kind == "source"
        ]
        later = [(found, n) for found, n in starts if found >= line]
        if not later:
            return range(0)
        return self.group(min(later)[1])

    def groups(self) -> list[int]:
        """Return the rows with a line of the file, at which a group of instructions begins."""
        return [n for n, row in enumerate(self.compared) if self._row(row).kind == "source"]

    def group(self, start: int) -> range:
        """Return the rows of the group that begins at a row."""
        stop = start + 1
        while stop < len(self.compared) and self.row_of(stop).kind not in ("source", "function"):
            stop += 1
        return range(start, stop)

    def texts(self) -> list[str]:
        """Return the texts of all rows, for a search."""
        return [self._row(row).text for row in self.compared]

    def _made(self, index: int) -> Line:
        row = self.compared[index]
        told = self._row(row)
        ground = GROUND.get(row.kind, "")
        mark: Span = (f" {row.kind.value} ", on(MARK[row.kind], ground))
        if told.kind == "code":
            hot = HOT if told.hot else " "
            operation, _, operands = told.text.partition(" ")
            role = "accent" if _PACKED.match(told.text) else "text"
            return (
                (hot, on("note", ground)),
                (f"{told.label:>6} ", on("tag", ground)),
                mark,
                (f"  {operation:<12} ", on(role, ground)),
                (operands, on("muted", ground)),
            )
        number = f"{told.label or told.line or '':>7} " if told.kind == "source" else " " * 8
        role = {
            "function": "strong",
            "source": "syn.type",
            "vectorized": "verdict.keep",
            "missed": "note",
            "loop": "figure",
            "report": "text",
        }.get(told.kind, "faint")
        text = told.text
        if told.kind in _KINDS:
            text = f"  {tr(_KINDS[told.kind])}: {text}"
        elif told.kind == "loop":
            text = f"  {text}"
        return ((number, on("number", ground)), mark, (text, on(role, ground)))

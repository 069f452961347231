"""`report.html`: one file without scripts or external links, from the template beside this module.

The template escapes every value, and text also passes `akg_tui.core.sanitize.clean`: no character
of a kernel or a plan can act as markup or hide.
"""

from __future__ import annotations

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.sanitize import clean, one_line
from akg_tui.core.task import names_of
from akg_tui.report import wording
from akg_tui.report.contents import Report
from akg_tui.report.svg_chart import draw
from akg_tui.view.code_rows import Colours
from akg_tui.view.diff import Compared, Kind, Row, changed_ranges, find_hunks, size


def render_page(report: Report) -> str:
    """Return the whole page."""
    from markupsafe import Markup

    def safe(value: object) -> object:
        if type(value) is not str:
            return value
        return one_line(value) if "\n" in value else clean(value)

    shown = wording.difference(report)
    added, removed = size(shown)
    text = wording.template("report.html.j2", autoescape=True, finalize=safe).render(
        wording.parts(report),
        # The drawing is the only trusted markup: it contains no untrusted text.
        chart=Markup(draw(report)),
        difference=_marked(shown),
        kernel_files=", ".join(names_of(report.kernel_file)),
        added=added,
        removed=removed,
        code=_code(report.best.kernel(names_of(report.kernel_file)[0])),
    )
    return text + "\n"


def _marked(rows: Compared) -> list[tuple[Row, list[tuple[str, bool]]]]:
    """Return each row with the pieces of its text; True if a piece differs from its counterpart.

    Of a kernel in several files the rows have their numbers in their files.
    """
    hunk_of = {n: hunk for hunk in find_hunks(rows) for n in range(hunk.start, hunk.stop)}
    found: list[tuple[Row, list[tuple[str, bool]]]] = []
    for number, row in enumerate(rows):
        hunk = hunk_of.get(number)
        pieces: list[tuple[str, bool]] = []
        at = 0
        for start, stop in changed_ranges(rows, hunk, number) if hunk else ():
            pieces += [(row.text[at:start], False), (row.text[start:stop], True)]
            at = stop
        pieces.append((row.text[at:], False))
        old, new = rows.in_files(row) if row.kind is not Kind.GAP else (row.old, row.new)
        found.append((row._replace(old=old, new=new), pieces))
    return found


def _code(kernel: KernelFiles) -> list[list[tuple[str, str]]]:
    """Return the kernel's rows as (class, text)."""
    texts = {name: text.removesuffix("\n") for name, text in kernel.texts.items()}
    return [
        [(role.replace("syn.", "s-"), piece) for piece, role in line]
        for line in Colours().lex(KernelFiles(texts))
    ]

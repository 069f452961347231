"""Applying an edit: all of it or none of it.

Owns the decision. Takes a parsed request, asks `anchors` whether it is aimed at lines
its writer saw, refuses conflicts, no-ops and broken syntax, and lets `splice` build the
next revision. Writes no file; never alters a line of the request.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence

from akg_tui.hashline.anchors import AnchorCheck
from akg_tui.hashline.document import Document
from akg_tui.hashline.ops import Op
from akg_tui.hashline.rejection import EditRejected, Problem
from akg_tui.hashline.splice import EditResult, Span, in_order, span_of, splice
from akg_tui.hashline.tags import Tagger


def apply(document: Document, tagger: Tagger, ops: Sequence[Op], *, served: Document) -> EditResult:
    """Apply `ops` to `document`.

    Parameters
    ----------
    served : Document
        The revision the writer saw. Its line numbers are the ones in `ops`; every line
        the edit touches, or an insert stands between, must be byte-identical in
        `document` at the same number.

    Raises
    ------
    EditRejected
        With every problem found. `document` is a value and stays what it was.

    Notes
    -----
    The operations all refer to the file before the edit, so disjoint ones may come in any
    order. Inserts at one place keep theirs. Payload lines go in exactly as given, with the
    file's usual line ending; a missing final newline stays missing.
    """
    check = AnchorCheck(document, served, tagger)
    problems: list[Problem] = []
    spans: list[Span] = []
    for index, op in enumerate(ops):
        problems += check.problems(index, op)
        spans.append(span_of(op, index, len(served.lines)))
    problems += _conflicts(spans)
    if problems:
        raise EditRejected(document, tagger, problems)
    result = splice(document, spans)
    problem = _no_op(document, result, spans) or _broken_syntax(document, result.document)
    if problem:
        raise EditRejected(document, tagger, [problem])
    return result


def _conflicts(spans: Sequence[Span]) -> Iterator[Problem]:
    """Ranges that share a line, inserts inside a range, and the same insert twice."""
    reach: Span | None = None  # the range that reaches furthest down so far
    inserts: dict[tuple[int, tuple[str, ...]], int] = {}
    for span in in_order(spans):
        where = f"ops[{span.index}]"
        if reach is not None and span.start < reach.stop:
            other = f"ops[{reach.index}]"
            if span.is_gap:
                detail = f"inserts inside the lines that {other} takes away"
            else:
                detail = f"shares line {span.start + 1} with {other}"
            yield Problem("overlap", where, detail)
        if span.is_gap:
            first = inserts.setdefault((span.start, span.lines), span.index)
            if first != span.index:
                yield Problem(
                    "duplicate", where, f"inserts the same lines at the same place as ops[{first}]"
                )
        elif reach is None or span.stop > reach.stop:
            reach = span


def _no_op(document: Document, result: EditResult, spans: Sequence[Span]) -> Problem | None:
    if result.document.data != document.data:
        return None
    near = tuple(number for span in spans for number in (span.start + 1, span.stop))
    return Problem("no-op", "ops", "the file already reads exactly so; nothing to change", near)


def _broken_syntax(before: Document, after: Document) -> Problem | None:
    """A Python file that parsed must still parse; one that did not may be mended in steps."""
    if not before.path.endswith(".py"):
        return None
    fault = _syntax_fault(after)
    if fault is None or _syntax_fault(before) is not None:
        return None
    number, message = fault
    text = after.lines[number - 1].strip()[:200] if 1 <= number <= len(after.lines) else ""
    detail = f"{before.path} would no longer parse: {message} at line {number} of the result"
    return Problem("syntax", "ops", f"{detail}: {text}" if text else detail)


def _syntax_fault(document: Document) -> tuple[int, str] | None:
    """Line and message of the first syntax error, None if there is none."""
    try:
        with warnings.catch_warnings():
            # The parser warns of odd escapes on stderr, which may be the workbench's screen.
            warnings.simplefilter("ignore")
            ast.parse(document.data)
    except SyntaxError as error:
        return error.lineno or 1, error.msg
    except ValueError as error:  # NUL bytes
        return 1, str(error)
    except (RecursionError, MemoryError):
        return 1, "nested too deeply"
    return None

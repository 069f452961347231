"""One reader of one file: what it was shown, what it changed, and what it may change now.

Owns the served ledger (which lines of which revision were shown) and the lineage. An edit
names a revision; the reader's own earlier edits are followed exactly, a change from
outside is refused with fresh anchors. Holds text in memory; reads and writes no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from akg_tui.hashline.anchors import Reading
from akg_tui.hashline.batch_checks import boundary_echoes, conflicts, no_op, without_prefixes
from akg_tui.hashline.document import Document
from akg_tui.hashline.lineage import Lineage, LineMap
from akg_tui.hashline.ops import InsertAtEdge, Op
from akg_tui.hashline.parse_gate import newly_broken
from akg_tui.hashline.rejection import EditRejected, Problem
from akg_tui.hashline.splice import EditResult, Span, Unwritable, splice
from akg_tui.hashline.tagged_view import Fold, around, render, render_result, rendered, result_lines
from akg_tui.hashline.tags import Tagger

_NO_OPS_BORNE = 2  # the third identical one is a loop that only a hard word can end


@dataclass(frozen=True, slots=True)
class EditRequest:
    """A parsed call.

    Attributes
    ----------
    ops : tuple of Op
    revision : int or None
        The revision whose numbers and tags the operations use. None if the writer did not
        say; then every revision it was shown must lead to the same edit.
    allow_dup : bool
        New lines may repeat the row beside their range.
    allow_broken : bool
        The file may stop parsing.
    """

    ops: tuple[Op, ...]
    revision: int | None = None
    allow_dup: bool = False
    allow_broken: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """An edit that may be made; nothing has happened yet.

    Attributes
    ----------
    base : Document
        The revision it was checked against.
    result : EditResult
    notes : tuple of str
        What was done beyond the letter of the request, for its writer to know.
    """

    base: Document
    result: EditResult
    step: LineMap
    notes: tuple[str, ...]


class EditSession:
    """See the module's words. One per reader; not for use by several threads at once.

    Parameters
    ----------
    document : Document
        The file as it stands; nothing of it has been shown yet.
    tagger : Tagger
        Its key should be this session's own, so that tags of another are refused.
    """

    def __init__(self, document: Document, tagger: Tagger) -> None:
        self._tagger = tagger
        self._lineage = Lineage(document)
        self._seen: dict[int, frozenset[int]] = {}
        self._last_no_op: tuple[EditRequest, int] | None = None

    @property
    def document(self) -> Document:
        """The newest revision known."""
        return self._lineage.newest

    def revision(self, number: int) -> Document | None:
        """An older revision, None if there never was one of that number."""
        return self._lineage.revision(number)

    @property
    def has_shown(self) -> bool:
        """Whether the reader has been shown anything at all."""
        return bool(self._seen)

    def observe(self, current: Document) -> Document:
        """Take note of the file as it stands; other bytes become a revision from outside."""
        if current.sha256 == self.document.sha256:
            return self.document
        return self._lineage.extend(current, None)

    def view(self, *, first: int = 1, last: int | None = None, fold: Sequence[Fold] = ()) -> str:
        """Render the newest revision and remember what was shown.

        Raises
        ------
        BadRange
            As `render` does.
        """
        text = render(self.document, self._tagger, first=first, last=last, fold=fold)
        self._show(rendered(self.document, first, last, fold))
        return text

    def trust(self) -> None:
        """Take it that the reader has seen the whole newest revision, by other means."""
        self._show(range(1, len(self.document.lines) + 1))

    def check(self, request: EditRequest, *, current: Document | None = None) -> Proposal:
        """Decide about an edit; `accept` makes it.

        Parameters
        ----------
        current : Document, optional
            The file as it stands, where others can write to it too.

        Raises
        ------
        EditRejected
            With every problem found. What it quotes counts as shown.
        """
        if current is not None:
            self.observe(current)
        problems, reading = self._reading_for(request)
        notes: tuple[str, ...] = ()
        spans: list[Span] = []
        if reading is not None:
            request, notes = _stripped(request, reading)
            spans, problems = _placed(request.ops, reading)
        problems += conflicts(spans)
        if not problems and not request.allow_dup:
            problems += boundary_echoes(self.document, request.ops, spans)
        if problems:
            raise self._rejected(problems)
        result = self._spliced(spans)
        if nothing := no_op(self.document, result, spans):
            raise self._rejected([self._counted_no_op(request, nothing)])
        if not request.allow_broken and (broken := _syntax_problem(self.document, result)):
            raise self._rejected([broken])
        step = LineMap.of_spans(spans, len(self.document.lines))
        return Proposal(self.document, result, step, notes)

    def accept(self, proposal: Proposal) -> str:
        """Make the proposed revision the newest; the answer for its writer."""
        if proposal.base is not self.document:
            raise ValueError("the proposal was checked against an older revision")
        base = self._seen.get(self.document.revision, frozenset())
        carried = frozenset(filter(None, map(proposal.step.line, base)))
        made = self._lineage.extend(proposal.result.document, proposal.step)
        self._last_no_op = None
        result = replace(proposal.result, document=made)
        self._show(carried | frozenset(result_lines(result)))
        answer = render_result(result, self._tagger)
        return "\n".join([answer, *(f"Note: {note}" for note in proposal.notes)])

    def _show(self, numbers: Iterable[int]) -> None:
        revision = self.document.revision
        seen = self._seen.setdefault(revision, frozenset())
        new = [number for number in numbers if number not in seen]
        if new:
            self._seen[revision] = seen.union(new)

    def _reading(self, revision: int) -> Reading | None:
        served = self._lineage.revision(revision)
        if served is None or revision not in self._seen:
            return None
        way = self._lineage.to_newest(revision)
        return Reading(served, self._seen[revision], way, self.document, self._tagger)

    def _reading_for(self, request: EditRequest) -> tuple[list[Problem], Reading | None]:
        """The revision the request speaks of, or why none can be told."""
        if request.revision is not None:
            reading = self._reading(request.revision)
            if reading is not None:
                return [], reading
            detail = f"no line of a revision r{request.revision} was ever shown to you"
            return [Problem("unknown revision", "rev", detail)], None
        readings = [r for each in sorted(self._seen, reverse=True) if (r := self._reading(each))]
        if not readings:
            detail = "no line of the file was ever shown to you; read it first"
            return [Problem("never shown", "ops", detail)], None
        if all(isinstance(op, InsertAtEdge) for op in request.ops):
            return [], readings[0]
        fitting = [r for r in readings if all(map(r.fits, request.ops))]
        placements = [_placed(request.ops, reading) for reading in fitting]
        accepted = [spans for spans, problems in placements if not problems]
        if accepted and any(placed != (accepted[0], []) for placed in placements):
            names = ", ".join(f"r{r.served.revision}" for r in fitting)
            detail = f"these anchors fit {names} and mean different lines; name the revision"
            return [Problem("ambiguous", "rev", detail)], None
        return [], (fitting or readings)[0]

    def _spliced(self, spans: Sequence[Span]) -> EditResult:
        try:
            return splice(self.document, spans)
        except Unwritable as error:
            raise self._rejected([Problem("unwritable", "ops", str(error))]) from error

    def _counted_no_op(self, request: EditRequest, problem: Problem) -> Problem:
        last, times = self._last_no_op or (None, 0)
        times = times + 1 if last == request else 1
        self._last_no_op = (request, times)
        if times <= _NO_OPS_BORNE:
            return problem
        detail = (
            f"the same edit changed nothing {times} times in a row. Stop sending it: the file "
            "already holds what you want there, or you want something else"
        )
        return replace(problem, reason="repeated no-op", detail=detail)

    def _rejected(self, problems: Sequence[Problem]) -> EditRejected:
        near = sorted({number for problem in problems for number in problem.near})
        shown = around(self.document, near)
        if shown:
            self._show(shown)
        return EditRejected(self.document, self._tagger, problems)


def apply(
    document: Document,
    tagger: Tagger,
    ops: Sequence[Op],
    *,
    allow_dup: bool = False,
    allow_broken: bool = False,
) -> EditResult:
    """Apply `ops` to a document that its writer has seen whole, as it stands.

    Raises
    ------
    EditRejected
        With every problem found. `document` is a value and stays what it was.

    Notes
    -----
    The operations all refer to the file before the edit, so disjoint ones may come in any
    order. Inserts at one place keep theirs. Payload lines go in as given, with the file's
    usual line ending; a missing final newline stays missing.
    """
    session = EditSession(document, tagger)
    session.trust()
    request = EditRequest(tuple(ops), document.revision, allow_dup, allow_broken)
    return session.check(request).result


def _placed(ops: Sequence[Op], reading: Reading) -> tuple[list[Span], list[Problem]]:
    spans: list[Span] = []
    problems: list[Problem] = []
    for index, op in enumerate(ops):
        placed, wrong = reading.place(index, op)
        spans += placed
        problems += wrong
    return spans, problems


def _stripped(request: EditRequest, reading: Reading) -> tuple[EditRequest, tuple[str, ...]]:
    """The request without tags copied into its text, and a note of each such operation."""
    ops: list[Op] = []
    notes: list[str] = []
    for index, op in enumerate(request.ops):
        bare = without_prefixes(op, reading.is_shown)
        ops.append(op if bare is None else bare)
        if bare is not None:
            notes.append(
                f"ops[{index}].lines carried the tags of the view; they were taken off. "
                "Send the bare text."
            )
    return replace(request, ops=tuple(ops)), tuple(notes)


def _syntax_problem(before: Document, result: EditResult) -> Problem | None:
    fault = newly_broken(before, result)
    if fault is None:
        return None
    lines = result.document.lines
    text = lines[fault.line - 1].strip()[:200] if 1 <= fault.line <= len(lines) else ""
    detail = (
        f"{before.path} would no longer parse: {fault.message} at line {fault.line} of the result"
    )
    return Problem("syntax", "ops", f"{detail}: {text}" if text else detail)

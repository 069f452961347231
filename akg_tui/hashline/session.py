"""The edit session of one reader: lines shown, edits made, and the check of the next edit.

Owns the record of lines shown, by revision, and the lineage. An edit names a revision: the
session maps it exactly through the reader's own later edits, and refuses it, with fresh anchors,
after a change by another program. Keeps text in memory; reads and writes no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from akg_tui.hashline.anchors import ShownRevision
from akg_tui.hashline.batch_checks import boundary_echoes, conflicts, without_prefixes
from akg_tui.hashline.document import Document
from akg_tui.hashline.lineage import Lineage, LineMap
from akg_tui.hashline.ops import InsertAtEdge, Op
from akg_tui.hashline.parse_gate import newly_broken
from akg_tui.hashline.rejection import EditRejected, Problem
from akg_tui.hashline.splice import EditResult, Span, Unwritable, splice
from akg_tui.hashline.tagged_view import (
    around,
    render,
    render_lines,
    render_result,
    rendered,
    result_lines,
)
from akg_tui.hashline.tags import Tagger


@dataclass(frozen=True, slots=True)
class EditRequest:
    """A parsed call.

    - `revision`: the revision whose numbers and tags the operations use. None if the call names
      none; then every shown revision that fits the anchors must lead to an equal edit.
    - `allow_dup`: new lines may repeat the line beside their range.
    - `allow_broken`: the file may stop parsing.
    """

    ops: tuple[Op, ...]
    revision: int | None = None
    allow_dup: bool = False
    allow_broken: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """A checked edit of the revision `base` that has not been made yet.

    `step` maps the lines of `base` to those of the result; `notes` are sentences for the model
    about differences between the edit and its request.
    """

    base: Document
    result: EditResult
    step: LineMap
    notes: tuple[str, ...]


class EditSession:
    """The edits of one reader of one file. Not thread-safe.

    - `document`: the current file; no line of it has been shown yet.
    - `tagger`: the source of tags. A key of the session's own makes tags of other sessions invalid.
    """

    def __init__(self, document: Document, tagger: Tagger) -> None:
        self._tagger = tagger
        self._lineage = Lineage(document)
        self._shown: dict[int, frozenset[int]] = {}

    def copied(self) -> EditSession:
        """Return a session with the same record, whose edits do not change this one."""
        other = EditSession(self.document, self._tagger)
        other._lineage, other._shown = self._lineage.copied(), {**self._shown}
        return other

    @property
    def document(self) -> Document:
        """The newest revision of the lineage."""
        return self._lineage.newest

    def observe(self, current: Document) -> Document:
        """Compare with the current file; if it differs, append it as a change from outside."""
        if current.sha256 == self.document.sha256:
            return self.document
        return self._lineage.extend(current, None)

    def view(self, *, first: int = 1, last: int | None = None) -> str:
        """Render the newest revision and record its lines as shown. Raises `BadRange`."""
        text = render(self.document, self._tagger, first=first, last=last)
        self._record_shown(rendered(self.document, first, last))
        return text

    def view_lines(self, numbers: Iterable[int]) -> str:
        """Render some lines of the newest revision, and record them as shown."""
        wanted = sorted(set(numbers))
        self._record_shown(wanted)
        return render_lines(self.document, self._tagger, wanted)

    def assume_shown(self) -> None:
        """Record all lines of the newest revision as shown, without rendering them."""
        self._record_shown(range(1, len(self.document.lines) + 1))

    def check(self, request: EditRequest, *, current: Document | None = None) -> Proposal:
        """Check an edit and compute its result, which `accept` makes the newest revision.

        - `current`: the current file, if other programs can write to it too.

        Raises `EditRejected` with every problem found. Lines quoted in the rejection count as
        shown.
        """
        if current is not None:
            self.observe(current)
        problems, shown = self._revision_for(request)
        notes: tuple[str, ...] = ()
        spans: list[Span] = []
        if shown is not None:
            request, notes = _without_copied_tags(request, shown)
            spans, problems = _place_all(request.ops, shown)
        problems += conflicts(spans)
        if not problems and not request.allow_dup:
            problems += boundary_echoes(self.document, request.ops, spans)
        if problems:
            raise self._rejected(problems)
        try:
            result = splice(self.document, spans)
        except Unwritable as error:
            raise self._rejected([Problem("unwritable", "ops", str(error))]) from error
        if result.document.data == self.document.data:
            near = tuple(number for span in spans for number in (span.start + 1, span.stop))
            detail = "the file already reads exactly so; nothing to change"
            raise self._rejected([Problem("no-op", "ops", detail, near)])
        if not request.allow_broken and (broken := _syntax_problem(self.document, result)):
            raise self._rejected([broken])
        step = LineMap.of_spans(spans, len(self.document.lines))
        return Proposal(self.document, result, step, notes)

    def accept(self, proposal: Proposal) -> str:
        """Append the proposed revision as the newest, and return the answer for the model."""
        if proposal.base is not self.document:
            raise ValueError("the proposal was checked against an older revision")
        base = self._shown.get(self.document.revision, frozenset())
        carried = frozenset(filter(None, map(proposal.step.line, base)))
        made = self._lineage.extend(proposal.result.document, proposal.step)
        result = replace(proposal.result, document=made)
        # Also those of its lines that were there before: their author knows them.
        written = frozenset(range(1, proposal.step.count + 1)).difference(proposal.step.to)
        self._record_shown(carried | written | frozenset(result_lines(result)))
        answer = render_result(result, self._tagger)
        return "\n".join([answer, *(f"Note: {note}" for note in proposal.notes)])

    def rewrite(self, after: Document) -> str:
        """Take over a change of whole lines that the reader asked for in other words, and return
        the answer for it. `after` has as many lines as the newest revision.
        """
        pairs = enumerate(zip(self.document.lines, after.lines, strict=True))
        spans = [Span(row, row + 1, (new,), row) for row, (old, new) in pairs if old != new]
        result = splice(self.document, spans)
        step = LineMap.of_spans(spans, len(self.document.lines))
        return self.accept(Proposal(self.document, result, step, ()))

    def _record_shown(self, numbers: Iterable[int]) -> None:
        revision = self.document.revision
        self._shown[revision] = self._shown.get(revision, frozenset()).union(numbers)

    def _shown_revision(self, revision: int) -> ShownRevision | None:
        document = self._lineage.revision(revision)
        if document is None or revision not in self._shown:
            return None
        line_map = self._lineage.to_newest(revision)
        return ShownRevision(document, self._shown[revision], line_map, self.document, self._tagger)

    def _revision_for(self, request: EditRequest) -> tuple[list[Problem], ShownRevision | None]:
        """Return the revision that the request refers to, or why it can't be determined."""
        if request.revision is not None:
            shown = self._shown_revision(request.revision)
            if shown is not None:
                return [], shown
            detail = f"no line of a revision r{request.revision} was ever shown to you"
            return [Problem("unknown revision", "rev", detail)], None
        revisions = [
            r for each in sorted(self._shown, reverse=True) if (r := self._shown_revision(each))
        ]
        if not revisions:
            detail = "no line of the file was ever shown to you; read it first"
            return [Problem("never shown", "ops", detail)], None
        if all(isinstance(op, InsertAtEdge) for op in request.ops):
            return [], revisions[0]
        fitting = [r for r in revisions if all(map(r.has_anchors, request.ops))]
        placements = [_place_all(request.ops, shown) for shown in fitting]
        accepted = [spans for spans, problems in placements if not problems]
        if accepted and any(placed != (accepted[0], []) for placed in placements):
            names = ", ".join(f"r{r.document.revision}" for r in fitting)
            detail = f"these anchors fit {names} and mean different lines; name the revision"
            return [Problem("ambiguous", "rev", detail)], None
        return [], (fitting or revisions)[0]

    def _rejected(self, problems: Sequence[Problem]) -> EditRejected:
        near = sorted({number for problem in problems for number in problem.near})
        shown = around(self.document, near)
        if shown:
            self._record_shown(shown)
        return EditRejected(self.document, self._tagger, problems)


def apply(
    document: Document,
    tagger: Tagger,
    ops: Sequence[Op],
    *,
    allow_dup: bool = False,
    allow_broken: bool = False,
) -> EditResult:
    """Apply `ops` to a document whose writer has been shown all its lines.

    Raises `EditRejected` with every problem found.

    The operations all refer to the file before the edit, so disjoint operations may come in any
    order. Inserts at one place keep their order. New lines are inserted unchanged, with the
    file's usual line ending; a missing final newline stays missing.
    """
    session = EditSession(document, tagger)
    session.assume_shown()
    request = EditRequest(tuple(ops), document.revision, allow_dup, allow_broken)
    return session.check(request).result


def _place_all(ops: Sequence[Op], shown: ShownRevision) -> tuple[list[Span], list[Problem]]:
    placed = [shown.place(index, op) for index, op in enumerate(ops)]
    return [s for spans, _ in placed for s in spans], [p for _, wrong in placed for p in wrong]


def _without_copied_tags(
    request: EditRequest, shown: ShownRevision
) -> tuple[EditRequest, tuple[str, ...]]:
    """Return the request without tags copied into its text, and a note for each such operation."""
    bare = tuple(without_prefixes(op, shown.is_shown) for op in request.ops)
    notes = [
        f"ops[{index}].lines carried the tags of the view; they were taken off. Send the bare text."
        for index, (op, now) in enumerate(zip(request.ops, bare, strict=True))
        if now is not op
    ]
    return replace(request, ops=bare), tuple(notes)


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

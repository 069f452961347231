"""Costs of the formats: tokens of an edit and of a view, undetected slips, time.

A tokenizer of `tokens` counts; the clock is the caller's.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from akg_tui.hashline.document import Document
from akg_tui.hashline.ops import parse_ops
from akg_tui.hashline.rejection import EditRejected
from akg_tui.hashline.session import EditRequest, EditSession
from akg_tui.hashline.tagged_view import render
from akg_tui.hashline.tags import Tagger
from benchmarks.edit_formats.corpus import generated
from benchmarks.edit_formats.staleness import Tasks
from benchmarks.edit_formats.tokens import Tokenizer
from benchmarks.edit_formats.whole_file import BY_LINES
from benchmarks.edit_formats.writers import CALLS

_REPAIRS: Final = 400
_BLOCKS: Final = (10, 40)
_BIG_FILE: Final = 10_000
_TIMED: Final = 20


@dataclass(frozen=True, slots=True)
class EditCost:
    """Tokens of the calls that repair a fault, and of those that replace whole blocks.

    `blocks` has for 10 and 40 lines the mean tokens, new text included.
    """

    mean: float
    median: float
    blocks: dict[int, float]


@dataclass(frozen=True, slots=True)
class Slips:
    """Right tags with the number off by one or two, and how many of them were accepted."""

    tried: int
    missed: int


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds for a Python file of 10,000 lines: 95th percentiles."""

    view: float
    apply: float
    apply_with_gate: float


def edit_costs(tasks: Tasks, rng: Random, tokenizer: Tokenizer) -> dict[str, EditCost]:
    """By format; the same edits for all."""
    tagger = Tagger(b"benchmark")
    repairs = [tasks.draw() for _ in range(_REPAIRS)]
    long_files = [d for d in generated(rng, 120) if len(d.lines) > 3 * max(_BLOCKS)]
    costs: dict[str, EditCost] = {}
    for form in BY_LINES:
        call = CALLS[form]
        single = [
            tokenizer.count(json.dumps(call(t.document, t.start, t.stop, t.new, tagger)))
            for t in repairs
        ]
        blocks: dict[int, float] = {}
        for size in _BLOCKS:
            whole = [
                tokenizer.count(json.dumps(call(d, size, 2 * size, _rewritten(d, size), tagger)))
                for d in long_files
            ]
            blocks[size] = statistics.fmean(whole)
        costs[form] = EditCost(statistics.fmean(single), statistics.median(single), blocks)
    return costs


def _rewritten(document: Document, size: int) -> tuple[str, ...]:
    """The second `size` lines of a file, each a little different."""
    return tuple(f"{line} + 1" for line in document.lines[size : 2 * size])


def view_overhead(rng: Random, tokenizer: Tokenizer) -> float:
    """Extra tokens a line over ``12|text``."""
    tagger = Tagger(b"benchmark")
    extra = lines = 0
    for document in generated(rng, 30):
        shown = render(document, tagger).partition("\n")[2]
        bare = "\n".join(f"{number}|{text}" for number, text in enumerate(document.lines, 1))
        extra += tokenizer.count(shown) - tokenizer.count(bare)
        lines += len(document.lines)
    return extra / lines


def slips(rng: Random, tries: int) -> Slips:
    """Addresses off by one or two lines, sent as edits of whole single lines."""
    missed = tried = 0
    files = [d for d in generated(rng, 60) if len(d.lines) > 10]
    while tried < tries:
        document = rng.choice(files)
        tagger = Tagger(rng.randbytes(8))
        session = EditSession(document, tagger)
        session.assume_shown()
        # Few under one key: the same slip made twice in a short file is no second trial.
        for _ in range(min(10, tries - tried)):
            number = rng.randint(3, len(document.lines) - 2)
            tag = tagger.tag(number, document.lines[number - 1])
            wrong = number + rng.choice((-2, -1, 1, 2))
            ops = parse_ops([{"op": "replace", "from": f"{wrong}{tag}", "lines": ["the new line"]}])
            tried += 1
            try:
                session.check(EditRequest(ops, 0, allow_broken=True))
                missed += 1
            except EditRejected:
                continue
    return Slips(tried, missed)


def times(rng: Random, clock: Callable[[], float]) -> Times:
    """`clock` counts seconds."""
    lines = [line for d in generated(rng, 600) if d.path.endswith(".py") for line in d.lines]
    filler = ["", *(f"LIMIT_{n} = {n}" for n in range(_BIG_FILE))]
    whole = "\n".join(lines[:_BIG_FILE])
    whole = whole[: whole.rindex("@triton.jit")]
    missing = _BIG_FILE - whole.count("\n")
    big = Document.from_text(whole + "".join(f"{f}\n" for f in filler[:missing]), path="kernel.py")
    tagger = Tagger(b"benchmark")
    views, plain, gated = list[float](), list[float](), list[float]()
    for turn in range(_TIMED):
        session = EditSession(big, tagger)
        start = clock()
        session.view()
        views.append(clock() - start)
        at = next(
            i for i in range(100 * turn + 50, len(big.lines)) if big.lines[i].startswith("    n = ")
        )
        anchor = f"{at + 1}{tagger.tag(at + 1, big.lines[at])}"
        ops = parse_ops([{"op": "replace", "from": anchor, "lines": ["    n = 1"]}])
        for spent, broken in ((plain, True), (gated, False)):
            start = clock()
            session.check(EditRequest(ops, 0, allow_broken=broken), current=big)
            spent.append(clock() - start)
    return Times(*(1000 * _p95(each) for each in (views, plain, gated)))


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1]

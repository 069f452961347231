"""`akg-tui bench edits`: its options, and what it prints.

With `--model` models edit, with `--corpus` the tasks of a code base are checked
(`benchmarks.edit_models`); otherwise a perfect writer edits kernels that change meanwhile.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from akg_tui.cli.run_options import positive
from akg_tui.cli.usage_error import EXIT_NOT_CORRECT, EXIT_OK, fail
from benchmarks.edit_models.command import (
    add_model_options,
    bench_with_model,
    check_corpus,
    sample_documents,
)


def add_commands(add: Callable[..., Any]) -> None:
    """Declare `bench edits`."""
    bench = add(
        "edits", _bench, "compare edit formats with generated edits, or with a model (--model)"
    )
    bench.add_argument("--trials", type=positive, default=200, metavar="N", help="a cell")
    bench.add_argument(
        "--stale", type=positive, default=20_000, metavar="N", help="number of fuzzed stale edits"
    )
    bench.add_argument(
        "--tokenizer",
        type=Path,
        metavar="FILE",
        help="count tokens by a .tiktoken vocabulary (default: an estimate)",
    )
    bench.add_argument("--seed", type=int, default=1, metavar="S")
    bench.add_argument("--json", action="store_true", help="print one JSON object")
    add_model_options(bench)


def _bench(arguments: argparse.Namespace) -> int:
    if arguments.model:
        return bench_with_model(arguments)
    if arguments.corpus:
        return check_corpus(arguments)
    import json
    import time

    from benchmarks.edit_formats.report import run, tables
    from benchmarks.edit_formats.tokens import ESTIMATE, BadVocabulary, tokenizer_from

    try:
        tokenizer = tokenizer_from(arguments.tokenizer) if arguments.tokenizer else ESTIMATE
    except BadVocabulary as error:
        fail(error)
    report = run(
        seed=arguments.seed,
        trials=arguments.trials,
        stale=arguments.stale,
        clock=time.perf_counter,
        samples=sample_documents(),
        tokenizer=tokenizer,
    )
    print(json.dumps(report.as_json()) if arguments.json else tables(report))
    return EXIT_NOT_CORRECT if report.silent_wrong else EXIT_OK

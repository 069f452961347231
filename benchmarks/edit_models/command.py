"""`akg-tui bench edits --model` and `--corpus`: their options, and what they print."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.cli.run_options import add_api, positive, served_agent
from akg_tui.cli.usage_error import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NOT_CORRECT,
    EXIT_OK,
    UsageError,
    fail,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from akg_tui.agent.chat import ChatModel
    from akg_tui.hashline import Document
    from benchmarks.edit_models.code_base import Drawn
    from benchmarks.edit_models.results import Results
    from benchmarks.edit_models.tasks import EditTask

SCRIPTED = "scripted"


def add_model_options(bench: argparse.ArgumentParser) -> None:
    """Declare the options of the benchmark with a model."""
    bench.add_argument(
        "--model",
        metavar="A,B,…",
        help=f"let models repair files in each format; {SCRIPTED!r} tests the benchmark itself",
    )
    bench.add_argument(
        "--corpus",
        type=Path,
        metavar="DIR",
        help="plant the faults in the files of a code base (Python, C++, CUDA, JavaScript, "
        "TypeScript); without --model, check that each can be repaired in each format",
    )
    bench.add_argument("--base-url", default="", metavar="U", help="where the models are served")
    add_api(bench)
    bench.add_argument("--api-key-file", default="", metavar="F", help="a file with its key")
    bench.add_argument("--tasks", type=positive, default=60, metavar="N", help="default: 60")
    bench.add_argument("--repeats", type=positive, default=3, metavar="N", help="default: 3")
    bench.add_argument(
        "--formats",
        default="hashline,str_replace,apply_patch,unified diff",
        metavar="A,B,…",
        help="default: hashline,str_replace,apply_patch,unified diff; there is also write, "
        "the whole file",
    )
    bench.add_argument(
        "--write-tool", action="store_true", help="offer to write the whole file in each format"
    )
    bench.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        help="store each session in FILE and continue from it",
    )
    bench.add_argument(
        "--slip",
        type=_share,
        default=0.2,
        metavar="P",
        help="share of slips of the scripted writer, 0 to 1 (default: 0.2)",
    )


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"a number from 0 to 1 is needed, not {text!r}")
    return value


def sample_documents() -> list[Document]:
    """The bundled kernels."""
    from akg_tui.hashline import Document
    from akg_tui.resources import sample_kernels, sample_names

    paths = [sample_kernels() / name / "kernel.py" for name in sample_names()]
    return [Document.from_bytes(path.read_bytes(), path="kernel.py") for path in paths]


def check_corpus(arguments: argparse.Namespace) -> int:
    """Draw tasks from a code base, and repair each as a perfect writer does in each format."""
    import json

    from benchmarks.edit_models.checks import check_task
    from benchmarks.edit_models.corpus_report import CorpusReport

    drawn = _drawn(arguments)
    report = CorpusReport(arguments.corpus.resolve().name, arguments.seed, drawn)
    for task in drawn.tasks:
        report.add(task, check_task(task))
    print(json.dumps(report.as_json()) if arguments.json else report.table())
    return EXIT_OK if report.sound else EXIT_NOT_CORRECT


def _drawn(arguments: argparse.Namespace) -> Drawn:
    from benchmarks.edit_models.code_base import BadCorpus, draw_from

    try:
        drawn = draw_from(arguments.corpus, arguments.tasks, arguments.seed)
    except BadCorpus as error:
        fail(error)
    for package in drawn.missing:
        print(f"akg-tui: {package}", file=sys.stderr)
    if len(drawn.tasks) < arguments.tasks:
        given = f"{len(drawn.tasks)} of the {arguments.tasks} tasks"
        print(f"akg-tui: {arguments.corpus} gives only {given}", file=sys.stderr)
    return drawn


def bench_with_model(arguments: argparse.Namespace) -> int:
    """Play the sessions that are missing; print a table or one JSON object."""
    import asyncio
    import json

    from akg_tui.agent.chat import ModelFailed
    from akg_tui.core.sanitize import one_line
    from benchmarks.edit_models.checks import unsound
    from benchmarks.edit_models.results import BadResults, Results, Setting
    from benchmarks.edit_models.runner import as_json, play, prompt_digest, table
    from benchmarks.edit_models.served import Served
    from benchmarks.edit_models.tasks import draw_tasks

    formats = _formats(arguments.formats)
    if arguments.corpus:
        tasks = _drawn(arguments).tasks
        corpus = arguments.corpus.resolve().name
    else:
        tasks = draw_tasks(arguments.tasks, arguments.seed, sample_documents())
        corpus = "kernels"
    models = _models(arguments, tasks)
    if wrong := unsound(tasks):
        told = f"{len(wrong)} tasks can't be repaired in every format, first {wrong[0]}"
        print(f"akg-tui: {told}", file=sys.stderr)
        return EXIT_NOT_CORRECT
    digest = prompt_digest(tasks)
    setting = Setting(corpus, arguments.seed, len(tasks), digest, arguments.write_tool)

    async def run(results: Results) -> None:
        def tell(done: int, total: int) -> None:
            if sys.stderr.isatty():
                print(f"\r{done} of {total} sessions", end="", file=sys.stderr, flush=True)

        try:
            await play(tasks, formats, arguments.repeats, models, results, on_session=tell)
        finally:
            for model in models:
                if isinstance(model, Served):
                    await model.close()

    try:
        results = Results(setting, arguments.results)
        asyncio.run(run(results))
    except BadResults as error:
        fail(error)
    except ModelFailed as error:
        told = f"{', '.join(error.__notes__)}: {error}"
        print(f"akg-tui: {one_line(told, 300)}{_how_to_resume(arguments)}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print(f"akg-tui: interrupted{_how_to_resume(arguments)}", file=sys.stderr)
        return EXIT_INTERRUPTED
    print(json.dumps(as_json(results)) if arguments.json else table(results))
    return EXIT_OK


def _how_to_resume(arguments: argparse.Namespace) -> str:
    if arguments.results is None:
        return "; with --results FILE a benchmark can be resumed"
    return f"; the same command goes on from {arguments.results}"


def _formats(text: str) -> list[str]:
    from benchmarks.edit_formats.whole_file import ALL_FORMATS

    chosen = _names(text)
    for name in chosen:
        if name not in ALL_FORMATS:
            raise UsageError(f"no edit format {name!r}; there are: {', '.join(ALL_FORMATS)}")
    if not chosen:
        raise UsageError("--formats: at least one edit format is needed")
    return chosen


def _names(text: str) -> list[str]:
    """The different words of a list with commas, in their order."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _models(arguments: argparse.Namespace, tasks: Sequence[EditTask]) -> list[ChatModel]:
    names = _names(arguments.model)
    if not names:
        raise UsageError("--model: at least one model is needed")
    return [_model(name, arguments, tasks) for name in names]


def _model(name: str, arguments: argparse.Namespace, tasks: Sequence[EditTask]) -> ChatModel:
    from benchmarks.edit_models.scripted import Scripted

    if name == SCRIPTED:
        return Scripted(tasks, slip=arguments.slip, seed=arguments.seed)
    import os

    from akg_tui.agent.models.endpoint import KeyMissing, endpoint_of
    from akg_tui.agent.models.served import Served as ServedModel
    from benchmarks.edit_models.served import Served

    agent = served_agent(name, arguments.base_url, arguments.api_key_file, arguments.api)
    try:
        endpoint = endpoint_of(agent, os.environ)
    except KeyMissing as error:
        fail(error)
    return Served(ServedModel(agent, endpoint))

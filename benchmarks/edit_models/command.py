"""`akg-tui bench edits --model`: its options, and what it prints."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.cli.run_options import add_api, positive, served_agent
from akg_tui.cli.usage_error import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK, UsageError, fail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from akg_tui.agent.chat import ChatModel
    from akg_tui.hashline import Document
    from benchmarks.edit_models.results import Results
    from benchmarks.edit_models.tasks import EditTask

SCRIPTED = "scripted"


def add_model_options(bench: argparse.ArgumentParser) -> None:
    """Declare the options of the benchmark with a model."""
    bench.add_argument(
        "--model",
        metavar="MODEL",
        help=f"let a model repair kernels in each format; {SCRIPTED!r} tests the benchmark itself",
    )
    bench.add_argument("--base-url", default="", metavar="U", help="where the model is served")
    add_api(bench)
    bench.add_argument("--api-key-file", default="", metavar="F", help="a file with its key")
    bench.add_argument("--tasks", type=positive, default=60, metavar="N", help="default: 60")
    bench.add_argument("--repeats", type=positive, default=3, metavar="N", help="default: 3")
    bench.add_argument(
        "--formats",
        default="hashline,str_replace,apply_patch,unified diff",
        metavar="A,B,…",
        help="default: hashline,str_replace,apply_patch,unified diff",
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


def bench_with_model(arguments: argparse.Namespace) -> int:
    """Play the sessions that are missing; print a table or one JSON object."""
    import asyncio
    import json

    from akg_tui.agent.chat import ModelFailed
    from akg_tui.core.sanitize import one_line
    from benchmarks.edit_models.results import BadResults, Results, Setting
    from benchmarks.edit_models.runner import as_json, play, prompt_digest, table
    from benchmarks.edit_models.served import Served
    from benchmarks.edit_models.tasks import draw_tasks

    formats = _formats(arguments.formats)
    tasks = draw_tasks(arguments.tasks, arguments.seed, sample_documents())
    model = _model(arguments, tasks)
    setting = Setting(model.name, arguments.seed, len(tasks), prompt_digest(tasks))

    async def run(results: Results) -> None:
        def tell(done: int, total: int) -> None:
            if sys.stderr.isatty():
                print(f"\r{done} of {total} sessions", end="", file=sys.stderr, flush=True)

        try:
            await play(tasks, formats, arguments.repeats, model, results, on_session=tell)
        finally:
            if isinstance(model, Served):
                await model.close()

    try:
        results = Results(setting, arguments.results)
        asyncio.run(run(results))
    except BadResults as error:
        fail(error)
    except ModelFailed as error:
        print(f"akg-tui: {one_line(str(error), 300)}{_how_to_resume(arguments)}", file=sys.stderr)
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
    from akg_tui.hashline.formats import FORMATS

    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in FORMATS:
            raise UsageError(f"no edit format {name!r}; there are: {', '.join(FORMATS)}")
    if not chosen:
        raise UsageError("--formats: at least one edit format is needed")
    return list(dict.fromkeys(chosen))


def _model(arguments: argparse.Namespace, tasks: Sequence[EditTask]) -> ChatModel:
    from benchmarks.edit_models.scripted import Scripted

    if arguments.model == SCRIPTED:
        return Scripted(tasks, slip=arguments.slip, seed=arguments.seed)
    import os

    from akg_tui.agent.models.endpoint import KeyMissing, endpoint_of
    from akg_tui.agent.models.served import Served as ServedModel
    from benchmarks.edit_models.served import Served

    agent = served_agent(arguments.model, arguments.base_url, arguments.api_key_file, arguments.api)
    try:
        endpoint = endpoint_of(agent, os.environ)
    except KeyMissing as error:
        fail(error)
    return Served(ServedModel(agent, endpoint))

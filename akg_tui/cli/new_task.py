"""The command `new`: a task folder from a problem of a public task set, or from one's own files."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from akg_tui.cli.usage_error import EXIT_OK, UsageError, word_of

REFERENCE_SEED = "reference"
WRITE_SEED = "write"
INDUCTOR_SEED = "inductor"
NAMED_SEEDS = (REFERENCE_SEED, WRITE_SEED, INDUCTOR_SEED)


def add_new(add: Callable[..., Any]) -> None:
    """Declare `new`; `add` creates a command."""
    about = "make a task folder of a problem file, or of a reference and a kernel"
    new = add("new", _new, about)
    new.add_argument("folder", type=Path, metavar="DIR", help="the task folder to make")
    new.add_argument(
        "--from",
        type=Path,
        dest="origin",
        metavar="PATH",
        help="a problem: a KernelBench file, or a file or folder of another public set",
    )
    new.add_argument(
        "--format",
        type=word_of("READERS", "akg_tui.problems.formats"),
        metavar="F",
        help="the problem's format; default: found by its content (docs/problems.md)",
    )
    new.add_argument(
        "--fit",
        action="store_true",
        help="halve sizes, batch and rows first, until the tensors take 128 MiB, or four times the "
        "last cache, and a call of the reference 50 ms",
    )
    new.add_argument(
        "--sizes",
        type=_sizes,
        default={},
        metavar="NAME=N,…",
        help="other values for numbers at the top level of the reference",
    )
    new.add_argument(
        "--free-inputs",
        type=_inputs,
        default=(),
        metavar="NAME,…",
        help="inputs that a kernel may ignore, by name in forward or by position from 0",
    )
    new.add_argument(
        "--gradients",
        type=_names,
        default=(),
        metavar="NAME,…",
        help="forward gives a loss: the kernel computes its gradients for these parameters of "
        "forward and weights",
    )
    new.add_argument(
        "--seed",
        metavar="FILE|reference|inductor|write",
        help="the first kernel: a file, what the reference does, as ModelNew (the default with "
        "--from), what torch.compile generates for it, in C++ or Triton (the default with "
        "--reference, where it can), or none: a model writes it",
    )
    new.add_argument("--reference", type=Path, help="instead of --from: PyTorch `Model` to match")
    new.add_argument(
        "--kernel",
        type=Path,
        help="with --reference: `ModelNew` to begin with; both files are only copied",
    )
    new.add_argument("--backend", type=word_of("Backend"), default="cpu", help="default: cpu")
    new.add_argument(
        "--dsl",
        type=word_of("Dsl"),
        help="default: cpp; torch with --from, or where nothing is generated",
    )
    new.add_argument("--arch", default="", help="the GPU, such as sm_90; or free text")


def _sizes(text: str) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    for part in text.split(","):
        name, equals, value = (each.strip() for each in part.partition("="))
        try:
            number = int(value) if value.lstrip("+-").replace("_", "").isdigit() else float(value)
        except ValueError:
            number = float("inf")
        named = re.sub(r"\[\d+\]$", "", name).isidentifier()
        if not named or not equals or not abs(number) < 2**63:  # also no NaN
            raise argparse.ArgumentTypeError(f"{part!r} is no size, expected NAME=NUMBER")
        found[name] = number
    return found


def _inputs(text: str) -> tuple[int | str, ...]:
    from akg_tui.core.task import INPUT_NAME

    names = tuple(each.strip() for each in text.split(","))
    for name in names:
        if not name.isdigit() and not re.fullmatch(INPUT_NAME, name):
            raise argparse.ArgumentTypeError(f"{name!r} is no input, expected NAME or a position")
    return tuple(int(name) if name.isdigit() else name for name in names)


def _names(text: str) -> tuple[str, ...]:
    found = _inputs(text)
    if numbers := [each for each in found if isinstance(each, int)]:
        raise argparse.ArgumentTypeError(f"{numbers[0]} is no name")
    return tuple(map(str, found))


def _new(arguments: argparse.Namespace) -> int:
    from akg_tui.core.kernel.knobs import knobs_in
    from akg_tui.engine.trust import note_made
    from akg_tui.evaluate.targets.adapters import adapters, lacking
    from akg_tui.store.errors import StoreError

    made = _from_problem(arguments) if arguments.kernel is None else _from_files(arguments)
    try:
        note_made(made.path)
    except StoreError as error:
        print(f"akg-tui: note: its settings will need --trust: {error}", file=sys.stderr)
    if why := lacking(made.task):
        print(f"akg-tui: note: not here: {why}", file=sys.stderr)
    folder = shlex.quote(str(arguments.folder))
    if arguments.seed == WRITE_SEED:
        how = f"akg-tui tune {folder} --agent claude (docs/models.md)"
        print(f"made {folder}, without a kernel; let a model write and tune it: {how}")
        return EXIT_OK
    knobs = len(knobs_in(made.kernel))
    counted = f"{knobs} knob{'s' if knobs != 1 else ''}" if knobs else "no knobs"
    told = f"made {folder}: a kernel in {made.task.target.dsl} with {counted}"
    print(f"{told}; check it with: akg-tui eval {folder}")
    what, command = "tune it with", f"akg-tui tune {folder}"
    if adapters(made.task)[1].untimed(made.task.target.backend):
        what = "with a GPU, and target cuda, tune it with"
    if not knobs:
        what, command = f"{what} a model", f"{command} --agent claude (docs/models.md)"
    print(f"{what}: {command}")
    return EXIT_OK


def _from_files(arguments: argparse.Namespace) -> Any:
    from akg_tui.store.task_folder import write_task

    if arguments.origin is not None:
        raise UsageError("--from needs no --kernel; a kernel goes to --seed")
    if arguments.reference is None:
        raise UsageError("--kernel needs --reference FILE")
    for option in ("format", "fit", "sizes", "free_inputs", "gradients", "seed"):
        if getattr(arguments, option):
            raise UsageError(
                f"--{option.replace('_', '-')} goes without --kernel, which only copies two files"
            )
    return write_task(
        arguments.folder,
        reference=arguments.reference,
        kernel=arguments.kernel,
        backend=arguments.backend,
        dsl=arguments.dsl or "cpp",
        arch=arguments.arch,
    )


def _from_problem(arguments: argparse.Namespace) -> Any:
    from akg_tui.core.sanitize import one_line
    from akg_tui.engine.task_draft import NewTask
    from akg_tui.engine.task_making import make_task, own_task

    own, seed = arguments.reference, arguments.seed
    if (arguments.origin is None) == (own is None):
        if own is None and arguments.folder.is_file():
            file = one_line(str(arguments.folder))
            raise UsageError(f"{file} is a file, DIR is the folder to make: new --from {file} DIR")
        raise UsageError("new needs --from PROBLEM or --reference FILE, one of them")
    wanted = NewTask(
        folder=arguments.folder,
        origin=arguments.origin or own,
        format=arguments.format or "",
        fit=arguments.fit,
        sizes=arguments.sizes,
        free_inputs=arguments.free_inputs,
        gradients=arguments.gradients,
        seed=Path(seed) if seed is not None and seed not in NAMED_SEEDS else None,
        own_seed=seed is None,
        unwritten=seed == WRITE_SEED,
        inductor=seed == INDUCTOR_SEED,
        verify=True,
        backend=arguments.backend,
        dsl=arguments.dsl or "",
        arch=arguments.arch,
    )
    if own is not None:
        wanted = own_task(wanted)
    return make_task(wanted, lambda line: print(one_line(line), flush=True))

"""`akg-tui bench hardware`: its options, and the files that it writes.

Exits with 1 where a verdict is wrong or a rate is out of its bounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from akg_tui.cli.run_options import positive
from akg_tui.cli.usage_error import EXIT_NOT_CORRECT, EXIT_OK, UsageError
from akg_tui.core.task import Backend

if TYPE_CHECKING:
    from akg_tui.store.task_folder import TaskFolder

TRIALS = 200
MODULES: tuple[str, ...] = ()
"""Modules that the judge imports first; those of a test."""


_MATRIX = {"ROWS": 4096, "COLUMNS": 4096}
_HEADS = {"HEADS": 16, "LENGTH": 2048, "WIDTH": 64}
SIZES = {
    "softmax_triton": _MATRIX,
    "rms_norm_triton": _MATRIX,
    "layer_norm_triton": _MATRIX,
    "matmul_triton": {"M": 2048, "N": 2048, "K": 2048},
    "flash_attention_triton": _HEADS,
    "hybrid_attention_mask_triton": _HEADS | {"WINDOW": 512, "PREFIX": 64},
}
"""Sizes that keep a device at work, for the constants of the samples in Triton: their own suit the
interpreter."""


def add_commands(add: Callable[..., Any]) -> None:
    """Declare `bench hardware`."""
    command = add("hardware", _hardware, "prove a machine with an accelerator")
    devices = [name for name in get_args(Backend) if name != "cpu"]
    command.add_argument("--target", choices=devices, required=True)
    command.add_argument(
        "--trials",
        type=positive,
        default=TRIALS,
        metavar="N",
        help="comparisons of equal kernels, and half as many with a gain of 10 %% (default: 200)",
    )
    command.add_argument(
        "--samples",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also time the Triton samples against their references (default: yes)",
    )
    command.add_argument(
        "--out",
        type=Path,
        default=Path("hardware"),
        metavar="FOLDER",
        help="where hardware.json and hardware.md are written (default: ./hardware)",
    )


def _hardware(arguments: argparse.Namespace) -> int:
    import asyncio

    import msgspec

    from akg_tui.evaluate.targets import TARGETS
    from benchmarks.hardware.page import page
    from benchmarks.hardware.prove import Prover, proof_of, prove

    target = TARGETS[arguments.target]
    if why := target.lacking():
        raise UsageError(f"{why}; `python -m benchmarks.lab.device.hardware` runs on a test device")
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {arguments.out}: {error}") from error
    proof = proof_of(target.name, target.device)
    samples = _samples(target.name) if arguments.samples else []
    with tempfile.TemporaryDirectory(prefix="akg-hardware-") as scratch:
        prover = Prover(proof, modules=MODULES, scratch=Path(scratch), tell=print)
        try:
            asyncio.run(prove(prover, trials=arguments.trials, samples=samples))
        except (Exception, KeyboardInterrupt) as error:
            # What was found so far is kept, and the page says where it ended.
            proof.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            (arguments.out / "hardware.json").write_bytes(
                msgspec.json.format(msgspec.json.encode(proof)) + b"\n"
            )
            (arguments.out / "hardware.md").write_text(page(proof), "utf-8")
    print(f"{'held' if proof.held else 'NOT held'}: {arguments.out}/hardware.md, hardware.json")
    return EXIT_OK if proof.held else EXIT_NOT_CORRECT


def _samples(target: str) -> list[TaskFolder]:
    """Return the samples in Triton, which compiles them for any device, in sizes for a device."""
    from msgspec.structs import replace

    from akg_tui.dsl.adapters import DSLS
    from akg_tui.resources import sample_kernels, sample_names
    from akg_tui.store.task_folder import load_task

    if DSLS["triton"].lacking(target):
        return []
    found = []
    for made in (load_task(sample_kernels() / name) for name in sample_names()):
        if made.task.target.dsl == "triton":
            sized = replace(made.task.reference, constants=SIZES[made.path.name])
            task = replace(made.task, reference=sized, cases=())
            found.append(dataclasses.replace(made, task=task))
    return found

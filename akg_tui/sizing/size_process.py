"""The trusted process that sizes references: it has the zygote, whose children run them.

Started by `size_probe`. Like the judge it never runs a reference itself; unlike the judge it keeps
no secret, and answers one question after another over an inherited socket.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import shutil
import socket
import sys
import traceback
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import FailureKind
from akg_tui.core.sanitize import strip_to_line
from akg_tui.evaluate.child import child_main
from akg_tui.evaluate.child.zygote import fork_zygote
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.draws import secret_bits
from akg_tui.evaluate.processes.worker import EvaluationFailure, Interrupts, Zygote
from akg_tui.evaluate.protocol.child_protocol import Plan
from akg_tui.evaluate.reference import Reference
from akg_tui.evaluate.reference_fault import Fault
from akg_tui.evaluate.sandbox import confinement, process_watch, protections
from akg_tui.evaluate.sandbox.protections import Protection
from akg_tui.problems.inductor.generated import Generated
from akg_tui.sizing.code_generator import GENERATE, CodeGenerator, preload_compiler
from akg_tui.sizing.needs import Answer, Ask
from akg_tui.sizing.size_server import FAKE, REAL, SHAPES, SizeServer, preload
from akg_tui.store.reference_constants import as_judged

CHILDREN = Path("children")
"""The folder of the children's files, in the process's current folder."""

EXAMINED_CPU_S = 5.0
"""More CPU time than the judge has to find inputs that decide nothing, so that what passes here is
not refused by it."""


def main(arguments: list[str]) -> None:
    """Answer the questions on the inherited socket, whose descriptor is the first argument.

    The others are the target, the DSL, the process id of the asker, with which this one ends, and,
    if code is to be generated, the arch of the GPU, which may be "".
    """
    # Only here: the judge's zygote need not import what fake tensors need.
    child_main.SERVERS.update(dict.fromkeys((SHAPES, FAKE, REAL), SizeServer))
    child_main.SERVERS[GENERATE] = CodeGenerator
    preload()
    connection = socket.socket(fileno=int(arguments[0]))
    target, dsl, parent, *generates = arguments[1:]
    if generates:
        preload_compiler()
        if dsl == "triton":
            _generate_triton(generates[0])
    process, control = fork_zygote(target, dsl, CHILDREN.absolute(), unneeded=connection)
    confinement.adopt_orphans()
    if not confinement.die_with_parent(int(parent)):
        return
    offered = protections.offered()
    zygote = Zygote(process, control, Interrupts(connection.fileno(), _asker_gone))
    try:
        with connection.makefile("rb") as questions:
            _serve(connection, questions, zygote, offered)
    finally:
        zygote.close()
        process_watch.end_orphans()
        shutil.rmtree(CHILDREN, ignore_errors=True)


def _generate_triton(arch: str) -> None:
    from akg_tui.sizing import triton_generator

    triton_generator.preload()
    triton_generator.TritonGenerator.arch = triton_generator.arch_of(arch)
    child_main.SERVERS[GENERATE] = triton_generator.TritonGenerator


def _asker_gone() -> None:
    """End the process: the asker sends nothing while it waits, so its end was closed."""
    raise SystemExit(0)


def _serve(
    connection: socket.socket,
    questions: BinaryIO,
    zygote: Zygote,
    offered: tuple[Protection, ...],
) -> None:
    for number in itertools.count():
        line = questions.readline()
        if not line:
            return
        ask = msgspec.json.decode(line, type=Ask)
        scratch = Path(str(number)).absolute()
        pool = ChildPool(ask.task, scratch, zygote, offered)
        try:
            answer = _answer(pool, ask)
        except EvaluationFailure as failure:
            # A failure of the judge's own process is no fault of the reference.
            own = failure.kind is FailureKind.JUDGE
            fault = Fault(reason=failure.message) if own else failure.fault
            if fault.file == ask.filename:
                fault = replace(fault, file="")
            answer = Answer(refused=fault)
        finally:
            pool.clear()
            shutil.rmtree(scratch, ignore_errors=True)
        # A refused reference is in a cycle with its own error, which holds its inputs and results.
        gc.collect()
        connection.sendall(msgspec.json.encode(answer) + b"\n")


def _answer(pool: ChildPool, ask: Ask) -> Answer:
    if ask.question == "examine":
        reference = Reference(pool, ask.source, ask.filename, ask.task.constants())
        with contextlib.closing(reference):
            reference.examine(EXAMINED_CPU_S)
            held = reference.sample_held
        return Answer(
            structures=reference.named_structures,
            contract=reference.contract,
            size=max((each.size for each in held), default=0.0),
            bound=max((each.tolerance for each in held), default=0.0),
        )
    kinds = {"shapes": SHAPES, "estimate": FAKE, "measure": REAL, "generate": GENERATE}
    plan = Plan(
        kind=kinds[ask.question],
        files=KernelFiles({ask.filename: as_judged(ask.source, ask.task)}),
        seed=secret_bits(63),
    )
    with pool.reporting(plan, builds=True) as reporter:
        text = reporter.text(reporter.size)
    try:
        if ask.question == "generate":
            return Answer(generated=msgspec.json.decode(text, type=Generated))
        told = msgspec.json.decode(text, type=Answer)
    except msgspec.MsgspecError as error:
        return Answer(refused=Fault(reason=f"it was told of wrongly: {error}"))
    if told.needs is None:
        return Answer(refused=_cleaned(told.refused))
    return Answer(replace(told.needs, failed=_cleaned(told.needs.failed)))


def _cleaned(fault: Fault | None) -> Fault | None:
    """Return what a child may tell of a fault, as text that can be shown."""
    if fault is None:
        return None
    return Fault(reason=strip_to_line(fault.reason), kind=fault.kind, line=fault.line)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Exception:  # noqa: BLE001 (nothing above this frame would report it)
        traceback.print_exc()
        # The error is the last line of the log: libraries say more at an ordinary exit.
        os._exit(1)

"""What was found about one kernel: plain data between the confined process and those who show it.

All texts come from untrusted code and its compiler; whoever shows one sanitizes it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from akg_tui.core.kernel.kernel_files import KernelFiles

MOST_ROWS = 4_000
"""The most instructions of a kernel that are told."""

Place = Annotated[int, Meta(ge=0, le=1 << 24)]
Text = Annotated[str, Meta(max_length=600)]


class Instruction(Struct, frozen=True, gc=False):
    """One instruction. `line` is its line of the kernel's file, 0 where that is unknown.

    `text` has labels (`.1`) instead of addresses, so that equal code has equal text; `label` is
    the instruction's own label, "" if nothing jumps to it.
    """

    text: Text
    line: Place = 0
    label: Annotated[str, Meta(max_length=16)] = ""


class Loop(Struct, frozen=True):
    """An innermost loop: rows `first` to `last` of function `function`.

    `vector` counts its instructions on vector registers, `packed` those of them that compute
    several elements at once.
    """

    function: Place
    first: Place
    last: Place
    vector: Place
    packed: Place
    lines: Annotated[tuple[Place, ...], Meta(max_length=MOST_ROWS)] = ()

    @property
    def instructions(self) -> int:
        return self.last - self.first + 1


class CodeFunction(Struct, frozen=True):
    """The instructions of one function."""

    name: Text
    rows: tuple[Instruction, ...]


class CompilerRemark(Struct, frozen=True, gc=False):
    """One remark of the compiler, at a line of the kernel's file (0: unknown)."""

    line: Place
    kind: Literal["vectorized", "missed"]
    text: Text


class MachineCode(Struct, frozen=True, kw_only=True):
    """The machine code of all that a kernel compiles, with the likeliest hot loop first.

    `cut` is the number of instructions that were left out. Of a kernel that launches functions on a
    device there are the lines of its compile `report` alone.
    """

    compiler: Text = ""
    functions: Annotated[tuple[CodeFunction, ...], Meta(max_length=MOST_ROWS)] = ()
    loops: Annotated[tuple[Loop, ...], Meta(max_length=100)] = ()
    remarks: Annotated[tuple[CompilerRemark, ...], Meta(max_length=1000)] = ()
    cut: Place = 0
    report: Annotated[tuple[Text, ...], Meta(max_length=1000)] = ()


class KernelFindings(Struct, frozen=True, kw_only=True):
    """Everything found about a kernel. `left_out` has the reason for each part that is missing.

    Its keys are `machine code`, `hot loop` and `remarks`.
    """

    code: MachineCode = MachineCode()
    left_out: Annotated[dict[Text, Text], Meta(max_length=16)] = {}

    @property
    def is_sound(self) -> bool:
        """Whether the loops lie in the functions, which have no more rows than are told."""
        functions = self.code.functions
        rows = sum(len(function.rows) for function in functions)
        return rows <= MOST_ROWS and all(
            loop.function < len(functions)
            and loop.first <= loop.last < len(functions[loop.function].rows)
            for loop in self.code.loops
        )


class Request(Struct, frozen=True, kw_only=True):
    """The code that the confined process calls. `reference` has the constants of the task in it.

    `devices` are the device files that the process may open, `readable` what else it may read.
    """

    reference: str
    reference_name: str
    kernel: KernelFiles
    threads: int
    devices: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    bounds_address_space: bool = True


class CaseWork(Struct, frozen=True):
    """The work of one call of the reference in one case, or why it is not known.

    `moved_bytes` are inputs, weights and results, each once: the least that a kernel must move.
    `operations` counts two for a multiply-add and one for any other arithmetic on an element.
    `dtype` is that of the arithmetic.
    """

    case: str
    moved_bytes: int = 0
    operations: int = 0
    dtype: str = "float32"
    unknown: str = ""

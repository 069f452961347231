"""What one call of a reference needs, and the messages that ask for it. Plain data.

Both ends are trusted; the text of a refusal comes from untrusted code and is stripped before it
gets here.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from akg_tui.core.task import Task
from akg_tui.problems.inductor.generated import Generated


class Needs(Struct, frozen=True, kw_only=True):
    """The bytes of a reference's data, and the work of one call.

    `peak` is the most bytes that its tensors held at one time, temporaries included; 0 if it was
    not followed. `flops` and `moved` (bytes read as inputs or written by any operator) compare the
    work of two sizes. `operations` are those of one call, two for a multiply-add and one for any
    other arithmetic on an element, most of them on numbers of type `arithmetic`. `functions` names
    the operators that take more than that: exp, tanh and the like. `call_s` is the
    measured time of a call (of one thread: its CPU time), None for fake tensors. `cpu_s` is the CPU
    time of finding all this. `empty` says what has no elements, or is "". `failed` is the fault of
    a call with fake tensors, whose results are then unknown. `written` are the inputs to which the
    reference writes.
    """

    inputs: int
    results: int
    weights: int
    peak: int = 0
    flops: int = 0
    moved: int = 0
    operations: int = 0
    arithmetic: str = ""
    functions: tuple[str, ...] = ()
    call_s: float | None = None
    cpu_s: float = 0.0
    empty: str = ""
    failed: str = ""
    written: tuple[int, ...] = ()

    @property
    def held(self) -> int:
        """The bytes of inputs, results and weights, or of all tensors at once if that is more."""
        return max(self.inputs + self.results + self.weights, self.peak)

    @property
    def work(self) -> float:
        """The work of a call, in the time of an ordinary core; only good for comparisons."""
        return self.flops / 2e10 + self.moved / 4e9


Question = Literal["estimate", "measure", "examine", "generate"]
"""`estimate`: with fake tensors. `measure`: by a real call. `examine`: as the judge examines it.
`generate`: what torch.compile makes of it."""


class Ask(Struct, frozen=True):
    """A question about a reference under the rules, limits and constants of a task."""

    question: Question
    task: Task
    source: str
    filename: str


class Answer(Struct, frozen=True):
    """The needs (none for `examine`) or what was generated, or why the reference can't be used."""

    needs: Needs | None = None
    generated: Generated | None = None
    refused: str = ""

"""What one call of a reference needs, and the messages that ask for it. Plain data.

Both ends are trusted; what a child writes of itself is cleaned before it gets here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from akg_tui.core.task import Task
from akg_tui.evaluate.reference_fault import Fault
from akg_tui.problems.inductor.generated import Generated

LEAST_INTENSITY = 1 / 32
"""One operation on four numbers of double precision."""


class Empty(Struct, frozen=True):
    """A tensor without elements among the inputs or the outputs."""

    of: Literal["input", "output"]
    index: int
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.of} {self.index} has no elements: its shape is {list(self.shape)}"


class Needs(Struct, frozen=True, kw_only=True):
    """The bytes of a reference's data, and the work of one call.

    `peak` is the most bytes that its tensors held at one time, temporaries included; 0 if it was
    not followed. `moved` are the bytes read as inputs or written by any operator. `operations` are
    those of one call, two for a multiply-add and one for any other arithmetic on an element, most
    of them on numbers of type `arithmetic`. `call_s` is the measured time of a call (of one thread:
    its CPU time), None for fake tensors. `cpu_s` is the CPU time of finding all this. `empty` is a
    tensor without elements, if there is one. `failed` is the fault of a call with fake tensors,
    whose results are then unknown. `shapes` are the shapes of the inputs that are tensors;
    `elements` are those of the results.
    """

    inputs: int
    results: int
    weights: int
    peak: int = 0
    moved: int = 0
    operations: int = 0
    arithmetic: str = ""
    call_s: float | None = None
    cpu_s: float = 0.0
    empty: Empty | None = None
    failed: Fault | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    elements: int = 0

    @property
    def intensity(self) -> float:
        """The operations of a call for each byte that it must read or write; 0 if not counted.

        Where they are few, those of the operator that does the work are not among them.
        """
        found = self.operations / max(self.data, 1)
        return found if found >= LEAST_INTENSITY else 0.0

    @property
    def data(self) -> int:
        """The bytes of inputs, results and weights."""
        return self.inputs + self.results + self.weights

    @property
    def held(self) -> int:
        """The bytes of inputs, results and weights, or of all tensors at once if that is more."""
        return max(self.data, self.peak)

    @property
    def work(self) -> float:
        """The work of a call, in the time of an ordinary core; only good for comparisons."""
        return self.operations / 2e10 + self.moved / 4e9


Question = Literal["shapes", "estimate", "measure", "examine", "generate"]
"""`shapes`: of inputs and weights, with fake tensors and no call. `estimate`: with fake tensors.
`measure`: by a real call. `examine`: as the judge examines it. `generate`: what torch.compile makes
of it."""


class Ask(Struct, frozen=True):
    """A question about a reference under the rules, limits and constants of a task."""

    question: Question
    task: Task
    source: str
    filename: str


Structures = dict[str, tuple[str, ...]]
"""The structures of inputs, by name."""


class Answer(Struct, frozen=True):
    """The needs (none for `examine`) or what was generated, or why the reference can't be used.

    `structures` are those of the inputs that `examine` finds, by name, and `contract` sentences on
    how the model is called. `size` is the root mean square of the results, the largest of several,
    and `bound` the error that the judge tolerates in them.
    """

    needs: Needs | None = None
    structures: Structures = {}
    contract: tuple[str, ...] = ()
    size: float = 0.0
    bound: float = 0.0
    generated: Generated | None = None
    refused: Fault | None = None


def in_common(found: Sequence[Structures]) -> Structures:
    """Return the structures that inputs have in all cases."""
    common = {
        name: tuple(word for word in words if all(word in each.get(name, ()) for each in found))
        for name, words in found[0].items()
    }
    return {name: words for name, words in common.items() if words}

"""Loads a reference: describes its data, writes its weights, draws inputs and results.

Runs in a separate child, which ends before a candidate starts; as the baseline it is called like
any kernel. The judge checks everything it writes against the first description.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import inspect
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child import unusual_values
from akg_tui.evaluate.child.faults import Fault, located
from akg_tui.evaluate.child.kernel_server import (
    SEED_MASK,
    Memory,
    Server,
    describe_value,
    first_line,
    map_fd,
    seed_all,
)
from akg_tui.evaluate.child.protocol import (
    KIND_SHIFT,
    REPORT_BYTES,
    VARIANT_SHIFT,
    Description,
    Layout,
    Op,
    Plan,
    Status,
    Variation,
    Want,
)
from akg_tui.evaluate.child.unusual_values import Alteration, InputChange, ValueKind

HALF = (torch.float16, torch.bfloat16)

Nudge = Callable[[object, object], object]
Work = Callable[[Callable[..., object], Sequence[object]], None]
"""Calls a model on inputs, and stores what it returns."""

TRAINED_SHARE = 0.25
"""The largest change of an element of a parameter, as a share of that element; of an element that
is 0, as a share of the root mean square of the parameter."""

UNTRAINED = 1e-2
"""Several elements that are all one number below this, in magnitude, are changed to about
`TRAINED_SHARE`: the scale of a block begins with 1e-6 in some models, and hides that block."""

PERTURBED_AT_ONCE = 1 << 20
"""The elements that are changed at a time: a copy of a large parameter would take its memory again,
several times over in double precision."""


DEVICE_FROM_S = 0.01
"""The least seconds of drawing inputs and calling the model on the host for which results are
computed on the target's device: some hundred calls are saved, and to begin with it takes a second.
"""


STEPS = frozenset(
    {"round", "floor", "ceil", "trunc", "fix", "frac", "fmod", "remainder", "mod", "floordiv"}
    | {"floor_divide", "histc", "histogram", "bucketize", "searchsorted"}
    | {"topk", "argmax", "argmin", "sort", "argsort", "kthvalue"}
)
"""Functions of torch whose results, or the places that they return, change in steps."""

CASTS = frozenset(("to", "type", "long", "int", "short", "char", "byte"))
"""Functions that may make whole numbers of others."""

DECIDED_NUMBERS = 1 << 24
"""Above so many elements no alternatives are computed: the judge would need gigabytes for them."""

SHOWN_BY, SHOWN = 4096.0, 2e-2
"""A comparison decides if a change of the inputs by so many roundings (1 in 4,000) changes a result
by more than this: eighty times as much."""


class LongestReduction(TorchFunctionMode):
    """Finds the most terms that any function of torch adds for one element of its result.

    It also counts the functions that compute, and so round, a result in half precision, and notes
    those after which a rounding of their arguments may change results by much. Only functions
    called by the reference itself are seen, not those inside them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.terms = 1
        self.roundings = 0
        self.steps = False
        """Whether numbers became whole ones, or were put in order."""
        self.compares = False

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Call the function, and note its terms."""
        result = func(*args, **(kwargs or {}))
        values = (*args, *(kwargs or {}).values())
        name = getattr(func, "__name__", "").strip("_")
        self.terms = max(self.terms, _terms(name, values, result))
        self.roundings += _rounds(values, result)
        if any(isinstance(value, torch.Tensor) and value.is_floating_point() for value in values):
            whole = any(map(_is_whole, result if isinstance(result, tuple) else (result,)))
            self.steps = self.steps or name in STEPS or (whole and name in CASTS)
            self.compares = self.compares or whole
        return result


def _terms(name: str, values: Sequence[object], result: object) -> int:
    """Return the number of terms that a function of torch adds for an element of its result."""
    tensors = [value for value in values if isinstance(value, torch.Tensor) and value.numel()]
    if not tensors or not isinstance(result, torch.Tensor) or not result.numel():
        return 1
    first = tensors[0]
    if name in ("linear", "matmul", "mm", "bmm", "mv", "dot", "inner", "vdot"):
        return first.shape[-1] if first.ndim else 1
    if name in ("addmm", "baddbmm", "addbmm", "addmv"):
        return tensors[1].shape[-1] if len(tensors) > 1 else 1
    if name.startswith("conv"):
        return tensors[1].numel() // tensors[1].shape[0] if len(tensors) > 1 else 1
    if name in ("layer_norm", "rms_norm"):
        shape = next((value for value in values if isinstance(value, tuple | list)), ())
        return math.prod(extent for extent in shape if isinstance(extent, int))
    if name == "group_norm":
        groups = next((value for value in values if isinstance(value, int)), 1)
        return max(first.numel() // (first.shape[0] * groups), 1)
    if name in ("instance_norm", "batch_norm"):
        trains = name == "instance_norm" or any(value is True for value in values)
        return first.numel() // first.shape[1] if trains else 1
    if name == "cross_entropy":
        # It adds the classes of each row, and then one number a row.
        classes = first.shape[min(1, first.ndim - 1)]
        return max(classes, first.numel() // (classes * result.numel()))
    terms = max(tensor.numel() for tensor in tensors) // result.numel()
    if any(part in name for part in ("softm", "norm", "cum", "attention", "einsum")):
        terms = max(terms, *(extent for tensor in tensors for extent in tensor.shape))
    return max(terms, 1)


def _is_whole(value: object) -> bool:
    """Return whether a value is a tensor of integers or booleans."""
    if not isinstance(value, torch.Tensor):
        return False
    return not (value.is_floating_point() or value.is_complex())


def _rounds(values: Sequence[object], result: object) -> bool:
    """Return whether a function computed a result in half precision, which is no view."""
    if not isinstance(result, torch.Tensor) or result.dtype not in HALF:
        return False
    given = [value for value in values if isinstance(value, torch.Tensor)]
    return bool(given) and not any(
        value.untyped_storage().data_ptr() == result.untyped_storage().data_ptr() for value in given
    )


class _Exact(NamedTuple):
    """How exact results are computed: from inputs as they are, or changed by `nudge`.

    With `nudge` the inputs differ by a few roundings: no kernel needs to be nearer than the
    resulting difference. `rounded`: in a kernel's precision, because rounding decides near ties.
    `unless_strange`: the inputs stay as they are if they hold infinities or NaN. `of_pair` is 1 for
    the second of a pair, which has the random numbers of the first.
    """

    nudge: Nudge | None = None
    rounded: bool = False
    unless_strange: bool = False
    of_pair: int = 0


class ReferenceServer(Server):
    """Serves `Model`, `get_inputs` and `get_init_inputs`."""

    broken = Status.REFERENCE

    def __init__(self, plan: Plan, memory: Memory) -> None:
        super().__init__(plan, memory)
        self._given: list[object] = []
        self._weights: dict[str, torch.Tensor] = {}
        self._trained: tuple[str, ...] = ()
        self._description: Description | None = None
        self._varied: tuple[Variation, Description] | None = None
        self._base_inputs: list[list[object]] = []
        """Ordinary inputs, from which inputs of other shapes are cut."""
        self._drawn: list[object] = []
        """The inputs of the last ordinary item, which ALTER alters."""
        self._converted: dict[tuple[torch.dtype | None, str], Callable[..., object]] = {}
        """Copies of the model by the precision of their weights, and by device ("": the host)."""
        self._results_on = ""
        """The type of the device that results are computed on; "": the host."""
        self._refused: set[torch.dtype | None] = set()
        """The precisions in which the device failed where the host did not."""
        self._made_in: tuple[torch.dtype | None, ...] = (None, torch.float64)
        """The default dtypes to try for exact results (None: as it is). A tensor that `forward`
        makes by `torch.zeros(n)` has it, and some operators refuse it beside doubles."""
        if plan.threads:
            torch.set_num_threads(plan.threads)

    def start(self) -> int:
        """Load the reference, call it once, and report the memory layout of its data."""
        self.execute()
        seed_all(self.plan.seed)
        self._given = self._ask("get_init_inputs")
        self.model = self.construct("Model", copy.deepcopy(self._given))
        if isinstance(self.model, torch.nn.Module):
            self._trained = perturb_parameters(self.model, self.plan.seed)
            state = self.model.state_dict()
            self._weights = {k: v for k, v in state.items() if isinstance(v, torch.Tensor)}
        if self.plan.device:
            # A baseline on a device draws nothing, and each of its processes would draw inputs.
            self.bind()
            return 0
        seed_all(self.plan.seed)
        began_s = time.perf_counter()
        inputs = self._ask("get_inputs")
        with LongestReduction() as longest:
            results = self._as_tensors(self._run(inputs))
        if self.plan.results_on and time.perf_counter() - began_s >= DEVICE_FROM_S:
            self._results_on = self.plan.results_on
            self._compute(None, inputs, self._begin)
        try:
            decides = self._decides(inputs, results, longest)
            self._description = self._describe(inputs, results, longest, decides=decides)
        except layouts.Unsupported as error:
            raise self._complaint(str(error)) from error
        size = self._report(self._description)
        if not size:
            raise self._complaint("the reference has too many weights to be described")
        self.bind()
        return size

    def _describe(
        self,
        inputs: Sequence[object],
        results: Sequence[torch.Tensor],
        longest: LongestReduction,
        *,
        decides: bool,
    ) -> Description:
        return Description(
            arguments=layouts.lay_out(self._given),
            weights=layouts.lay_out(list(self._weights.values()), list(self._weights)),
            inputs=layouts.lay_out(inputs),
            outputs=layouts.result_layout(layouts.lay_out(results)),
            has_floats=any(r.is_floating_point() or r.is_complex() for r in results),
            trained=self._trained,
            parameters=self._parameters()[: len(inputs)],
            terms=longest.terms,
            roundings=longest.roundings,
            decides=decides,
            strides=tuple(layouts.stride_class(r.shape, r.stride()) for r in results),
        )

    def _decides(
        self, inputs: Sequence[object], results: Sequence[torch.Tensor], longest: LongestReduction
    ) -> bool:
        """Return whether rounding may change results by more than any kernel may err.

        A comparison need not: relu compares too. So exact results are computed, also for inputs
        that are a little different.
        """
        numbers = sum(result.numel() for result in results)
        if longest.steps or not longest.compares or numbers > DECIDED_NUMBERS:
            return longest.steps and numbers <= DECIDED_NUMBERS
        exact: list[torch.Tensor] = []

        def work(model: Callable[..., object], given: Sequence[object]) -> None:
            wide = [_in_precision(value, torch.float64) for value in given]
            nudge = functools.partial(unusual_values.nudged, roundings=SHOWN_BY)
            other = list(map(nudge, wide, given))
            found = [*self._as_tensors(model(*wide)), *self._as_tensors(model(*other))]
            exact[:] = (each.cpu() for each in found)

        if not self._works_in_doubles(inputs, work):
            return False
        own, other = exact[: len(results)], exact[len(results) :]
        return correctness.differ(results, own) or correctness.differ(own, other, SHOWN)

    def _parameters(self) -> tuple[str, ...]:
        try:
            known = inspect.signature(getattr(self.model, "forward", self.model)).parameters
        except (TypeError, ValueError):
            return ()
        places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return tuple(name for name, each in known.items() if each.kind in places)

    def _report(self, description: Description) -> int:
        text = msgspec.json.encode(description)
        if len(text) > REPORT_BYTES:
            return 0
        self.memory["report"][: len(text)] = text
        return len(text)

    def prepare(self, op: int, count: int, draw_args: tuple[int, ...], fds: Sequence[int]) -> int:
        """Serve STATE, VARY, DRAW or ALTER; `draw_args` are seed, first item, and `Want` bits."""
        if self._description is None:
            raise self._complaint("it was not loaded")
        if op == Op.VARY:
            # The memory is sealed, so a writable mapping would fail.
            text = map_fd(fds[0], shared=False)[:].rstrip(b"\0")
            return self._vary(msgspec.json.decode(text, type=Variation), draw_args[0])
        if fds:
            names = ("state",) if op == Op.STATE else ("inputs", "outputs", "exact")
            self.memory |= {name: map_fd(fd) for name, fd in zip(names, fds, strict=False)}
        if op == Op.STATE:
            arguments, state = self._description.arguments, self.memory["state"]
            layouts.store(arguments, self._given, state, 0)
            weights = list(self._weights.values())
            layouts.store(self._description.weights, weights, state, arguments.size)
            return 0
        seed, item, wanted = draw_args
        if op == Op.ALTER:
            return self._alter(count, seed, item, wanted)
        kind, wanted = ValueKind(wanted >> KIND_SHIFT), wanted & ((1 << KIND_SHIFT) - 1)
        if self._varied is not None or kind is not ValueKind.DRAWN:
            return self._draw_unusual(kind, item, seed, wanted)
        made = wanted
        for step in range(count):
            made &= self._draw(self._description, item + step, item_seed(seed, step), wanted)
        return made

    def _vary(self, variation: Variation, seed: int) -> int:
        """Describe varied inputs and their results; return 0 if the reference refuses them.

        A variation without shapes ends an earlier one.
        """
        self._varied = None
        if not variation.shapes:
            return 0
        try:
            inputs = self._vary_inputs(variation, seed)
            with LongestReduction() as longest:
                results = self._as_tensors(self.model(*_copies(inputs)))
            decides = self._description is not None and self._description.decides
            description = self._describe(inputs, results, longest, decides=decides)
        except Exception:  # noqa: BLE001 (that it raises is the answer)
            return 0
        if variation.strided:
            lies = layouts.strided(description.inputs)
            # From permuted inputs any kernel's results may come out permuted.
            description = msgspec.structs.replace(description, inputs=lies, strides=())
        self._varied = variation, description
        return self._report(description)

    def _vary_inputs(self, variation: Variation, seed: int) -> list[object]:
        """Return inputs of other shapes, cut from random places of ordinary ones.

        Ordinary inputs are drawn once, because drawing takes longest, and a candidate sees only the
        parts cut from them.
        """
        rng = random.Random(seed)
        if not self._base_inputs:
            seed_all(seed)
            self._base_inputs.append(self._ask("get_inputs"))
        inputs = list(self._base_inputs[0])
        tensors = {i: value for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)}
        for value, shape in zip(tensors.values(), variation.shapes, strict=True):
            times = [-(-n // max(m, 1)) for n, m in zip(shape, value.shape, strict=True)]
            while len(self._base_inputs) < max(times, default=1):
                self._base_inputs.append(self._ask("get_inputs"))
        for index, shape in zip(tensors, variation.shapes, strict=True):
            inputs[index] = _cut([drawn[index] for drawn in self._base_inputs], shape, rng)
        return inputs

    def _draw_unusual(self, kind: ValueKind, item: int, seed: int, wanted: int) -> int:
        """Draw inputs of a kind of values or of other shapes, as `_draw` does.

        Return 0 if the reference raises: it may refuse inputs that it did not draw.
        """
        try:
            if self._varied is not None:
                variation, known = self._varied
                inputs = self._vary_inputs(variation, seed)
            elif self._description is not None:
                known = self._description
                seed_all(seed)
                inputs = self._ask("get_inputs")
            else:
                return 0
            inputs = unusual_values.apply(kind, inputs, torch.Generator().manual_seed(seed))
        except Exception:  # noqa: BLE001 (that it raises is the answer)
            return 0
        return self._store_unusual(known, inputs, seed, item, wanted)

    def _alter(self, argument: int, seed: int, item: int, wanted: int) -> int:
        """Write the last ordinary inputs with one of them altered, as `_draw_unusual` does.

        Return `Want.UNALTERED` if the alteration changes nothing.
        """
        if self._description is None or argument >= len(self._drawn):
            return Want.UNALTERED
        bits = (1 << KIND_SHIFT) - 1
        alteration = Alteration(wanted >> KIND_SHIFT & bits)
        change = InputChange(argument, alteration, wanted >> VARIANT_SHIFT)
        seed_all(seed)
        rng = torch.Generator().manual_seed(seed)
        inputs = unusual_values.altered(change, self._drawn, lambda: self._ask("get_inputs"), rng)
        if inputs is None:
            return Want.UNALTERED
        return self._store_unusual(self._description, inputs, seed, item, wanted & bits)

    def _store_unusual(
        self, known: Description, inputs: list[object], seed: int, item: int, wanted: int
    ) -> int:
        def work(model: Callable[..., object], given: Sequence[object]) -> None:
            seed_all(seed)
            self._keep(model(*_copies(given)), "outputs", known.outputs, item)

        try:
            self._compute(None, inputs, work)
            layouts.store(known.inputs, inputs, self.memory["inputs"], item * known.inputs.size)
        except Exception:  # noqa: BLE001 (that it raises is the answer)
            return 0
        nudges: list[Nudge] = [unusual_values.nudged]
        nudges += [unusual_values.nudged_in_sums] * (known.nudges - 1)
        if wanted & Want.EXACT and not self._draw_all_exact(known, inputs, seed, item, nudges):
            wanted &= ~Want.EXACT
        return wanted

    def _draw(self, known: Description, item: int, seed: int, wanted: int) -> int:
        """Draw inputs into `item`, and the results that are `wanted` (`Want` bits).

        Return the bits of the results written: a reference may fail to run in double precision.
        """
        seed_all(seed)
        inputs = self._ask("get_inputs")
        if layouts.lay_out(inputs) != known.inputs:
            what = "get_inputs() must return the same shapes, dtypes and constants every time"
            raise self._complaint(what, self.named("get_inputs"))
        layouts.store(known.inputs, inputs, self.memory["inputs"], item * known.inputs.size)
        self._drawn = inputs

        def work(model: Callable[..., object], given: Sequence[object]) -> None:
            seed_all(seed)
            for at in (item, item + 1) if wanted & Want.TWICE else (item,):
                self._keep(self._run(given, model), "outputs", known.outputs, at)

        if wanted & Want.OUTPUT:
            self._compute(None, inputs, work)
        if wanted & Want.EXACT and not self._draw_all_exact(known, inputs, seed, item):
            wanted &= ~Want.EXACT
        return wanted

    def _draw_all_exact(
        self,
        known: Description,
        inputs: Sequence[object],
        seed: int,
        item: int,
        nudges: Sequence[Nudge] = (),
    ) -> bool:
        """Store the exact results of an item: for its inputs, nudged ones, and near ties.

        The latter are in pairs of opposite changes: of two numbers that are nearly equal, each is
        the larger one in one of a pair.
        """
        changes = unusual_values.DECIDED_BY if known.decisions else []
        changes = changes + (unusual_values.near_ties(known.terms) if known.ties else [])
        every = [_Exact()] + [_Exact(nudge, unless_strange=True) for nudge in nudges]
        for number, change in enumerate(changes):
            nudge = functools.partial(unusual_values.nudged, roundings=change)
            every.append(_Exact(nudge, rounded=True, of_pair=number % 2))
        for change in (1.0, -1.0) if known.ties else ():
            every.append(
                _Exact(functools.partial(unusual_values.nudged_by_place, roundings=change))
            )
        first = item * len(every)
        return all(
            self._draw_exact(known, inputs, seed, first + number, each)
            for number, each in enumerate(every)
        )

    def _draw_exact(
        self,
        known: Description,
        inputs: Sequence[object],
        seed: int,
        item: int,
        wanted: _Exact,
    ) -> bool:
        """Store results computed in double precision; return whether that was possible.

        Inputs in half precision that hold infinities or NaN are computed in single precision
        instead where that is `wanted`, as kernels do: some functions give other ones there.
        """
        wide = layouts.result_layout(known.outputs, exact=True)
        strange = wanted.unless_strange and any(map(_is_half_and_not_finite, inputs))
        single = strange or (wanted.rounded and not any(map(_is_double, inputs)))
        dtype = torch.float32 if single else torch.float64

        def work(model: Callable[..., object], given: Sequence[object]) -> None:
            converted = [_in_precision(value, torch.float64) for value in given]
            if wanted.nudge is not None and not strange:
                # Another seed for each item, so that no two nudges are equal.
                seed_all(item_seed(seed, item - wanted.of_pair))
                with _noise_beside(given):
                    converted = list(map(wanted.nudge, converted, given))
            if single:
                converted = [_in_precision(value, dtype) for value in converted]
            seed_all(seed)
            self._keep(model(*converted), "exact", wide, item, convert=True)

        # Without the EXACT flag the judge uses bounds that need no exact results.
        return self._works(dtype, inputs, work) if single else self._works_in_doubles(inputs, work)

    def _works_in_doubles(self, inputs: Sequence[object], work: Work) -> bool:
        """Do `work` in double precision, and return whether that was possible."""
        for made_in in self._made_in:
            with _default_dtype(made_in):
                if self._works(torch.float64, inputs, work):
                    self._made_in = (made_in,)
                    return True
        self._made_in = self._made_in[:1]
        return False

    def _works(self, dtype: torch.dtype, inputs: Sequence[object], work: Work) -> bool:
        """Do `work` in a precision, and return whether that was possible."""
        try:
            self._compute(dtype, inputs, work)
        except Exception:  # noqa: BLE001 (code written for one dtype may fail in any way)
            self._converted.pop((dtype, ""), None)
            return False
        return True

    def _compute(self, dtype: torch.dtype | None, inputs: Sequence[object], work: Work) -> None:
        """Do `work` with a model, its weights in `dtype` (None: their own), and with `inputs`.

        Both are on the target's device if that is worth it, and on the host if the device fails: it
        may lack double precision, an operator or memory, or a model may make tensors on the host.
        """
        device, failed = self._results_on, False
        if device and dtype not in self._refused:
            try:
                _compute_in_full(device)
                if dtype is not None and not _has_doubles(device):
                    raise NotImplementedError
                work(self._model_in(dtype, device), [_moved(value, device) for value in inputs])
            except Exception:  # noqa: BLE001 (what is wrong fails on the host too, and is told then)
                failed = True
                self._converted.pop((dtype, device), None)
            else:
                return
        work(self._model_in(dtype, ""), inputs)
        if failed:
            # Not where the host fails too: a reference may refuse inputs.
            self._refused.add(dtype)

    def _begin(self, model: Callable[..., object], given: Sequence[object]) -> None:
        """Begin with the device, which takes a second that no time limit of drawing may count."""
        for result in self._as_tensors(self._run(given, model)):
            result.cpu()

    def _model_in(self, dtype: torch.dtype | None, device: str) -> Callable[..., object]:
        if dtype is None and not device:
            return self.model
        if (dtype, device) not in self._converted:
            self._converted[dtype, device] = _copied_model(self.model, dtype, device)
        return self._converted[dtype, device]

    def _keep(
        self, result: object, where: str, layout: Layout, item: int, *, convert: bool = False
    ) -> None:
        results = self._as_tensors(result)
        targets = layouts.views(layout, self.memory[where], item * layout.size)
        if [r.shape for r in results] != [t.shape for t in targets] or (
            not convert and [r.dtype for r in results] != [t.dtype for t in targets]
        ):
            what = "forward() must return the same shapes and dtypes every time"
            raise self._complaint(what, self._forward)
        for value, target in zip(results, targets, strict=True):
            target.copy_(value)

    def _ask(self, name: str) -> list[object]:
        """Call `get_inputs` or `get_init_inputs`, and check that a list comes back.

        Numbers of NumPy, as a row of a table has, become Python's.
        """
        function = self.named(name)
        if function is None and name == "get_init_inputs":
            return []
        if not callable(function):
            raise Fault(
                Status.REFERENCE, located(self.plan.filename, 1, f"no function {name} is defined")
            )
        try:
            values = function()
        except BaseException as error:
            raise self.fault(error, Status.REFERENCE, function) from error
        if not isinstance(values, list | tuple):
            raise self._complaint(
                f"{name}() returned {describe_value(values)}, expected a list", function
            )
        return [each.item() if isinstance(each, np.generic) else each for each in values]

    def _run(self, inputs: Sequence[object], model: Callable[..., object] | None = None) -> object:
        try:
            return (model or self.model)(*_copies(inputs))
        except BaseException as error:
            # A call with the wrong arguments fails before any line of the file runs.
            raise self.fault(error, Status.REFERENCE, self._forward) from error

    def _as_tensors(self, result: object) -> tuple[torch.Tensor, ...]:
        results = result if isinstance(result, tuple | list) else (result,)
        tensors = tuple(value for value in results if isinstance(value, torch.Tensor))
        if not results or len(tensors) != len(results):
            what = describe_value(result)
            raise self._complaint(
                f"forward() returned {what}, expected a tensor or a tuple of tensors", self._forward
            )
        return tensors

    @property
    def _forward(self) -> object:
        return getattr(type(self.model), "forward", None)

    def _complaint(self, what: str, function: object = None) -> Fault:
        return Fault(Status.REFERENCE, located(self.plan.filename, first_line(function), what))


def perturb_parameters(model: torch.nn.Module, seed: int) -> tuple[str, ...]:
    """Change every element of the parameters, as training does; return the names of those changed.

    An untrained model has structure that no trained one has: a LayerNorm multiplies by 1 and adds
    0, layers are copies of one layer, a matrix is the identity. A kernel that counts on it would
    seem correct. An element keeps its sign; a zero becomes a small number, and elements that are
    all one number below `UNTRAINED` become about `TRAINED_SHARE`. Real and imaginary parts are
    elements. Parameters that take no gradient change only if all their elements are one number,
    and so do running means and variances of a BatchNorm; other buffers are part of the computation
    and are kept.
    """
    rng = torch.Generator().manual_seed(seed)
    found = dict(model.named_parameters())
    for prefix, module in model.named_modules():
        if isinstance(module, torch.nn.modules.batchnorm._NormBase):
            kept = {name: getattr(module, name) for name in ("running_mean", "running_var")}
            dot = "." if prefix else ""
            found |= {f"{prefix}{dot}{n}": v for n, v in kept.items() if v is not None}
    changed: list[str] = []
    for name in sorted(found.keys() & model.state_dict().keys()):
        value = found[name]
        real = value.is_floating_point()
        if not (real or (value.is_complex() and not value.is_conj())) or not value.numel():
            continue
        flat = value.detach() if real else torch.view_as_real(value.detach())
        parts = torch.split(flat.view(-1), PERTURBED_AT_ONCE) if flat.is_contiguous() else (flat,)
        first = _wide(parts[0]).flatten()[0]
        constant = all(bool((_wide(part) == first).all()) for part in parts)
        if (constant and not first.isfinite()) or not (constant or value.requires_grad):
            continue
        zeros = any(bool((_wide(part) == 0).any()) for part in parts)
        typical = _typical(parts) if zeros else 0.0
        uniform = constant and value.requires_grad and value.numel() > 1
        untrained = uniform and 0 < abs(float(first)) < UNTRAINED
        for part in parts:
            wide = _wide(part)
            noise = torch.rand(part.shape, generator=rng, dtype=wide.dtype)
            noise = noise.mul_(2 * TRAINED_SHARE).sub_(TRAINED_SHARE)
            trained = wide.sign() * (TRAINED_SHARE + noise / 2) if untrained else wide * (1 + noise)
            part.copy_(torch.where(wide == 0, typical * noise, trained))
        changed.append(name)
    return tuple(changed)


def _wide(part: torch.Tensor) -> torch.Tensor:
    """Return a tensor in single precision, or as it is: PyTorch can hardly compute with 8 bits."""
    return part if part.dtype == torch.float64 else part.float()


def _typical(parts: Sequence[torch.Tensor]) -> float:
    """Return the root mean square of the finite elements of a tensor; 1 if it is 0."""
    squares, count = 0.0, 0
    for part in parts:
        wide = _wide(part)
        known = wide[wide.isfinite()]
        squares, count = squares + float(known.double().square().sum()), count + known.numel()
    return math.sqrt(squares / count) or 1.0


def item_seed(seed: int, step: int) -> int:
    """Return the seed of item `step`, derived from one secret number.

    PyTorch's CPU generator keeps 32 bits of a seed (`mt19937` in
    `aten/src/ATen/core/MT19937RNGEngine.h`), so a kernel could find an item's seed by trying all;
    the seeds of other items must not be derivable from it.
    """
    text = seed.to_bytes(8, "little") + step.to_bytes(8, "little")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") & SEED_MASK


def _copies(inputs: Sequence[object]) -> list[object]:
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]


def _cut(drawn: Sequence[object], shape: tuple[int, ...], rng: random.Random) -> torch.Tensor:
    """Return a tensor of `shape`, assembled from parts of tensors of another shape."""
    tensors = [value for value in drawn if isinstance(value, torch.Tensor)]
    for axis, extent in enumerate(shape):
        if extent > tensors[0].shape[axis]:
            tensors = [torch.cat(tensors[i:] + tensors[:i], axis) for i in range(len(tensors))]
        start = rng.randint(0, tensors[0].shape[axis] - extent)
        tensors = [tensor.narrow(axis, start, extent) for tensor in tensors]
    return tensors[0].clone(memory_format=torch.contiguous_format)


def _copied_model(
    model: Callable[..., object], dtype: torch.dtype | None, device: str
) -> Callable[..., object]:
    """Return a copy of a model whose real weights have `dtype` (None: their own), on a device."""
    copied = copy.deepcopy(model)
    if not isinstance(copied, torch.nn.Module):
        return copied
    if device:
        copied = copied.to(device)
    if dtype is None:
        return copied
    return copied.double() if dtype == torch.float64 else copied.float()


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    """Give new tensors `dtype` where none is named; None changes nothing."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype or before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _moved(value: object, device: str) -> object:
    return value.to(device) if isinstance(value, torch.Tensor) else value


def _noise_beside(given: Sequence[object]) -> contextlib.AbstractContextManager[object]:
    """Have new tensors made where the given ones are."""
    places = {value.device for value in given if isinstance(value, torch.Tensor)}
    return places.pop() if len(places) == 1 else contextlib.nullcontext()


@functools.cache
def _has_doubles(device: str) -> bool:
    """Return whether a device computes in double precision, and does not round it in silence."""
    value = torch.tensor([1 + 2**-40], dtype=torch.float64)
    moved = value.to(device)
    return torch.equal((moved * moved).cpu(), value * value)


def _compute_in_full(device: str) -> None:
    """Have a device round neither the factors of a product nor its sums to fewer bits.

    By default convolutions do so on some GPUs (TF32) and NPUs (HF32), and sums in half precision.
    """
    products = torch.backends.cuda.matmul
    torch.backends.cudnn.allow_tf32 = products.allow_tf32 = False
    products.allow_fp16_reduced_precision_reduction = False
    products.allow_bf16_reduced_precision_reduction = False
    module = torch.get_device_module(device)
    for part in ("matmul", "conv"):
        settings = getattr(module, part, None)
        if settings is not None and hasattr(settings, "allow_hf32"):
            settings.allow_hf32 = False


def _in_precision(value: object, dtype: torch.dtype) -> object:
    """Return a copy of a tensor whose real or complex elements have the precision of `dtype`."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_floating_point():
        return value.to(dtype, copy=True)
    return value.to(dtype.to_complex()) if value.is_complex() else value.clone()


def _is_double(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128)


def _is_half_and_not_finite(value: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in (*HALF, *layouts.FLOAT8)
        and not bool(torch.isfinite(layouts.computable(value)).all())
    )

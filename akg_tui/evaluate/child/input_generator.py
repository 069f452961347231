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
from typing import Any, NamedTuple

import msgspec
import torch
from torch.overrides import TorchFunctionMode

from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import input_structure, unusual_values
from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.child.kernel_server import (
    SEED_MASK,
    Memory,
    Server,
    first_line,
    map_fd,
)
from akg_tui.evaluate.child.kernel_weights import perturb_parameters
from akg_tui.evaluate.child.model_call import BrokenContract, ModelCall, Observed, copies, observed
from akg_tui.evaluate.child.unusual_values import Alteration, InputChange, ValueKind
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol import value_tree
from akg_tui.evaluate.protocol.child_protocol import (
    KIND_SHIFT,
    REPORT_BYTES,
    VARIANT_SHIFT,
    Contract,
    Description,
    Op,
    Plan,
    Status,
    Variation,
    Want,
)
from akg_tui.evaluate.protocol.value_tree import Arguments, Flat, described

HALF = (torch.float16, torch.bfloat16)

Nudge = Callable[[object, object], object]
Work = Callable[[Callable[..., object], Sequence[object]], None]
"""Calls a model on inputs, and stores what it returns."""

CHANGES_SOMETIMES = (
    "forward() changes an argument for some inputs only, so it is not always a result"
)

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


class LongestReduction(TorchFunctionMode):
    """Finds the most terms that any function of torch adds for one element of its result.

    It also notes the functions after which a rounding of their arguments may change results by
    much. Only functions called by the reference itself are seen, not those inside them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.terms = 1
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
        self.given = Flat(None, [], [])
        """The constructor's arguments."""
        self.inputs = Flat(None, [], [])
        """The inputs that were drawn last."""
        self._contract: Contract | None = None
        """The contract for the declared shapes."""
        self._stateful: tuple[str, ...] = ()
        self._classes: dict[str, object] = {}
        """The classes of containers that the file's functions returned, by name."""
        self._weights: dict[str, torch.Tensor] = {}
        self._trained: tuple[str, ...] = ()
        self._description: Description | None = None
        self._varied: tuple[Variation, Description] | None = None
        self._base_inputs: list[list[object]] = []
        """Ordinary inputs, from which inputs of other shapes are cut."""
        self._drawn: list[object] = []
        """The last inputs of the declared shapes, which ALTER alters."""
        self._structures: unusual_values.Structures = ()
        self._converted: dict[tuple[torch.dtype | None, str], Callable[..., object]] = {}
        """Copies of the model by the precision of their weights, and by device ("": the host)."""
        self._results_on = ""
        """The type of the device that results are computed on; "": the host."""
        self._refused: set[torch.dtype | None] = set()
        """The precisions in which the device failed where the host did not."""
        self._made_in: tuple[torch.dtype | None, ...] = (None, torch.float64)
        """The default dtypes to try for exact results (None: as it is). A tensor that `forward`
        makes by `torch.zeros(n)` has it, and some operators refuse it beside doubles."""

    def start(self) -> int:
        """Load the reference, call it once, and report the memory layout of its data."""
        self.execute()
        self.load_model()
        if isinstance(self.model, torch.nn.Module):
            self._trained = perturb_parameters(self.model, self.plan.seed)
            state = self.model.state_dict()
            self._weights = {k: v for k, v in state.items() if isinstance(v, torch.Tensor)}
        if self.plan.device:
            # A baseline on a device draws nothing, and each of its processes would draw inputs.
            self.bind()
            return 0
        self.seed(self.plan.seed)
        began_s = time.perf_counter()
        inputs = self.draw_inputs()
        before = copy.deepcopy(self._state())
        with LongestReduction() as longest:
            found = self.observe()
        after = self._state()
        self._stateful = tuple(
            name for name in before if not unusual_values.same_value(before[name], after.get(name))
        )
        if self.plan.results_on and time.perf_counter() - began_s >= DEVICE_FROM_S:
            self._results_on = self.plan.results_on
            self._compute(None, inputs, self._begin)
        try:
            decides = self._decides(inputs, found.results, longest)
            self._description = self._describe(inputs, found, longest, decides=decides)
        except layouts.Unsupported as error:
            raise self._complaint(str(error)) from error
        size = self._report(self._description)
        if not size:
            raise self._complaint("the reference has too many weights to be described")
        self.bind()
        return size

    def load_model(self) -> None:
        """Construct the model with the file's arguments."""
        self.seed(self.plan.seed)
        given = self._asked("get_init_inputs")
        made = self.named("Model")
        self.given = self._flat(_arguments(given, made), "get_init_inputs", made)
        values = copy.deepcopy(self.given.values)
        nested = value_tree.nested_arguments(self.given.group, values, self.class_named)
        self.model = self.construct("Model", nested)

    def draw_inputs(self) -> list[object]:
        """Return fresh inputs as a flat list."""
        drawn = self._asked("get_inputs")
        named = isinstance(drawn, dict)
        arguments = Arguments((), drawn) if named else Arguments(list(drawn))
        found = self._flat(arguments, "get_inputs", self.called_by_name)
        if self._contract is not None and found.group != self._contract.inputs:
            raise self._other_inputs()
        self.inputs = found
        return found.values

    @property
    def called_by_name(self) -> object:
        """What has the names of the model's arguments."""
        return getattr(self.model, "forward", self.model)

    def _state(self) -> dict[str, torch.Tensor]:
        """Return the model's buffers, which a call may change."""
        named = isinstance(self.model, torch.nn.Module)
        return dict(self.model.named_buffers()) if named else {}  # type: ignore[attr-defined]

    def class_named(self, name: str) -> object:
        """Return the class of that name of a container, or what the file binds to the name."""
        return self._classes.get(name) or self.named(name)

    def observe(self) -> Observed:
        """Call the model on the inputs drawn last.

        A model that fails without gradients, and not with them, calls autograd.
        """
        known = self._contract or self.plan.contract
        try:
            found = self._observed(gradients=known.gradients)
        except Fault:
            if known.gradients or self._contract is not None:
                raise
            found = self._observed(gradients=True)
        if self._contract is None:
            self._contract = found.contract
        elif _changing(found.contract) != _changing(self._contract):
            raise self._complaint(CHANGES_SOMETIMES, self._forward)
        return found

    def _observed(self, *, gradients: bool) -> Observed:
        given = self.inputs
        try:
            return observed(
                self.model, given, copies(given.values), self.class_named,
                differentiates=gradients, parameters=parameters_of(self.called_by_name),
            )  # fmt: skip
        except (BrokenContract, layouts.Unsupported) as error:
            raise self._complaint(str(error), self._forward) from error
        except BaseException as error:
            # A call with the wrong arguments fails before any line of the file runs.
            raise self.fault(error, Status.REFERENCE, self._forward) from error

    def _describe(
        self,
        inputs: Sequence[object],
        found: Observed,
        longest: LongestReduction,
        *,
        decides: bool,
    ) -> Description:
        return Description(
            arguments=layouts.lay_out(self.given.values, self.given.names),
            constructor=self.given.group,
            contract=found.contract,
            weights=layouts.lay_out(list(self._weights.values()), list(self._weights)),
            inputs=layouts.lay_out(inputs, self.inputs.names),
            outputs=layouts.result_layout(layouts.lay_out(found.results, found.names)),
            has_floats=any(r.is_floating_point() or r.is_complex() for r in found.results),
            trained=self._trained,
            terms=longest.terms,
            decides=decides,
            strides=tuple(layouts.stride_class(r.shape, r.stride()) for r in found.results),
            stateful=self._stateful,
        )

    def _decides(
        self, inputs: Sequence[object], results: Sequence[torch.Tensor], longest: LongestReduction
    ) -> bool:
        """Return whether rounding may change results by more than any kernel may err.

        A comparison need not: relu compares too. So exact results are computed, also for inputs
        that differ by 4,096 roundings (1 in 4,000), and it decides if results change by eighty
        times as much. Of more than 2**24 numbers the exact results would need gigabytes.
        """
        small = sum(result.numel() for result in results) <= 1 << 24
        if longest.steps or not longest.compares or not small:
            return longest.steps and small
        exact: list[torch.Tensor] = []

        def work(model: Callable[..., object], given: Sequence[object]) -> None:
            wide = [_in_precision(value, torch.float64) for value in given]
            nudge = functools.partial(unusual_values.nudged, roundings=4096.0)
            other = list(map(nudge, wide, given))
            found = [*self._called_on(model, wide), *self._called_on(model, other)]
            exact[:] = (each.cpu() for each in found)

        if not self._works_in_doubles(inputs, work):
            return False
        own, other = exact[: len(results)], exact[len(results) :]
        return correctness.differ(results, own) or correctness.differ(own, other, 2e-2)

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
            layouts.store(arguments, self.given.values, state, 0)
            weights = list(self._weights.values())
            layouts.store(self._description.weights, weights, state, arguments.size)
            return 0
        seed, item, wanted = draw_args
        if op == Op.ALTER:
            return self._alter(count, seed, item, wanted)
        kind, place, wanted = _unpacked(wanted)
        if wanted & Want.UNUSUAL or kind != ValueKind.DRAWN:
            return self._draw_unusual(ValueKind(kind), place - 1, item, seed, wanted)
        made = wanted
        for step in range(count):
            made &= self._draw(self._description, item + step, item_seed(seed, step), wanted)
        return made

    def _vary(self, variation: Variation, seed: int) -> int:
        """Describe varied inputs and their results; return 0 if the reference refuses them.

        A variation without shapes ends an earlier one. The structure of inputs is kept from now on.
        """
        self._varied, self._structures = None, variation.structures
        if not variation.shapes:
            return 0
        try:
            inputs = self._vary_inputs(variation, seed)
            with LongestReduction() as longest:
                self.inputs = self.inputs._replace(values=inputs)
                found = self.observe()
            decides = self._description is not None and self._description.decides
            description = self._describe(inputs, found, longest, decides=decides)
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
        noise, place = torch.Generator().manual_seed(seed), random.Random(seed).random()
        if not self._base_inputs:
            self.seed(seed)
            self._base_inputs.append(self.draw_inputs())
        inputs = list(self._base_inputs[0])
        tensors = {i: value for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)}
        for value, shape in zip(tensors.values(), variation.shapes, strict=True):
            times = [-(-n // max(m, 1)) for n, m in zip(shape, value.shape, strict=True)]
            while len(self._base_inputs) < max(times, default=1):
                self._base_inputs.append(self.draw_inputs())
        extents = {
            before: after
            for value, shape in zip(tensors.values(), variation.shapes, strict=True)
            for before, after in zip(value.shape, shape, strict=True)
        }
        for index, shape in zip(tensors, variation.shapes, strict=True):
            found = _cut([drawn[index] for drawn in self._base_inputs], shape, place)
            words = self._structures[index] if self._structures else ()
            found, like = (
                _fitting(value, tensors[index], extents) for value in (found, tensors[index])
            )
            inputs[index] = input_structure.kept(words, found, like, noise)
        return inputs

    def _draw_unusual(
        self, kind: ValueKind, argument: int, item: int, seed: int, wanted: int
    ) -> int:
        """Draw inputs of a kind of values or of other shapes, as `_draw` does.

        The input at position `argument` alone has such values, if that is not -1. Return 0 if the
        reference raises: it may refuse inputs that it did not draw; `Want.UNALTERED` if the
        inputs' structure allows no values of that kind.
        """
        try:
            if self._varied is not None:
                variation, known = self._varied
                inputs = self._vary_inputs(variation, seed)
            elif self._description is not None:
                known = self._description
                self.seed(seed)
                inputs = self.draw_inputs()
            else:
                return 0
            rng, alone = torch.Generator().manual_seed(seed), argument if argument >= 0 else None
            found = unusual_values.apply(kind, inputs, rng, self._structures, alone)
        except Exception:  # noqa: BLE001 (that it raises is the answer)
            return 0
        if found is None:
            return Want.UNALTERED
        if self._varied is None:
            self._drawn = found
        return self._store_unusual(known, found, seed, item, wanted)

    def _alter(self, argument: int, seed: int, item: int, wanted: int) -> int:
        """Write the last inputs with one of them altered, as `_draw_unusual` does.

        Return `Want.UNALTERED` if the alteration changes nothing.
        """
        if self._description is None or argument >= len(self._drawn):
            return Want.UNALTERED
        alteration, axis, wanted = _unpacked(wanted)
        change = InputChange(argument, Alteration(alteration), axis)
        self.seed(seed)
        rng = torch.Generator().manual_seed(seed)
        drawn, structures = self._drawn, self._structures
        try:
            inputs = unusual_values.altered(change, drawn, self.draw_inputs, rng, structures)
        except RuntimeError:  # a structure that can't be kept, such as of NaN
            return Want.UNALTERED
        if inputs is None:
            return Want.UNALTERED
        return self._store_unusual(self._description, inputs, seed, item, wanted)

    def _store_unusual(
        self, known: Description, inputs: list[object], seed: int, item: int, wanted: int
    ) -> int:
        def work(model: Callable[..., object], given: Sequence[object]) -> None:
            self.seed(seed)
            self._keep(
                self._called_on(model, copies(given), known.contract), "outputs", known, item
            )

        try:
            self._compute(None, inputs, work)
            layouts.store(known.inputs, inputs, self.memory["inputs"], item * known.inputs.size)
        except Exception:  # noqa: BLE001 (that it raises is the answer)
            return 0
        nudges: list[Nudge] = [unusual_values.nudged] * known.nudges
        if wanted & Want.EXACT and not self._draw_all_exact(known, inputs, seed, item, nudges):
            wanted &= ~Want.EXACT
        return wanted

    def _draw(self, known: Description, item: int, seed: int, wanted: int) -> int:
        """Draw inputs into `item`, and the results that are `wanted` (`Want` bits).

        Return the bits of the results written: a reference may fail to run in double precision.
        """
        self.seed(seed)
        inputs = self.draw_inputs()
        if layouts.lay_out(inputs, self.inputs.names) != known.inputs:
            raise self._other_inputs()
        layouts.store(known.inputs, inputs, self.memory["inputs"], item * known.inputs.size)
        self._drawn = inputs

        def work(model: Callable[..., object], given: Sequence[object]) -> None:
            self.seed(seed)
            for at in (item, item + 1) if wanted & Want.TWICE else (item,):
                self._keep(self._run(given, model), "outputs", known, at)

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
        # A change by more would move results that depend on no decision.
        changes = [128.0, -128.0] if known.decisions else []
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
        strange = wanted.unless_strange and any(map(_is_half_and_not_finite, inputs))
        single = strange or (wanted.rounded and not any(map(_is_double, inputs)))
        dtype = torch.float32 if single else torch.float64

        def work(model: Callable[..., object], given: Sequence[object]) -> None:
            converted = [_in_precision(value, torch.float64) for value in given]
            if wanted.nudge is not None and not strange:
                # Another seed for each item, so that no two nudges are equal.
                self.seed(item_seed(seed, item - wanted.of_pair))
                with _noise_beside(given):
                    converted = list(map(wanted.nudge, converted, given))
            if single:
                converted = [_in_precision(value, dtype) for value in converted]
            self.seed(seed)
            self._keep(self._called_on(model, converted, known.contract), "exact", known, item)

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
        for result in self._run(given, model):
            result.cpu()

    def _model_in(self, dtype: torch.dtype | None, device: str) -> Callable[..., object]:
        if dtype is None and not device:
            return self.model
        if (dtype, device) not in self._converted:
            self._converted[dtype, device] = _copied_model(self.model, dtype, device)
        return self._converted[dtype, device]

    def _keep(
        self, results: Sequence[torch.Tensor], where: str, known: Description, item: int
    ) -> None:
        """Store results; the exact ones may have other dtypes."""
        exact = where == "exact"
        layout = layouts.result_layout(known.outputs, exact=True) if exact else known.outputs
        targets = layouts.views(layout, self.memory[where], item * layout.size)
        if [r.shape for r in results] != [t.shape for t in targets] or (
            not exact and [r.dtype for r in results] != [t.dtype for t in targets]
        ):
            what = "forward() must return the same shapes and dtypes every time"
            raise self._complaint(what, self._forward)
        for value, target in zip(results, targets, strict=True):
            target.copy_(value)

    def _asked(self, name: str) -> Any:
        """Call `get_inputs` or `get_init_inputs`; return the list, tuple or dictionary."""
        function = self.named(name)
        if function is None and name == "get_init_inputs":
            return []
        if not callable(function):
            raise self.broken_at(1, f"no function {name} is defined")
        try:
            values = function()
        except BaseException as error:
            raise self.fault(error, Status.REFERENCE, function) from error
        if not isinstance(values, list | tuple | dict):
            what = f"{name}() returned {described(values)}, expected a list or a dictionary"
            raise self._complaint(what, function)
        return values

    def _flat(self, arguments: Arguments, name: str, called: object) -> Flat:
        """Return arguments that a function of the file made as a flat list."""
        try:
            found = value_tree.flat_arguments(arguments, parameters_of(called))
        except layouts.Unsupported as error:
            raise self._complaint(f"{name}(): {error}", self.named(name)) from error
        for each in value_tree.records_in(*arguments.positional, *arguments.named.values()):
            self._classes[type(each).__name__] = type(each)
        return found

    def _run(
        self, inputs: Sequence[object], model: Callable[..., object] | None = None
    ) -> Sequence[torch.Tensor]:
        try:
            return self._called_on(model or self.model, copies(inputs))
        except BaseException as error:
            raise self.fault(error, Status.REFERENCE, self._forward) from error

    def _called_on(
        self,
        model: Callable[..., object],
        inputs: Sequence[object],
        known: Contract | None = None,
    ) -> list[torch.Tensor]:
        """Call a model on inputs that it may change; return its results."""
        contract = known or self._contract or Contract()
        before = {at: v._version for at, v in enumerate(inputs) if isinstance(v, torch.Tensor)}
        found = ModelCall(contract, self.class_named).call(model, inputs)
        results = self._as_tensors(found)
        after = {at: v._version for at, v in enumerate(inputs) if isinstance(v, torch.Tensor)}
        changed = {at for at, version in before.items() if after[at] != version}
        if not changed <= {*contract.changed}:
            raise self._complaint(CHANGES_SOMETIMES, self._forward)
        return results

    def _as_tensors(self, found: Sequence[object]) -> list[torch.Tensor]:
        results = [value for value in found if isinstance(value, torch.Tensor)]
        if len(results) != len(found):
            what = "forward() must return the same shapes and dtypes every time"
            raise self._complaint(what, self._forward)
        return results

    def _other_inputs(self) -> Fault:
        what = "get_inputs() must return the same shapes, dtypes and constants every time"
        return self._complaint(what, self.named("get_inputs"))

    @property
    def _forward(self) -> object:
        return getattr(type(self.model), "forward", None)

    def _complaint(self, what: str, function: object = None) -> Fault:
        return self.broken_at(first_line(function), what)


def _arguments(given: Any, constructor: Any) -> Arguments:
    """Return the constructor's arguments: a list, a dictionary by name, or a list of these two.

    `[list, dict]` are two arguments where the keys name no parameters, or nothing tells them apart.
    """
    if isinstance(given, dict):
        return Arguments((), given)
    match given:
        case [list() | tuple() as positional, dict() as named] if given:
            both = _binds(constructor, *positional, **named)
            if both and (named or not (positional and _binds(constructor, *given))):
                return Arguments(positional, named)
    return Arguments(list(given))


def _binds(function: Any, *positional: object, **named: object) -> bool:
    """Return whether a class or a function can be called so."""
    try:
        inspect.signature(function).bind(*positional, **named)
    except (TypeError, ValueError):
        return False
    return True


def parameters_of(function: Any) -> list[str]:
    """Return the names of the parameters that can be passed by position."""
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, each in known.items() if each.kind in places]


def item_seed(seed: int, step: int) -> int:
    """Return the seed of item `step`, derived from one secret number.

    PyTorch's CPU generator keeps 32 bits of a seed (`mt19937` in
    `aten/src/ATen/core/MT19937RNGEngine.h`), so a kernel could find an item's seed by trying all;
    the seeds of other items must not be derivable from it.
    """
    text = seed.to_bytes(8, "little") + step.to_bytes(8, "little")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") & SEED_MASK


def _changing(contract: Contract) -> object:
    """Return what a contract says of changes to arguments."""
    return contract.changed, contract.after, contract.kept


def _unpacked(wanted: int) -> tuple[int, int, int]:
    """Return the kind, the variant and the `Want` bits of a request."""
    bits = (1 << KIND_SHIFT) - 1
    return wanted >> KIND_SHIFT & bits, wanted >> VARIANT_SHIFT, wanted & bits


def _cut(drawn: Sequence[object], shape: tuple[int, ...], place: float) -> torch.Tensor:
    """Return a tensor of `shape`, assembled from parts of tensors of another shape.

    A part begins at a share `place` of each axis: a square part of a matrix is along its diagonal.
    """
    tensors = [value for value in drawn if isinstance(value, torch.Tensor)]
    for axis, extent in enumerate(shape):
        if extent > tensors[0].shape[axis]:
            tensors = [torch.cat(tensors[i:] + tensors[:i], axis) for i in range(len(tensors))]
        start = int(place * (tensors[0].shape[axis] - extent + 1))
        tensors = [tensor.narrow(axis, start, extent) for tensor in tensors]
    return tensors[0].clone(memory_format=torch.contiguous_format)


def _fitting(value: torch.Tensor, like: torch.Tensor, extents: Mapping[int, int]) -> torch.Tensor:
    """Return integers that fit other extents where those of `like` fit the declared ones.

    Integers of which the largest is in the upper half of an extent, such as lengths, offsets and
    indices, are taken to belong to that extent.
    """
    if not _is_whole(value) or value.dtype is torch.bool or not like.numel():
        return value
    most = int(like.amax())
    extent = min((each for each in extents if most <= each < 2 * most), default=0)
    grown = extents.get(extent, extent) - extent
    if grown < 0:
        return value.clamp(max=max(most + grown, int(like.amin().clamp(max=1))))
    return torch.where(value == extent, value + grown, value)


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

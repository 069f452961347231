"""Values survive the way through shared memory and sockets; descriptions that lie are refused."""

from __future__ import annotations

import mmap

import hypothesis.extra.numpy as hnp
import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.evaluate.protocol import engine_protocol
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol.child_protocol import ConstantSlot, Layout, ScalarSlot, TensorSlot
from akg_tui.evaluate.protocol.engine_protocol import Evaluate, Result
from akg_tui.evaluate.protocol.tensor_layout import Unsupported

tensors = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int64, np.int8, np.bool_]),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
).map(torch.from_numpy)
eights = st.tuples(tensors, st.sampled_from(layouts.FLOAT8)).map(lambda each: each[0].to(each[1]))
numbers = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
constants = st.recursive(
    st.none() | st.text(max_size=5) | st.integers(-9, 9),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
).filter(lambda value: not isinstance(value, int))


def through_memory(values: list[object], item: int = 0) -> list[object]:
    layout = msgspec.json.decode(msgspec.json.encode(layouts.lay_out(values)), type=Layout)
    layout.check()
    memory = mmap.mmap(-1, layout.size * (item + 1) + mmap.PAGESIZE)
    layouts.store(layout, values, memory, item * layout.size)
    return layouts.load(layout, memory, item * layout.size)


@given(st.lists(tensors | eights | numbers | constants, max_size=5), st.integers(0, 2))
def test_values_come_out_as_they_went_in(values: list[object], item: int) -> None:
    for before, after in zip(values, through_memory(values, item), strict=True):
        if isinstance(before, torch.Tensor):
            assert isinstance(after, torch.Tensor)
            assert after.dtype == before.dtype
            same = (layouts.computable(each).nan_to_num() for each in (after, before))
            assert torch.equal(*same)
        else:
            assert type(after) is type(before)
            assert after == before


def test_the_order_of_dimensions_is_kept_and_gaps_are_not() -> None:
    turned = torch.randn(3, 4).t()
    gapped = torch.randn(4, 6)[:, ::2]
    spread = torch.randn(1, 3).expand(5, 3)
    turned_out, gapped_out, spread_out = through_memory([turned, gapped, spread])
    assert isinstance(turned_out, torch.Tensor)
    assert isinstance(gapped_out, torch.Tensor)
    assert isinstance(spread_out, torch.Tensor)
    assert turned_out.stride() == turned.stride()
    assert gapped_out.is_contiguous()
    assert spread_out.is_contiguous()
    assert torch.equal(gapped_out, gapped)
    assert torch.equal(spread_out, spread)


def test_results_are_contiguous_and_may_be_widened() -> None:
    layout = layouts.lay_out([torch.zeros(3, 4).t(), torch.zeros(2, dtype=torch.int32)])
    plain, wide = layouts.result_layout(layout), layouts.result_layout(layout, exact=True)
    assert [slot.stride for slot in plain.tensors] == [(3, 1), (1,)]
    assert [slot.dtype for slot in wide.tensors] == ["float64", "int32"]


SPARSE, META = torch.zeros(2).to_sparse(), torch.zeros(1).to("meta")
FLOAT4 = torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)


@pytest.mark.parametrize("value", [object(), {1: 2}, [torch.zeros(1)], SPARSE, META, FLOAT4])
def test_what_can_not_be_passed_is_refused(value: object) -> None:
    with pytest.raises(Unsupported, match="value 0 is a"):
        layouts.lay_out([value])


@pytest.mark.parametrize(
    "layout",
    [
        Layout((TensorSlot("float32", (100,), (1,), 0),), 64),
        Layout((TensorSlot("float32", (2,), (1,), -8),), 64),
        Layout((TensorSlot("float32", (2,), (-1,), 0),), 64),
        Layout((TensorSlot("float32", (2, 2), (1,), 0),), 64),
        Layout((TensorSlot("object", (2,), (1,), 0),), 64),
        Layout((ScalarSlot("int", 64),), 64),
        Layout((ConstantSlot("1"),), 1 << 50),
    ],
)
def test_a_description_that_reaches_outside_is_refused(layout: Layout) -> None:
    with pytest.raises(ValueError, match=r"outside|description|not allowed"):
        layout.check()


def test_earlier_log_ratios_reach_the_judge_and_come_back_exactly() -> None:
    prior = (0.1, -1 / 3, 5e-324)
    request = Evaluate(number=1, kernel=KernelFiles({"kernel.py": ""}), label="", prior=prior)
    assert engine_protocol.decode_for_judge(engine_protocol.encode(request)) == request
    found = Measurement(outcome=Outcome.CORRECT, log_ratios=prior, undecided=True)
    answer = engine_protocol.encode(Result(1, found))
    assert engine_protocol.decode_for_engine(answer) == Result(1, found)
